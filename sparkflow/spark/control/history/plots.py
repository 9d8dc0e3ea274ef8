"""Plots of a history with matplotlib."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from sparkflow_runtime.errors import missing_package


class Plotted(Protocol):
    """The part of a `TrainingHistory` that is plotted."""

    loss: list[float]
    rows: list[int]
    time: list[float]
    rows_per_epoch: int
    epoch_rows: list[int]
    validation: list[dict[str, float]]
    restarts: list[dict[str, Any]]

    @property
    def epoch_loss(self) -> list[float]:
        """The mean loss of each epoch's rows."""


def plot_loss(history: Plotted, axes: Any = None) -> Any:
    """Plots the loss per step, per epoch and on the validation rows, over epochs.

    Args:
        history: The history.
        axes: matplotlib's Axes; those of a new figure if None.

    Returns:
        The Axes.

    Raises:
        ImportError: matplotlib is not installed.
    """
    if axes is None:
        axes = _new_axes()
    rows = np.asarray(history.rows, np.float64)
    per_epoch = max(history.rows_per_epoch, 1)
    # A step is plotted at its end, like an epoch and its validation.
    epoch = np.cumsum(rows) / per_epoch
    loss = np.asarray(history.loss, np.float64)
    axes.plot(epoch, loss, color="0.75", linewidth=0.6, label="each step")
    ends = np.cumsum(history.epoch_rows) / per_epoch
    marker = "o" if len(ends) <= 40 else ""
    axes.plot(ends, history.epoch_loss, marker=marker, markersize=3.5, label="mean of the epoch")
    evaluations = [each for each in history.validation if "loss" in each]
    if evaluations:
        places = [_epochs_done(history, each["time"]) for each in evaluations]
        losses = [each["loss"] for each in evaluations]
        axes.plot(places, losses, marker=marker, markersize=3.5, label="validation")
    for number, restart in enumerate(history.restarts):
        label = "restart" if number == 0 else None
        place = _epochs_done(history, restart["time"])
        axes.axvline(place, color="0.5", linestyle=":", linewidth=1, label=label)
    shown = loss[np.isfinite(loss)]
    if len(shown):
        # Prevents a few extreme steps at the beginning from flattening the rest.
        low, high = float(shown.min()), float(np.percentile(shown, 99.5))
        room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - room, high + room)
    axes.set_xlim(0, max(float(epoch[-1]) if len(epoch) else 1.0, math.ulp(1.0)))
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss")
    axes.legend()
    return axes


def _new_axes() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise missing_package(
            "history.plot()", "matplotlib", "examples", "use history.to_pandas()"
        ) from error
    return pyplot.subplots(figsize=(7, 4), layout="constrained")[1]


def _epochs_done(history: Plotted, time_s: float) -> float:
    """Returns the epochs completed at a time, by rows."""
    known = int(np.searchsorted(history.time, time_s, side="right"))
    return sum(history.rows[:known]) / max(history.rows_per_epoch, 1)
