"""Where the processes of a job listen: the ports, and the address of each machine."""

from __future__ import annotations

import contextlib
import ipaddress
import random
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from sparkflow_runtime.errors import ResourceExhaustedError, UnavailableError

Listening = TypeVar("Listening")

_MOST: Final = 65535
_LEAST_PORT: Final = 15000
"""The lowest port; those below belong to well-known services."""
_DRAWN: Final = 16
# Another process may take a port between the check and its use.
_PASSES: Final = 3


@dataclass(frozen=True, slots=True)
class Ports:
    """A range of ports, both ends included; 0 lets the system choose any free one."""

    first: int = 0
    last: int = 0

    @classmethod
    def of(cls, value: object) -> Ports:
        """Parses `40000-40100`, `40000` (or the number), or "" for any ports.

        Raises:
            TypeError: The value is neither a string nor a number.
            ValueError: The value is not a valid range of ports.
        """
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise TypeError(
                f"ports must be a string such as '40000-40100' or a number, got {value!r}"
            )
        text = str(value).strip()
        if not text:
            return cls()
        found = re.fullmatch(r"(\d{1,5})(?:\s*-\s*(\d{1,5}))?", text, re.ASCII)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= _MOST:
            raise ValueError(
                f"ports={value!r}: use one port or a range from 1 to {_MOST}, such as '40000-40100'"
            )
        return cls(first, last)

    def __str__(self) -> str:
        if not self.first:
            return ""
        return f"{self.first}-{self.last}" if self.last > self.first else str(self.first)

    def listen(
        self, host: str, count: int, make: Callable[[Sequence[int]], Listening]
    ) -> Listening:
        """Calls `make` with the first free ports and returns its result.

        Args:
            host: The address to listen on.
            count: The number of ports needed.
            make: Listens on the ports; raises `UnavailableError` if one has been taken meanwhile.

        Raises:
            ResourceExhaustedError: Too few of the ports are free.
        """
        if not self.first:
            return make([0] * count)
        for _ in range(_PASSES):
            begin = self.first
            while len(free := self._free(host, begin, count)) == count:
                try:
                    return make(free)
                except UnavailableError:
                    begin = free[0] + 1
        number = self.last - self.first + 1
        raise ResourceExhaustedError(
            message=f"ports={self} on {socket.gethostname()} ({host}): {count} of these "
            f"{number} ports must be free, but fewer are. Each task needs two, a worker that hosts "
            "a parameter server four, and the driver one: widen the range, or check which "
            "processes use them (ss -ltnp)"
        )

    def listen_later(self, host: str, hold: Callable[[int], Listening]) -> Listening:
        """Calls `hold` with a free port that another process will listen on later.

        Until then no process holds the port. The system would choose an ephemeral port, which it
        also assigns to outgoing connections, so a port below that range is used if one is free.

        Args:
            host: The address to listen on.
            hold: Binds the port; raises `UnavailableError` if it is in use.

        Raises:
            ResourceExhaustedError: None of the ports is free.
        """
        if self.first:
            return self.listen(host, 1, lambda found: hold(found[0]))
        below = range(_LEAST_PORT, _least_of_clients())
        # Forked workers would all draw the same numbers from `random` itself.
        for port in random.SystemRandom().sample(below, min(_DRAWN, len(below))):
            with contextlib.suppress(UnavailableError):
                return hold(port)
        return hold(0)

    def _free(self, host: str, begin: int, count: int) -> list[int]:
        """Returns the first ports from `begin` on that are not in use, at most `count`."""
        found: list[int] = []
        for port in range(begin, self.last + 1):
            if len(found) == count:
                break
            if _is_free(host.strip("[]"), port):
                found.append(port)
        return found


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the processes of a job listen.

    Attributes:
        ports: The ports to listen on.
        interface: Selects one of a machine's addresses: the name of an interface (`eth0`), an
            address or a network (`10.1.0.0/16`); "" for the address that the driver sees.
    """

    ports: Ports = Ports()
    interface: str = ""


def _least_of_clients() -> int:
    """Returns the first ephemeral port of this system; Linux's default if it is unknown."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32768


def require_interface(value: object) -> str:
    """Checks the name of an interface, an address, a network, or "", and returns it.

    Raises:
        TypeError: The value is not a string.
        ValueError: The value has a slash but is not a network.
    """
    if not isinstance(value, str):
        raise TypeError(f"a string such as 'eth0' or '10.1.0.0/16' is needed, got {value!r}")
    text = value.strip()
    if "/" in text and network_of(text) is None:
        raise ValueError(
            f"interface={value!r} is not a network such as '10.1.0.0/16' or 'fd00::/8'"
        )
    return text


def network_of(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Parses a network; an address becomes a network of one address, a name None."""
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None


def joined(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As listening sockets do: connections that have just ended do not hold a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
