"""Hooks that look at values: logging them, stopping when the loss is no number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sparkflow import logging
from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import get_default_graph
from sparkflow.train.hooks.step_timer import NeverTriggerTimer, SecondOrStepTimer
from sparkflow.train.session_run_hook import (
    EVERY_RUN,
    LoopLimits,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)


@export("train.LoggingTensorHook", "estimator.LoggingTensorHook")
class LoggingTensorHook(SessionRunHook):
    """Logs values every N runs or seconds, or at the end.

    Args:
        tensors: Tensors or names, by tag or as a list.
        every_n_iter: Runs between two logs.
        every_n_secs: Seconds between two logs.
        at_end: Log at the end as well.
        formatter: Makes the text from a dictionary of values by tag.

    Raises:
        ValueError: It would never log, or by runs and seconds at once.
    """

    def __init__(
        self,
        tensors: Mapping[str, Any] | Sequence[Any],
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[Mapping[Any, Any]], str] | None = None,
    ) -> None:
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError(
                "either at_end and/or exactly one of every_n_iter and every_n_secs must be "
                "provided."
            )
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        if isinstance(tensors, Mapping):
            self._tag_order: list[Any] = sorted(tensors)
            self._tensors: dict[Any, Any] = dict(tensors)
        else:
            self._tag_order = list(tensors)
            self._tensors = {item: item for item in tensors}
        self._formatter = formatter
        self._timer = (
            NeverTriggerTimer()
            if only_at_end
            else SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_iter)
        )
        self._log_at_end = at_end

    def begin(self) -> None:
        """Finds the tensors in the default graph.

        Raises:
            ValueError: A name is that of an operation with several outputs.
            KeyError: There is no operation of that name, or it has no output.
        """
        self._timer.reset()
        self._iter_count = 0
        self._current_tensors = {
            tag: _graph_element(tensor) for tag, tensor in self._tensors.items()
        }

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Asks for the values when a log is due."""
        self._should_trigger = self._timer.should_trigger_for_step(self._iter_count)
        return SessionRunArgs(self._current_tensors) if self._should_trigger else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Logs them."""
        if self._should_trigger:
            self._log_tensors(run_values.results)
        self._iter_count += 1

    def loop_limits(self) -> LoopLimits:
        """Until the run that is to be logged."""
        if self._should_trigger:
            return EVERY_RUN
        limits = self._timer.limits(None, self._iter_count, ahead=0)
        return limits._replace(bounds={})

    def after_loop(
        self, run_context: SessionRunContext, run_values: SessionRunValues, num_steps: int
    ) -> None:
        """Counts the runs before the last."""
        self._iter_count += num_steps - 1
        self.after_run(run_context, run_values)

    def end(self, session: Any) -> None:
        """Logs once more where that was asked for."""
        if self._log_at_end:
            self._log_tensors(session.run(self._current_tensors))

    def _log_tensors(self, tensor_values: Mapping[Any, Any]) -> None:
        with np.printoptions(suppress=True):
            seconds, _ = self._timer.update_last_triggered_step(self._iter_count)
            if self._formatter is not None:
                logging.info(self._formatter(tensor_values))
                return
            text = ", ".join(f"{tag} = {tensor_values[tag]}" for tag in self._tag_order)
            if seconds is not None:
                logging.info("%s (%.3f sec)", text, seconds)
            else:
                logging.info("%s", text)


def _graph_element(given: Any) -> Any:
    """What `given` means in the default graph: names of operations stand for their one output."""
    graph = get_default_graph()
    element = graph.as_graph_element(given)
    if not isinstance(given, str) or not isinstance(element, Operation):
        return element
    if len(element.outputs) > 1:
        raise ValueError(
            f"Name {given!r} is ambiguous: this operation has {len(element.outputs)} outputs. Name "
            f"one of them, such as {given + ':0'!r}"
        )
    return graph.as_graph_element(f"{given}:0")


@export("train.NanLossDuringTrainingError", "estimator.NanLossDuringTrainingError")
class NanLossDuringTrainingError(RuntimeError):
    """The loss is no number."""

    def __str__(self) -> str:
        return "NaN loss during training."


@export("train.NanTensorHook", "estimator.NanTensorHook")
class NanTensorHook(SessionRunHook):
    """Stops when the loss is no number, by an exception or quietly.

    Args:
        loss_tensor: The loss, a scalar tensor or its name.
        fail_on_nan_loss: Raise; otherwise ask to stop.
    """

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss_tensor = loss_tensor
        self._fail_on_nan_loss = fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the loss."""
        return SessionRunArgs(self._loss_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Looks at it.

        Raises:
            NanLossDuringTrainingError: It is no number and that is to fail.
        """
        if not np.isnan(run_values.results):
            return
        message = "Model diverged with loss = NaN."
        if self._fail_on_nan_loss:
            logging.error(message)
            raise NanLossDuringTrainingError
        logging.warning(message)
        run_context.request_stop()

    def loop_limits(self) -> LoopLimits:
        """Until the loss is no number, or infinite."""
        return LoopLimits(bounds={self._loss_tensor: math.inf})
