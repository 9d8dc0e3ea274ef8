"""A simulated machine: a network namespace behind a cable that can be pulled.

Needs root and iproute2; `why_not` returns what is missing.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_IP = shutil.which("ip") or ""


def why_not() -> str:
    """Returns why a cable cannot be created here; "" if it can."""
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    if not _IP:
        return "there is no `ip` (iproute2)"
    return "" if _works("link", "show") and _works("netns", "list") else "`ip` does not work here"


@dataclass(frozen=True, slots=True)
class Cable:
    """A cable from a switch of this machine to another one, which shares all but the network.

    Attributes:
        name: The name of the namespace.
        near: The address of this machine on the switch.
        far: The address of the other machine.
    """

    name: str
    near: str
    far: str

    @property
    def inside(self) -> tuple[str, ...]:
        """The command prefix that runs a command on the other machine."""
        return (_IP, "netns", "exec", self.name)

    def processes(self) -> list[int]:
        """The processes on the other machine."""
        return [int(pid) for pid in _ip("netns", "pids", self.name).split()]

    def pull(self) -> None:
        """Nothing passes any more, without notice to anybody."""
        _ip("link", "set", f"{self.name}a", "nomaster")

    def plug(self) -> None:
        """Everything passes again."""
        _ip("link", "set", f"{self.name}a", "master", f"{self.name}s")


@contextlib.contextmanager
def cable() -> Iterator[Cable]:
    """Creates a cable for the duration of the `with` block."""
    number = os.getpid() % (1 << 14)
    net = f"198.{18 + (number >> 13)}.{number >> 5 & 255}.{(number & 31) * 8}"  # for benchmarks
    base, _, last = net.rpartition(".")
    near, far = f"{base}.{int(last) + 1}", f"{base}.{int(last) + 2}"
    name = f"sf{os.getpid()}"
    _remove_left()
    with contextlib.ExitStack() as stack:
        _ip("netns", "add", name)
        stack.callback(_ip, "netns", "del", name)
        _ip("link", "add", f"{name}s", "type", "bridge")
        stack.callback(_ip, "link", "del", f"{name}s")
        _ip("address", "add", f"{near}/29", "dev", f"{name}s")
        _ip("link", "set", f"{name}s", "up")
        _ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b")
        _ip("link", "set", f"{name}b", "netns", name)
        found = Cable(name, near, far)
        for arguments in (
            ("address", "add", f"{far}/29", "dev", f"{name}b"),
            ("link", "set", f"{name}b", "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", name, *arguments)
        _ip("link", "set", f"{name}a", "up")
        found.plug()
        yield found


def _remove_left() -> None:
    """Removes what killed processes have left: namespaces and switches."""
    for line in _ip("netns", "list").splitlines():
        found = re.fullmatch(r"sf(\d+)", line.split()[0])
        if found is not None and not Path(f"/proc/{found[1]}").exists():
            _ip("netns", "del", found[0])
            _works("link", "del", f"{found[0]}s")


def _works(*arguments: str) -> bool:
    return subprocess.run([_IP, *arguments], capture_output=True, check=False).returncode == 0


def _ip(*arguments: str) -> str:
    return subprocess.run([_IP, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout
