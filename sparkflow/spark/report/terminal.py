"""Progress in terminals, and lines where the output is none."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from sparkflow.spark.report.metrics_snapshot import Figures, describe, duration

_LINE_S = 10.0
# However long training takes, a log gets about so many lines per tenfold time.
_LINE_SHARE = 0.02
# Without tqdm's own rate: it counts from the first row on and is not that of late.
_BAR = "{desc}: {percentage:3.0f}%|{bar:10}| {elapsed}<{remaining}{postfix}"


class LineDisplay:
    """A line on stderr now and then: for logs, pipes and notebooks that cannot redraw.

    Args:
        name: What the lines begin with.
        clock: Returns seconds.
    """

    period_s = 0.2

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._shown = Figures()
        self._next = clock()

    def show(self, figures: Figures) -> None:
        """Prints a line if it is time for one, or something new is waited for."""
        told = self._shown
        news = figures.phase != told.phase or figures.restarts != told.restarts
        if (news and figures.phase) or self._clock() >= self._next:
            self._print(figures)

    def close(self, figures: Figures) -> None:
        """Prints the last line."""
        self._print(figures)

    def _print(self, figures: Figures) -> None:
        took = ""
        if figures.ended and figures.ended != "returned":
            took = f" after {duration(figures.elapsed_s)}"
        print(f"{self._name}: {describe(figures)}{took}", file=sys.stderr, flush=True)
        self._shown = figures
        self._next = self._clock() + max(_LINE_S, _LINE_SHARE * figures.elapsed_s)


class TqdmDisplay:
    """A bar of rows by tqdm, with the figures behind it.

    Args:
        name: What the bar begins with.
    """

    period_s = 0.2

    def __init__(self, name: str) -> None:
        self._name = name
        self._bar: Any = None

    def show(self, figures: Figures) -> None:
        """Redraws the bar."""
        if self._bar is None:
            self._bar = tqdm(desc=self._name, bar_format=_BAR, dynamic_ncols=True)
        bar = self._bar
        if figures.total_rows and bar.total != figures.total_rows:
            bar.reset(figures.total_rows)  # rows/s count from the first step on
        bar.n = figures.rows
        bar.set_postfix_str(describe(figures))

    def close(self, figures: Figures) -> None:
        """Draws the bar for the last time."""
        self.show(figures)
        self._bar.close()


class RichDisplay:
    """Bar and figures by rich; several fits at once share the screen.

    Args:
        name: What the bar begins with.
    """

    period_s = 0.2

    def __init__(self, name: str) -> None:
        self._name = name
        self._figures = Figures()
        self._is_shown = False

    def show(self, figures: Figures) -> None:
        """Has the next frame show these."""
        self._figures = figures
        if not self._is_shown:
            self._is_shown = True
            _screen.add(self)

    def close(self, figures: Figures) -> None:
        """Leaves the last figures on the screen."""
        self.show(figures)
        _screen.remove(self)

    def frame(self) -> Any:
        """What rich draws: a line with the bar, and one with the figures."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        figures = self._figures
        line = Table.grid(padding=(0, 1), expand=True)
        line.add_column(no_wrap=True)
        line.add_column(ratio=1)
        line.add_column(no_wrap=True, justify="right")
        line.add_column(no_wrap=True, justify="right")
        remaining = duration(figures.remaining_s)
        line.add_row(
            Text(self._name, style="bold"),
            ProgressBar(figures.total_rows or 1, figures.rows, pulse=not figures.total_rows),
            f"{figures.done:.0%}",
            duration(figures.elapsed_s) + (f", {remaining} left" if remaining else ""),
        )
        return Group(
            line, Text(f"  {describe(figures)}", style="red" * (figures.ended == "failed"))
        )


class _Screen:
    """The one live area that rich allows; a lock guards who is on it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: tuple[RichDisplay, ...] = ()
        self._live: Any = None

    def add(self, display: RichDisplay) -> None:
        from rich.console import Console
        from rich.live import Live

        class QuietConsole(Console):
            def on_broken_pipe(self) -> None:
                """Writes no more; rich's own ends the program and closes its stdout."""
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
                # The last frame goes above the live area, where it stays.
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
