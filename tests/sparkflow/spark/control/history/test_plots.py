"""Plots of a history."""

from collections.abc import Iterator
from typing import Any

import pytest

from sparkflow.spark.control.callbacks import Callback
from sparkflow.spark.control.history.training_history import TrainingHistory
from tests.sparkflow.spark.report.runs import Clock, whole_run


@pytest.fixture
def axes() -> Iterator[Any]:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    yield axes
    pyplot.close(figure)


def test_steps_epochs_validation_and_restarts_are_drawn(axes: Any) -> None:
    history = whole_run(Clock(), Callback()).history
    history.restarts.append({"step": 20, "time": 5.0, "reason": "lost"})
    assert history.plot(axes) is axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert set(lines) == {"each step", "mean of the epoch", "validation", "restart"}
    assert list(lines["mean of the epoch"].get_xdata()) == [1.0, 2.0]
    assert list(lines["mean of the epoch"].get_ydata()) == [4.0, 2.0]
    assert list(lines["validation"].get_xdata()) == [1.0, 2.0]
    assert list(lines["validation"].get_ydata()) == [5.0, 3.0]
    assert len(lines["each step"].get_xdata()) == 40


def test_an_empty_history_is_an_empty_picture(axes: Any) -> None:
    assert TrainingHistory().plot(axes) is axes
