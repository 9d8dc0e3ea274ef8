"""`from sparkflow.python.client import timeline, device_lib`.

Made by `scripts/generate_api.py`.
"""

from sparkflow._generated.tf.python.client import device_lib, session, timeline

__all__ = [
    "device_lib",
    "session",
    "timeline",
]
