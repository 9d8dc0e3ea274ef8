"""See `sparkflow.client.device_lib`."""

from sparkflow.client.device_lib import list_local_devices

__all__ = ["list_local_devices"]
