"""Finds threads that a test has left computing, which slow down all tests after it."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Final

_LOOK_S: Final = 0.005
_SURE_S: Final = 0.1
_SHARE: Final = 0.2
"""The share of the time that a busy thread computes, beside others on the same processors."""


def left_busy(within_s: float = 10.0) -> list[str]:
    """Returns the names and stacks of Python's threads that compute while this one waits.

    Args:
        within_s: How long they may take to stop by themselves.
    """
    deadline = time.monotonic() + within_s
    busy = _busy(_LOOK_S)
    while busy and time.monotonic() < deadline:
        busy &= _busy(_SURE_S)
    frames = sys._current_frames()
    return [
        each.name + "\n" + "".join(traceback.format_stack(frames.get(each.ident or 0)))
        for each in busy
    ]


def _busy(seconds: float) -> set[threading.Thread]:
    before = {each: _computed_s(each) for each in threading.enumerate()}
    time.sleep(seconds)
    return {
        each
        for each, computed_s in before.items()
        if each is not threading.current_thread()
        and _computed_s(each) - computed_s > _SHARE * seconds
    }


def _computed_s(thread: threading.Thread) -> float:
    """Returns its processor time so far; 0 if it has ended, or if the system does not say."""
    try:
        # The first field of schedstat is in nanoseconds; the times in `stat` are in hundredths.
        text = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text("ascii")
    except OSError:
        return 0.0
    return int(text.split()[0]) / 1e9
