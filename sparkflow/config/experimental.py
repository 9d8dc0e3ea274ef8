"""`tf.config.experimental`: the names that `tf.config` had first."""

from __future__ import annotations

from sparkflow._api.loading import answers
from sparkflow.config.devices import (
    PhysicalDevice,
    get_visible_devices,
    list_logical_devices,
    list_physical_devices,
    set_visible_devices,
)
from sparkflow.session_defaults import defaults

__getattr__ = answers("config.experimental")

__all__ = [
    "get_memory_growth",
    "get_visible_devices",
    "list_logical_devices",
    "list_physical_devices",
    "set_memory_growth",
    "set_visible_devices",
]


def get_memory_growth(device: PhysicalDevice) -> bool:
    """Whether memory of a GPU is taken as it is needed, as it always is here."""
    return True


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Accepted: memory of a GPU is always taken as it is needed."""
    defaults.config.gpu_options.allow_growth = enable
