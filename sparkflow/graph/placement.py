"""Which device new nodes of one graph ask for: device scopes, device functions, colocation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from sparkflow.graph.device_spec import DeviceSpec
from sparkflow_runtime.device.names import merge
from sparkflow_runtime.ir.node import CLASS_ATTR, COLOCATION_PREFIX

if TYPE_CHECKING:
    from sparkflow.graph.operation import Operation

DeviceFunction: TypeAlias = "Callable[[Operation], Any]"


class Placement:
    """The device scopes and colocations that are open in a graph."""

    def __init__(self) -> None:
        # Outermost first. None forgets what is further out.
        self._devices: list[str | DeviceFunction | None] = []
        self._colocated: list[Operation] = []
        self._group: str | None = None

    @property
    def is_free(self) -> bool:
        """Whether nodes made now are left where the master likes."""
        return not self._devices and not self._colocated and self._group is None

    @property
    def is_by_device(self) -> bool:
        """Whether a device scope is open, and no colocation in it."""
        return bool(self._devices) and not self._colocated and self._group is None

    @contextmanager
    def device(self, device: Any) -> Iterator[None]:
        """Opens a device scope: a name, a function of the operation, or None to forget others.

        Raises:
            ValueError: The name is not a device name.
        """
        if device is not None and not callable(device):
            device = _text(device)
        self._devices.append(device)
        try:
            yield
        finally:
            self._devices.pop()

    @contextmanager
    def colocated(self, op: Operation | None, ignore_existing: bool) -> Iterator[None]:
        """Puts nodes where `op` is; None with `ignore_existing` forgets colocations.

        Device scopes are suspended inside, because the colocation decides.
        """
        devices, colocated = self._devices, self._colocated
        if op is not None:
            self._devices = []
        self._colocated = [] if ignore_existing else list(colocated)
        if op is not None:
            self._colocated.append(op)
        try:
            yield
        finally:
            self._devices, self._colocated = devices, colocated

    @contextmanager
    def grouped(self, name: str) -> Iterator[None]:
        """Puts nodes where the node `name` will be, which need not exist yet."""
        outer, self._group = self._group, name
        try:
            yield
        finally:
            self._group = outer

    def apply(self, op: Operation) -> None:
        """Gives a new node its device and colocation groups."""
        for device in reversed(self._devices):
            if device is None:
                break
            if callable(device):
                found = device(op)
                # As it is: functions of TensorFlow programs compare what they wrote.
                op._set_device(found if isinstance(found, str) else _text(found))
            elif device:
                op._set_device(merge(op.device, device) if op.device else device)
        if not self._colocated:
            if self._group is not None:
                op._set_attr(CLASS_ATTR, [f"{COLOCATION_PREFIX}{self._group}"])
            return
        groups: set[str] = set()
        for other in self._colocated:
            groups.update(group.decode() for group in other.colocation_groups())
            if other.device:
                op._set_device(other.device)
        op._set_attr(CLASS_ATTR, sorted(groups))


def _text(device: Any) -> str:
    """A device's name in full spelling, from a name or anything with `to_string`."""
    if device is None:
        return ""
    text = device if isinstance(device, str) else str(device.to_string())
    return DeviceSpec.from_string(text).to_string()
