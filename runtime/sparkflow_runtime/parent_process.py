"""The process that started this one: to end with it, whatever else happens."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def die_with_parent(parent: int | None = None) -> None:
    """Has the kernel kill this process when its parent dies (Linux; does nothing elsewhere).

    That holds for what the process executes instead of itself, too, and the parent's end is that of
    the thread that started this process.

    Args:
        parent: The parent's process, where this one was told of it; so an end before this call is
            noticed. The present parent when None.

    Raises:
        OSError: The kernel refuses.
    """
    if not sys.platform.startswith("linux"):
        return
    expected = os.getppid() if parent is None else parent
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != expected:
        os.kill(os.getpid(), signal.SIGKILL)  # it died before the kernel was told
