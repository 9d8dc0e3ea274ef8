"""Ends this process together with the one that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def die_with_parent(parent: int | None = None) -> None:
    """Makes the kernel kill this process when its parent dies (Linux; elsewhere does nothing).

    This survives `exec`. The parent counts as dead when the thread that started this process ends.

    Args:
        parent: The parent's process id, if known, so that its end before this call is detected.
            None for the present parent.

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
        os.kill(os.getpid(), signal.SIGKILL)  # it died before the call
