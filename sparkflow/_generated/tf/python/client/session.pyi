"""Sessions, as TensorFlow has them in this module too.

Made by `scripts/generate_api.py`.
"""

from sparkflow.session.session import BaseSession, InteractiveSession, Session

__all__ = [
    "BaseSession",
    "InteractiveSession",
    "Session",
]
