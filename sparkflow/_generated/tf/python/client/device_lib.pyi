"""The devices of this process.

Made by `scripts/generate_api.py`.
"""

from sparkflow.client.device_lib import list_local_devices

__all__ = [
    "list_local_devices",
]
