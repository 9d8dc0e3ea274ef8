"""Devices of this machine, and which of them sessions without a ConfigProto use."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkflow.client.device_lib import list_local_devices
from sparkflow.session_defaults import defaults


class PhysicalDevice(NamedTuple):
    """A device of the machine.

    Attributes:
        name: `/physical_device:CPU:0` and so on.
        device_type: `CPU` or `GPU`.
    """

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device as nodes are pinned to it.

    Attributes:
        name: `/device:CPU:0` and so on.
        device_type: `CPU` or `GPU`.
    """

    name: str
    device_type: str


_hidden: set[PhysicalDevice] = set()
"""What sessions without a ConfigProto do not use; the lock of `defaults` guards it."""


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of the machine, of one type if it is given."""
    return [
        PhysicalDevice(f"/physical_device:{device.name.removeprefix('/device:')}", kind)
        for device in list_local_devices()
        if (kind := device.device_type) == device_type or device_type is None
    ]


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The devices that nodes can be pinned to, of one type if it is given."""
    return [
        LogicalDevice(device.name.replace("/physical_device:", "/device:"), device.device_type)
        for device in get_visible_devices(device_type)
    ]


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices that sessions without a ConfigProto use, of one type if it is given."""
    with defaults.lock:
        hidden = set(_hidden)
    return [each for each in list_physical_devices(device_type) if each not in hidden]


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Chooses the devices that sessions without a ConfigProto use.

    Args:
        devices: A device or a list of them, or nothing for none.
        device_type: Devices of other types stay as they are.

    Raises:
        ValueError: A device does not exist, or GPUs are left out that come before a chosen one.
    """
    chosen = [devices] if isinstance(devices, PhysicalDevice) else list(devices or ())
    there = list_physical_devices(device_type)
    for device in chosen:
        if device not in there:
            raise ValueError(f"Unrecognized device: {device!r}; there are {there}")
    gpus = [each for each in there if each.device_type == "GPU"]
    visible = [each for each in gpus if each in chosen]
    if visible != gpus[: len(visible)]:
        raise ValueError(f"Only the first GPUs can be chosen, got {visible} of {gpus}")
    with defaults.lock:
        _hidden.difference_update(there)
        _hidden.update(each for each in there if each not in chosen)
        if gpus:
            defaults.config.device_count["GPU"] = len(visible)


def get_soft_device_placement() -> bool:
    """Whether sessions without a ConfigProto fall back to the CPU."""
    return defaults.config.allow_soft_placement


def set_soft_device_placement(enabled: bool) -> None:
    """Sets whether sessions without a ConfigProto fall back to the CPU."""
    defaults.config.allow_soft_placement = enabled
