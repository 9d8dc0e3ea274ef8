"""`from sparkflow.python.client import timeline, device_lib`.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(__name__, {}, "device_lib session timeline")
