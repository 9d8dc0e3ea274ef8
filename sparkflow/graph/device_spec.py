"""`tf.DeviceSpec`: the name of a device, in parts."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export

_PARTS = ("job", "replica", "task", "device_type", "device_index")


@export("DeviceSpec")
class DeviceSpec:
    """A device's name, of which any part may be missing.

    Args:
        job: The job's name.
        replica: The replica's number.
        task: The task's number.
        device_type: `CPU` or `GPU`.
        device_index: The device's number.
    """

    def __init__(
        self,
        job: str | None = None,
        replica: int | None = None,
        task: int | None = None,
        device_type: str | None = None,
        device_index: int | None = None,
    ) -> None:
        self.job = None if job is None else str(job)
        self.replica = None if replica is None else int(replica)
        self.task = None if task is None else int(task)
        self.device_type = _type(device_type)
        self.device_index = None if device_index is None else int(device_index)

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Reads a name such as `/job:ps/replica:0/task:1/device:CPU:0`, `/gpu:0` or `cpu:0`.

        Raises:
            ValueError: It is no device's name.
        """
        return cls().parse_from_string(spec)

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Replaces all parts by those of a device name and returns itself.

        Raises:
            ValueError: It is no device's name.
        """
        found: dict[str, Any] = dict.fromkeys(_PARTS)
        for part in spec.split("/"):
            words = part.split(":")
            key, rest = words[0], words[1:]
            if part == "":
                continue
            if key in ("job", "replica", "task") and len(rest) == 1:
                found[key] = rest[0] if key == "job" else int(rest[0])
            elif key == "device" and len(rest) in (1, 2):
                self._take_device(found, rest[0], rest[1] if len(rest) == 2 else "*", spec)
            elif key.upper() in ("CPU", "GPU") and len(rest) == 1:
                self._take_device(found, key, rest[0], spec)
            else:
                raise ValueError(f"Unknown attribute: '{key}' in '{spec}'")
        for name, value in found.items():
            setattr(self, name, value)
        return self

    @staticmethod
    def _take_device(found: dict[str, Any], kind: str, index: str, spec: str) -> None:
        if found["device_type"] is not None:
            raise ValueError(f"Cannot specify multiple device types: '{spec}'")
        found["device_type"] = None if kind == "*" else _type(kind)
        found["device_index"] = None if index == "*" else int(index)

    def merge_from(self, dev: DeviceSpec) -> None:
        """Overwrites its parts with those set in `dev`."""
        for name in _PARTS:
            value = getattr(dev, name)
            if value is not None:
                setattr(self, name, value)

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """A new DeviceSpec with the parts set in `dev`, and otherwise those of this one."""
        merged = self.replace()
        merged.merge_from(dev)
        return merged

    def replace(self, **kwargs: Any) -> DeviceSpec:
        """A new name with some parts exchanged."""
        return DeviceSpec(**{**{name: getattr(self, name) for name in _PARTS}, **kwargs})

    def to_string(self) -> str:
        """The name in full spelling, of the parts there are."""
        text = ""
        if self.job is not None:
            text += f"/job:{self.job}"
        if self.replica is not None:
            text += f"/replica:{self.replica}"
        if self.task is not None:
            text += f"/task:{self.task}"
        if self.device_type is not None:
            index = "*" if self.device_index is None else self.device_index
            text += f"/device:{self.device_type}:{index}"
        return text

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _PARTS)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        parts = [f"{n}={getattr(self, n)!r}" for n in _PARTS if getattr(self, n) is not None]
        return f"DeviceSpec({', '.join(parts)})"


def _type(device_type: str | None) -> str | None:
    """`cpu` and `gpu` are written in capitals, as TensorFlow does."""
    if device_type is None:
        return None
    return device_type.upper() if device_type in ("cpu", "gpu") else str(device_type)
