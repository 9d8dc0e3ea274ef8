"""Description of a device, returned by `Session.list_devices`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """One device of a session.

    Attributes:
        name: The complete name.
        device_type: `CPU` or `GPU`.
        memory_limit_bytes: How much memory it gives out; 0 when unknown.
        incarnation: A number that differs each time its task starts.
    """

    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int

    @classmethod
    def of(cls, attributes: Any) -> DeviceDescription:
        """From the message of the master."""
        return cls(
            attributes.name,
            attributes.device_type,
            attributes.memory_limit,
            attributes.incarnation,
        )

    def __repr__(self) -> str:
        return (
            f"_DeviceAttributes({self.name}, {self.device_type}, {self.memory_limit_bytes}, "
            f"{self.incarnation})"
        )
