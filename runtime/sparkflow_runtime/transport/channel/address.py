"""The address at which a task accepts tensor channels: TCP, and on Linux an abstract unix socket.

Also the choice of transport for tensors.
"""

from __future__ import annotations

import contextlib
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from sparkflow_runtime.errors import FailedPreconditionError
from sparkflow_runtime.protos import worker_pb2

Transport = Literal["auto", "tcp", "unix", "shm", "grpc"]
"""How tensors travel. "auto": in shared memory and through unix sockets within a host, by TCP to
others, and by gRPC where a task has no channel. "unix": without shared memory. "tcp", "grpc":
nothing else. "shm": as "auto", but nothing else within a host."""
TRANSPORTS: Final = ("auto", "tcp", "unix", "shm", "grpc")

SHARING: Final = ("auto", "shm")
"""The transports that share memory."""

MAX_UNIX_NAME: Final = 100
"""The kernel takes 107 bytes after the zero byte that makes a name abstract."""
_WILDCARDS: Final = ("0.0.0.0", "::")  # noqa: S104  (nothing is bound here)
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ChannelAddress:
    """The address of a task's listener.

    Attributes:
        host: Name or address, an IPv6 one without brackets.
        port: TCP port.
        unix_name: Name of the abstract unix socket, without its leading zero byte; "" without one.
        host_id: Equal only for tasks on one host; "" if it cannot be determined.
    """

    host: str
    port: int
    unix_name: str = ""
    host_id: str = ""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_here(self) -> bool:
        """Whether the task is on the caller's host, so that its unix socket can be tried."""
        return bool(self.unix_name) and bool(self.host_id) and self.host_id == own_host_id()

    @property
    def unix_address(self) -> str:
        """The name in the form that `socket.connect` and `socket.bind` accept."""
        return "\0" + self.unix_name

    def export(self) -> worker_pb2.ChannelAddress:
        """Returns the address as a message."""
        return worker_pb2.ChannelAddress(
            host=self.host, port=self.port, unix_name=self.unix_name, host_id=self.host_id
        )

    @classmethod
    def from_proto(
        cls, message: worker_pb2.ChannelAddress, asked_at: str = ""
    ) -> ChannelAddress | None:
        """Returns the address in a message; None if it contains none that can be dialled.

        Args:
            message: The task's description of itself.
            asked_at: The `host:port` that answered. Its host is used if the task listens on all
                addresses and has no advertised one.
        """
        host = message.host
        if host in _WILDCARDS:
            host = asked_at.rpartition(":")[0].strip("[]") or host
        if not host or not 0 < message.port < 1 << 16:
            return None
        unix_name = message.unix_name
        if len(unix_name.encode()) > MAX_UNIX_NAME or "\0" in unix_name:
            unix_name = ""
        return cls(host, message.port, unix_name, message.host_id)


def require_transport(transport: Any) -> Transport:
    """Returns the requested transport.

    Raises:
        FailedPreconditionError: There is no such transport.
    """
    if transport not in TRANSPORTS:
        raise FailedPreconditionError(
            message=f"The transport {transport!r} is none of {', '.join(TRANSPORTS)}"
        )
    return transport  # type: ignore[no-any-return]  # checked


def own_host_id() -> str:
    """Returns what identifies this host: the kernel's boot id; "" if there is none.

    Containers on one host have the same id. Their abstract sockets belong to the network namespace
    and may be unreachable; dialling finds out.
    """
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return ""


def new_unix_name() -> str:
    """Returns a unique name for an abstract unix socket; "" if the system has no such sockets."""
    return f"sparkflow-{secrets.token_hex(16)}" if sys.platform == "linux" else ""
