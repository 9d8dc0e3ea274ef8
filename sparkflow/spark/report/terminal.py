"""Progress in terminals, and lines for other outputs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from sparkflow.spark.report.metrics_snapshot import MetricsSnapshot, describe, duration

_LINE_S = 10.0
# The interval between lines as a fraction of the elapsed time, so that long logs stay short.
_LINE_SHARE = 0.02
# Without tqdm's own rate, which is computed from the first row on instead of recently.
_BAR = "{desc}: {percentage:3.0f}%|{bar:10}| {elapsed}<{remaining}{postfix}"


class LineDisplay:
    """Periodic lines on stderr: for logs, pipes and notebooks that cannot redraw.

    Args:
        name: The beginning of the lines.
        clock: Returns seconds.
    """

    period_s = 0.2

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._shown = MetricsSnapshot()
        self._next = clock()

    def show(self, snapshot: MetricsSnapshot) -> None:
        """Prints a line if one is due, or training waits for something new."""
        told = self._shown
        news = snapshot.phase != told.phase or snapshot.restarts != told.restarts
        if (news and snapshot.phase) or self._clock() >= self._next:
            self._print(snapshot)

    def close(self, snapshot: MetricsSnapshot) -> None:
        """Prints the last line."""
        self._print(snapshot)

    def _print(self, snapshot: MetricsSnapshot) -> None:
        took = ""
        if snapshot.ended and snapshot.ended != "returned":
            took = f" after {duration(snapshot.elapsed_s)}"
        print(f"{self._name}: {describe(snapshot)}{took}", file=sys.stderr, flush=True)
        self._shown = snapshot
        self._next = self._clock() + max(_LINE_S, _LINE_SHARE * snapshot.elapsed_s)


class TqdmDisplay:
    """A tqdm bar of rows, followed by the metrics.

    Args:
        name: The beginning of the bar.
    """

    period_s = 0.2

    def __init__(self, name: str) -> None:
        self._name = name
        self._bar: Any = None

    def show(self, snapshot: MetricsSnapshot) -> None:
        """Redraws the bar."""
        if self._bar is None:
            self._bar = tqdm(desc=self._name, bar_format=_BAR, dynamic_ncols=True)
        bar = self._bar
        if snapshot.total_rows and bar.total != snapshot.total_rows:
            bar.reset(snapshot.total_rows)  # rows/s count from the first step on
        bar.n = snapshot.rows
        bar.set_postfix_str(describe(snapshot))

    def close(self, snapshot: MetricsSnapshot) -> None:
        """Draws the bar for the last time."""
        self.show(snapshot)
        self._bar.close()


class RichDisplay:
    """A rich bar and metrics; concurrent fits share the screen.

    Args:
        name: The beginning of the bar.
    """

    period_s = 0.2

    def __init__(self, name: str) -> None:
        self._name = name
        self._snapshot = MetricsSnapshot()
        self._is_shown = False

    def show(self, snapshot: MetricsSnapshot) -> None:
        """Shows a snapshot in the next frame."""
        self._snapshot = snapshot
        if not self._is_shown:
            self._is_shown = True
            _screen.add(self)

    def close(self, snapshot: MetricsSnapshot) -> None:
        """Leaves the last snapshot on the screen."""
        self.show(snapshot)
        _screen.remove(self)

    def frame(self) -> Any:
        """The renderable for rich: a line with the bar, and one with the metrics."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        snapshot = self._snapshot
        line = Table.grid(padding=(0, 1), expand=True)
        line.add_column(no_wrap=True)
        line.add_column(ratio=1)
        line.add_column(no_wrap=True, justify="right")
        line.add_column(no_wrap=True, justify="right")
        remaining = duration(snapshot.remaining_s)
        line.add_row(
            Text(self._name, style="bold"),
            ProgressBar(snapshot.total_rows or 1, snapshot.rows, pulse=not snapshot.total_rows),
            f"{snapshot.done:.0%}",
            duration(snapshot.elapsed_s) + (f", {remaining} left" if remaining else ""),
        )
        return Group(
            line, Text(f"  {describe(snapshot)}", style="red" * (snapshot.ended == "failed"))
        )


class _Screen:
    """The single live area that rich allows; a lock guards its users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: tuple[RichDisplay, ...] = ()
        self._live: Any = None

    def add(self, display: RichDisplay) -> None:
        from rich.console import Console
        from rich.live import Live

        class QuietConsole(Console):
            def on_broken_pipe(self) -> None:
                """Stops writing; rich's own handler ends the program and closes its stdout."""
                self.quiet = True

        with self._lock:
            if self._live is None:
                live = Live(
                    get_renderable=self._frame,
                    console=QuietConsole(stderr=True),
                    refresh_per_second=5,
                )
                live.start()
                self._live = live
            self._shown += (display,)

    def remove(self, display: RichDisplay) -> None:
        with self._lock:
            others = tuple(each for each in self._shown if each is not display)
            live = self._live
            if live is None:
                return
            if others:
                # The last frame is printed above the live area, where it stays.
                self._shown = others
                live.console.print(display.frame())
                return
            self._live = None
            try:
                live.stop()
            finally:
                self._shown = ()

    def _frame(self) -> Any:
        from rich.console import Group

        return Group(*(display.frame() for display in self._shown))


_screen = _Screen()
