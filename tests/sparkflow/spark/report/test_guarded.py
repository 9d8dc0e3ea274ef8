"""Failures in reporting do not end training."""

import logging
from typing import Any

import pytest

from sparkflow.spark.control.callbacks import Callback
from sparkflow.spark.report.guarded import Guarded
from tests.sparkflow.spark.report.runs import Clock, whole_run


class Failing(Callback):
    """Fails at its third step."""

    def __init__(self) -> None:
        self.steps = 0
        self.closed = 0

    def on_steps(self, update: Any) -> None:
        self.steps += 1
        if self.steps == 3:
            raise ConnectionError("the server went away")

    def on_close(self) -> None:
        self.closed += 1
        raise OSError("again")


def test_a_failure_is_logged_once_and_training_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    inner = Failing()
    with caplog.at_level(logging.WARNING):
        whole_run(Clock(), Guarded(inner, "MLflow"))
    assert (inner.steps, inner.closed) == (3, 1)
    (record,) = caplog.records
    assert "MLflow" in record.message
    assert "the server went away" in record.message


def test_an_interrupt_is_no_failure_of_a_report() -> None:
    class Interrupted(Callback):
        def on_steps(self, update: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whole_run(Clock(), Guarded(Interrupted(), "it"))
