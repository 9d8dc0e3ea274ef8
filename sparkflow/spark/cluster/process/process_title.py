"""What `/proc`, `ps e` and `top` show of a forked process: its module and its variables (Linux).

They show the memory that the kernel filled when the original process was executed. `reserve` makes
room there, and `set_title` overwrites it. The packages that do this replace all arguments and
variables by one text, and operators look for single variables.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROLE: Final = "SPARKFLOW_TASK"
"""The environment variable that shows a process's task in `/proc` and `ps e`: `worker 1`."""
_ROOM: Final = " " * 1024


def reserve(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment with room for the variables of forked processes."""
    return {**environment, ROLE: _ROOM}


def set_title(executed: str, module: str, variables: Mapping[str, str | None]) -> None:
    """Shows another module, and variables in the place of the reserved one. Does not set them.

    What does not fit, or what a system does not have, is not shown: the first variables have room.

    Args:
        executed: The module in the arguments of this process.
        module: The one to show.
        variables: By name; None for one that is not shown.
    """
    room, shown = f"{ROLE}={_ROOM}", ""
    for given in (f"{name}={value}" for name, value in variables.items() if value is not None):
        longer = f"{shown}\0{given}" if shown else given
        if len(longer.encode()) <= len(room):
            shown = longer
    with contextlib.suppress(OSError, ValueError):
        # Fields 48 and 50 of proc(5): where arguments and environment begin. These begin with 3.
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        _overwrite(int(fields[45]), Path("/proc/self/cmdline"), executed, module)
        _overwrite(int(fields[47]), Path("/proc/self/environ"), room, shown)


def _overwrite(address: int, file: Path, old: str, new: str) -> None:
    before, after = old.encode(), new.encode()
    place = file.read_bytes().find(before)
    if place >= 0 and len(after) <= len(before):
        ctypes.memmove(address + place, after.ljust(len(before), b"\0"), len(before))
