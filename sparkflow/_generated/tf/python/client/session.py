"""Sessions, as TensorFlow has them in this module too.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow.session.session": "BaseSession InteractiveSession Session",
    },
)
