"""Pictures of throughput by number of workers, for docs/scaling.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Series = Mapping[str, Sequence[tuple[int, float]]]
"""Points of workers and steps per second, by the name of the line."""

_COLOURS = ("#1b6ca8", "#2a9d8f", "#e9a23b", "#c8553d", "#6d597a")
_GREY = "#9a9a9a"


def draw(path: Path, title: str, panels: Mapping[tuple[str, str], Series]) -> None:
    """Draws a grid of panels and writes it as SVG and PNG.

    Args:
        path: The path of the picture, without suffix.
        title: The title above all panels.
        panels: The panels by row and column; the series "ideal" is drawn in grey.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "sparkflow"  # makes files reproducible
    from matplotlib import pyplot

    rows = list(dict.fromkeys(row for row, _ in panels))
    columns = list(dict.fromkeys(column for _, column in panels))
    figure, axes = pyplot.subplots(
        len(rows),
        len(columns),
        figsize=(4.0 * len(columns), 3.3 * len(rows)),
        sharex=True,
        sharey="row",
        squeeze=False,
    )
    for (row, column), series in panels.items():
        axis = axes[rows.index(row)][columns.index(column)]
        _panel(axis, series)
        if row == rows[0]:
            axis.set_title(column)
        if row == rows[-1]:
            axis.set_xlabel("workers")
        if column == columns[0]:
            axis.set_ylabel(f"{row}\nsteps per second")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
    figure.suptitle(title)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def _panel(axis: Any, series: Series) -> None:
    colours = iter(_COLOURS)
    for name, points in series.items():
        ideal = name == "ideal"
        axis.plot(
            [workers for workers, _ in points],
            [rate for _, rate in points],
            label=name,
            color=_GREY if ideal else next(colours),
            linestyle=":" if ideal else "--" if name == "all-reduce" else "-",
            marker=None if ideal else "o",
            markersize=3,
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.grid(visible=True, which="major", color="#e4e4e4")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
