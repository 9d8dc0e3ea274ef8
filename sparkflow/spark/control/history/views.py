"""Displays of a history: one line, and a table for notebooks. Independent of runs."""

from __future__ import annotations

import html
from typing import Any, Final, Protocol

_LISTED: Final = 10
_LINE: Final = "1px solid rgba(128, 128, 128, 0.35)"
_STYLE: Final = "text-align: right; padding: 1px 18px 1px 0; border: none; background: none"


class Viewed(Protocol):
    """The part of a `TrainingHistory` that is displayed."""

    steps: int
    seconds: float
    epoch_rows: list[int]
    epoch_time: list[float]
    validation: list[dict[str, float]]
    restarts: list[dict[str, Any]]
    stopped: str
    num_workers: int

    @property
    def epoch_loss(self) -> list[float]:
        """The mean loss of each epoch's rows."""

    @property
    def rows_per_second(self) -> float:
        """The rows per second of all workers together."""

    @property
    def best(self) -> dict[str, Any] | None:
        """The evaluation that early stopping chose."""


def describe_history(history: Viewed) -> str:
    """In pyspark.ml's form: `TrainingHistory: epochs=5, steps=1,000, loss=0.69 -> 0.31, ...`."""
    if not history.steps:
        return "TrainingHistory: steps=0"
    losses = [_number(each) for each in history.epoch_loss]
    last = history.validation[-1] if history.validation else {}
    parts = {
        "epochs": f"{len(losses)}",
        "steps": f"{history.steps:,}",
        "loss": " -> ".join(dict.fromkeys((losses[0], losses[-1]))) if losses else "",
        **{f"val_{name}": _number(last[name]) for name in _metrics(last)},
        "best": f"step {history.best['step']:,}" if history.best is not None else "",
        "rowsPerSecond": f"{history.rows_per_second:,.0f}",
        "seconds": f"{history.seconds:.1f}",
        "workers": f"{history.num_workers}" if history.num_workers > 1 else "",
        "restarts": f"{len(history.restarts)}" if history.restarts else "",
        "stopped": repr(history.stopped) if history.stopped else "",
    }
    listed = ", ".join(f"{name}={value}" for name, value in parts.items() if value)
    return f"TrainingHistory: {listed}"


def draw_history(history: Viewed) -> str:
    """Returns a line and a table of the epochs as HTML, without scripts or styles."""
    head = f"<div>{html.escape(describe_history(history))}</div>"
    rows = _epochs(history)
    if not rows:
        return head
    names = list(dict.fromkeys(name for row in rows for name in row))
    listed: list[dict[str, str] | None] = list(rows)
    if len(rows) > _LISTED + 1:
        listed = [rows[0], None, *rows[-_LISTED:]]
    lines = "".join(
        "<tr>"
        + "".join(
            _cell("td", "\N{VERTICAL ELLIPSIS}" if row is None else row.get(n, "")) for n in names
        )
        + "</tr>"
        for row in listed
    )
    titles = "".join(_cell("th", name) for name in names)
    return (
        f'{head}<table style="border-collapse: collapse; border-top: {_LINE}; margin: 4px 0 2px">'
        f'<thead><tr style="border-bottom: {_LINE}">{titles}</tr></thead>'
        f"<tbody>{lines}</tbody></table>"
    )


def _epochs(history: Viewed) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    before = 0.0
    for epoch, loss in enumerate(history.epoch_loss):
        seconds = history.epoch_time[epoch] - before
        rate = history.epoch_rows[epoch] / seconds if seconds > 0 else 0.0
        before = history.epoch_time[epoch]
        rows.append({"epoch": f"{epoch + 1}", "loss": _number(loss), "rows/s": f"{rate:,.0f}"})
    for each in history.validation:
        ended = [epoch for epoch, end in enumerate(history.epoch_time) if end <= each["time"]]
        if rows:
            row = rows[ended[-1] if ended else 0]
            row |= {f"val {name}": _number(each[name]) for name in _metrics(each)}
    return rows


def _metrics(evaluation: dict[str, float]) -> list[str]:
    return [name for name in evaluation if name not in ("step", "time")]


def _number(value: float) -> str:
    return f"{value:.4g}"


def _cell(tag: str, text: str) -> str:
    return f'<{tag} style="{_STYLE}">{html.escape(text)}</{tag}>'
