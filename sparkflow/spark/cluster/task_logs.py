"""Forwarding of a task's log lines to the driver: rate-limited, batched, on request only."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from sparkflow.spark.cluster_layout import TaskName

LINES_PER_S = 100
"""The maximum lines per second, averaged over some seconds; more are dropped."""
_BURST = 500
_PAUSE_S = 0.3
_MAX_LINE = 2_000

Write = Callable[[Sequence[str], int], None]


class LineSender:
    """Sends lines in a separate thread. `_ready` guards all fields.

    Args:
        write: Sends some lines, and says how many were left out before them; may block.
        clock: Gives seconds.
    """

    def __init__(self, write: Write, clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._ready = threading.Condition()
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._room = float(_BURST)
        self._filled_at = clock()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="log lines", daemon=True)
        self._thread.start()

    def add(self, line: str) -> None:
        """Adds a line; never blocks."""
        with self._ready:
            now = self._clock()
            self._room = min(_BURST, self._room + (now - self._filled_at) * LINES_PER_S)
            self._filled_at = now
            if self._room < 1 or self._ended:
                self._dropped += 1
                return
            self._room -= 1
            self._lines.append(line.rstrip("\n")[:_MAX_LINE])
            self._ready.notify_all()

    def end(self) -> None:
        """Sends the remaining lines and ends the thread."""
        with self._ready:
            self._ended = True
            self._ready.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._lines or self._ended)
                if not self._ended:
                    self._ready.wait_for(lambda: self._ended, _PAUSE_S)  # more may come at once
                lines, dropped, ended = list(self._lines), self._dropped, self._ended
                self._lines.clear()
                self._dropped = 0
            if lines or dropped:
                self._write(lines, dropped)
            if ended:
                return


def format_lines(task: TaskName, lines: Sequence[str], dropped: int) -> str:
    """Formats the lines for the driver, each prefixed with the role."""
    role = f"[{task.job} {task.index}]"
    shown = [f"{role} {line}\n" for line in lines]
    if dropped:
        shown.append(f"{role} ({dropped} lines left out: more than {LINES_PER_S} a second)\n")
    return "".join(shown)
