"""What the user sees while training runs: a progress bar, and TensorBoard scalars if asked for."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from tqdm.auto import tqdm

from sparkflow.spark.report.history import TrainingHistory
from sparkflow_runtime.events.event_file import EventFileWriter

# A notebook or a terminal need not be told more often.
_REFRESH_S = 0.2


class ProgressBar:
    """Rows done of all rows to do, with step, loss and rows/s. A context manager.

    Args:
        history: Grows while training runs.
        total_rows: Rows of all epochs.
        shown: Whether there is a bar at all.
    """

    def __init__(self, history: TrainingHistory, total_rows: int, shown: bool) -> None:
        self._history = history
        self._bar: Any = tqdm(
            total=total_rows, unit="rows", unit_scale=True, desc="fit", disable=not shown
        )
        self._text = ""
        self._shown = 0
        self._smooth: float | None = None
        self._next = 0.0

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._refresh()
        self._bar.close()

    def say(self, text: str) -> None:
        """Shows what is being waited for before the first step."""
        if text != self._text:
            self._text = text
            self._bar.set_postfix_str(text)

    def update(self) -> None:
        """Shows what has come to the history, at most some times a second."""
        if time.monotonic() >= self._next:
            self._refresh()

    def _refresh(self) -> None:
        history = self._history
        if not self._shown and history.steps:
            self._bar.unpause()  # rows/s count from the first step on
        for loss in history.loss[self._shown :]:
            self._smooth = loss if self._smooth is None else 0.95 * self._smooth + 0.05 * loss
        rows = sum(history.rows[self._shown :])
        self._shown = history.steps
        if self._smooth is not None:
            self._bar.set_postfix_str(
                f"step {history.steps}, loss {self._smooth:.4g}", refresh=False
            )
        self._bar.update(rows)
        self._next = time.monotonic() + _REFRESH_S


class ScalarLog:
    """The loss of every step as TensorBoard scalars. A context manager.

    Args:
        history: Grows while training runs.
        directory: Where the event file is written; "" for nowhere.
    """

    def __init__(self, history: TrainingHistory, directory: str) -> None:
        self._history = history
        self._writer = EventFileWriter(directory) if directory else None
        self._written = 0

    def __enter__(self) -> ScalarLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.update()
        if self._writer is not None:
            self._writer.close()

    def update(self) -> None:
        """Writes what has come to the history."""
        if self._writer is None:
            return
        now = time.time()
        for step in range(self._written, self._history.steps):
            values = {"loss": self._history.loss[step], "rows": float(self._history.rows[step])}
            self._writer.add_scalars(step, now, values)
        self._written = self._history.steps
