"""The devices of this machine."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow_runtime.master.client import open_session
from sparkflow_runtime.protos.config_pb2 import ConfigProto
from sparkflow_runtime.protos.device_attributes_pb2 import DeviceAttributes


@export("python.client.device_lib.list_local_devices")
def list_local_devices(session_config: ConfigProto | None = None) -> list[DeviceAttributes]:
    """The devices a session in this process may use, the CPU first.

    Args:
        session_config: Says how many GPUs to use, by `device_count`.
    """
    client = open_session("", config=session_config)
    try:
        devices = client.list_devices()
    finally:
        client.close()
    found = []
    for device in devices:
        local: Any = DeviceAttributes()
        local.CopyFrom(device)
        # TensorFlow leaves the task out here.
        local.name = f"/device:{device.name.rpartition('/device:')[2]}"
        found.append(local)
    return sorted(found, key=lambda device: device.device_type != "CPU")
