"""`tf.config`: the devices of this machine, and what sessions without a ConfigProto do."""

from sparkflow._api.loading import answers
from sparkflow.config import experimental, threading
from sparkflow.config.devices import (
    LogicalDevice,
    PhysicalDevice,
    get_soft_device_placement,
    get_visible_devices,
    list_logical_devices,
    list_physical_devices,
    set_soft_device_placement,
    set_visible_devices,
)

__getattr__ = answers("config")

__all__ = [
    "LogicalDevice",
    "PhysicalDevice",
    "experimental",
    "get_soft_device_placement",
    "get_visible_devices",
    "list_logical_devices",
    "list_physical_devices",
    "set_soft_device_placement",
    "set_visible_devices",
    "threading",
]
