"""Device names such as `/job:ps/replica:0/task:1/device:GPU:0`, short forms, and merging."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from sparkflow_runtime.errors import InvalidArgumentError

_PART = re.compile(
    r"/+(?=/)"  # TensorFlow programs write "/" + "/cpu:0"
    r"|/job:(?P<job>[A-Za-z0-9_.-]+)"
    r"|/replica:(?P<replica>\d{1,9}|\*)"
    r"|/task:(?P<task>\d{1,9}|\*)"
    r"|/device:(?P<type>[A-Za-z][A-Za-z0-9_]*|\*)(?::(?P<index>\d{1,9}|\*))?"
    r"|/(?P<short>cpu|gpu|CPU|GPU):(?P<short_index>\d{1,9}|\*)"
)


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A possibly partial device name; None means not given."""

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None

    @classmethod
    def from_string(cls, text: str) -> DeviceSpec:
        """Parses any of TensorFlow's spellings.

        Raises:
            InvalidArgumentError: `text` is not a device name.
        """
        return _parse(text)

    def to_string(self) -> str:
        """The name in full spelling, with the given parts only."""
        parts = []
        if self.job is not None:
            parts.append(f"/job:{self.job}")
        if self.replica is not None:
            parts.append(f"/replica:{self.replica}")
        if self.task is not None:
            parts.append(f"/task:{self.task}")
        if self.device_type is not None:
            index = "*" if self.device_index is None else self.device_index
            parts.append(f"/device:{self.device_type}:{index}")
        return "".join(parts)

    def merged_over(self, outer: DeviceSpec) -> DeviceSpec:
        """Returns this name with missing parts taken from `outer` (an enclosing scope)."""
        kind, index = self.device_type, self.device_index
        if kind is None:
            kind, index = outer.device_type, outer.device_index
        return DeviceSpec(
            job=outer.job if self.job is None else self.job,
            replica=outer.replica if self.replica is None else self.replica,
            task=outer.task if self.task is None else self.task,
            device_type=kind,
            device_index=index,
        )

    def matches(self, full: DeviceSpec) -> bool:
        """Whether the complete name `full` matches every given part."""
        return (
            self.job in (None, full.job)
            and self.replica in (None, full.replica)
            and self.task in (None, full.task)
            and self.device_type in (None, full.device_type)
            and self.device_index in (None, full.device_index)
        )

    @property
    def task_name(self) -> str:
        """The task part only, such as `/job:ps/replica:0/task:1`."""
        return replace(self, device_type=None, device_index=None).to_string()


@lru_cache(maxsize=4096)
def _parse(text: str) -> DeviceSpec:
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            raise InvalidArgumentError(
                message=f"{text[:200]!r} is not a device name; expected parts such as "
                "'/job:ps/task:0/device:CPU:0'"
            )
        found.update({key: value for key, value in match.groupdict().items() if value is not None})
        position = match.end()
    kind = found.get("type") or found.get("short")
    index = found.get("index") or found.get("short_index")
    return DeviceSpec(
        job=found.get("job"),
        replica=_number(found.get("replica")),
        task=_number(found.get("task")),
        device_type=None if kind in (None, "*") else str(kind).upper(),
        device_index=_number(index),
    )


def _number(text: str | None) -> int | None:
    return None if text in (None, "*") else int(str(text))


def task_of(device: str) -> str:
    """Returns the task of a complete device name, such as `/job:ps/replica:0/task:1`."""
    return device.rpartition("/device:")[0]


def merge(inner: str, outer: str) -> str:
    """Returns device scope `inner` opened inside `outer`, as one name."""
    return DeviceSpec.from_string(inner).merged_over(DeviceSpec.from_string(outer)).to_string()
