"""A live table in notebooks: one HTML output that is replaced while training runs."""

from __future__ import annotations

import html
import uuid
from collections.abc import Mapping
from typing import Any

from sparkflow.spark.report.metrics_snapshot import (
    MetricsSnapshot,
    describe,
    duration,
    number,
    restarts,
)

# The number of epochs listed; of more, the first one and this many of the last.
_LISTED = 12

# Notebooks are light or dark: colours are those of the page, with transparency.
_STYLE = (
    "font-family: system-ui, sans-serif; font-size: 13px; font-variant-numeric: tabular-nums; "
    "max-width: 760px"
)
_LINE = "1px solid rgba(128, 128, 128, 0.35)"
_COLOURS = {"": "#2f7ed8", "done": "#3c9d5b", "failed": "#cf4a3c"}


class NotebookDisplay:
    """A table of the metrics snapshot and the epochs.

    It uses an IPython display with its own id, which Jupyter, VS Code, Colab and Databricks update
    in place.

    Args:
        name: The table's title.
    """

    period_s = 0.5

    def __init__(self, name: str) -> None:
        self._name = name
        self._id = f"sparkflow-{uuid.uuid4().hex}"
        self._shown = False

    def show(self, snapshot: MetricsSnapshot) -> None:
        """Replaces the table."""
        from IPython.display import display, update_display

        content = {
            "text/html": draw(self._name, snapshot),
            "text/plain": f"{self._name}: {describe(snapshot)}",
        }
        put: Any = update_display if self._shown else display
        put(content, raw=True, display_id=self._id)
        self._shown = True

    def close(self, snapshot: MetricsSnapshot) -> None:
        """Shows the last table."""
        self.show(snapshot)


def draw(name: str, snapshot: MetricsSnapshot) -> str:
    """Returns the table as HTML, without scripts or styles."""
    colour = _COLOURS[snapshot.ended]
    cells = [
        ("epoch", f"{snapshot.epoch} of {snapshot.epochs}"),
        (
            "step",
            f"{snapshot.step:,}" + (f" of {snapshot.total_steps:,}" * bool(snapshot.total_steps)),
        ),
        ("loss", number(snapshot.loss)),
        ("rows/s", f"{snapshot.rows_per_s:,.0f}"),
        ("waiting for data", f"{snapshot.wait_share:.0%}"),
        *((f"val {key}", number(value)) for key, value in snapshot.validation.items()),
    ]
    if not snapshot.step:
        cells = []
    state = snapshot.phase or snapshot.ended or ("training" if snapshot.step else "starting")
    if snapshot.reason:
        state += f": {snapshot.reason}"
    if snapshot.restarts:
        state += f", {restarts(snapshot.restarts)}"
    times = duration(snapshot.elapsed_s)
    if snapshot.remaining_s is not None:
        times += f", {duration(snapshot.remaining_s)} to go"
    parts = [
        f'<div style="{_STYLE}">',
        '<div style="display: flex; justify-content: space-between; margin: 2px 0 4px">',
        f"<span><b>{html.escape(name)}</b> &nbsp; {html.escape(state)}</span>",
        f'<span style="opacity: 0.7">{times}</span></div>',
        '<div style="background: rgba(128, 128, 128, 0.2); border-radius: 3px; height: 6px">',
        f'<div style="background: {colour}; border-radius: 3px; height: 6px; '
        f'width: {100 * snapshot.done:.1f}%"></div></div>',
        _snapshot(cells),
        _epochs(snapshot.epoch_rows) if snapshot.epochs != 1 else "",
        "</div>",
    ]
    return "".join(parts)


def _snapshot(cells: list[tuple[str, str]]) -> str:
    if not cells:
        return ""
    blocks = "".join(
        '<div style="margin: 0 26px 2px 0">'
        f'<div style="opacity: 0.65; font-size: 11px">{html.escape(label)}</div>'
        f'<div style="font-size: 15px">{html.escape(value)}</div></div>'
        for label, value in cells
    )
    return f'<div style="display: flex; flex-wrap: wrap; margin: 8px 0 4px">{blocks}</div>'


def _epochs(epochs: tuple[Mapping[str, float], ...]) -> str:
    if not epochs:
        return ""
    names = list(dict.fromkeys(name for each in epochs for name in each))
    listed: list[Mapping[str, float] | None] = list(epochs)
    if len(epochs) > _LISTED + 1:
        listed = [epochs[0], None, *epochs[-_LISTED:]]
    head = "".join(_cell("th", _TITLES.get(name, name.replace("val_", "val "))) for name in names)
    lines = [
        "<tr>"
        + "".join(_cell("td", "⋮" if each is None else _value(each, n)) for n in names)
        + "</tr>"
        for each in listed
    ]
    return (
        f'<table style="border-collapse: collapse; border-top: {_LINE}; margin: 4px 0 2px; '
        f'font-size: 12px"><thead><tr style="border-bottom: {_LINE}; background: none">{head}'
        f"</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


_TITLES = {"rows_per_s": "rows/s", "wait_share": "wait"}


def _value(epoch: Mapping[str, Any], name: str) -> str:
    value = epoch.get(name)
    if value is None:
        return ""
    if name == "epoch":
        return str(int(value) + 1)
    if name == "rows_per_s":
        return f"{value:,.0f}"
    if name == "wait_share":
        return f"{value:.0%}"
    return number(float(value))


def _cell(tag: str, text: str) -> str:
    style = "text-align: right; padding: 1px 18px 1px 0; background: none; border: none"
    weight = "; font-weight: 600" if tag == "th" else ""
    return f'<{tag} style="{style}{weight}">{html.escape(text)}</{tag}>'
