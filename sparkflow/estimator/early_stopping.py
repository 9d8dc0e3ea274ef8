"""Hooks that end the training of an estimator because of its evaluations, or with other tasks."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable
from operator import gt, lt
from typing import Any

from absl import logging

from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.evaluation import read_results
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.tensor import Tensor
from sparkflow.train.checkpoints.reading import saved_step
from sparkflow.train.hooks.step_hooks import StopAtStepHook, required_step
from sparkflow.train.hooks.step_timer import SecondOrStepTimer
from sparkflow.train.session_run_hook import (
    LoopLimits,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from sparkflow.variables.initializers import Constant
from sparkflow.variables.variable_scope import AUTO_REUSE, get_variable, variable_scope
from sparkflow_runtime.dtypes import bool_

_SCOPE = "signal_early_stopping"
_Better = Callable[[float, float], bool]


def make_early_stopping_hook(
    estimator: Estimator,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """A hook that ends training, in all tasks, once a function of the chief says so.

    Args:
        estimator: The estimator that is trained.
        should_stop_fn: Called without arguments by the chief.
        run_every_secs: Seconds between two calls; None if steps are given.
        run_every_steps: Steps between two calls.

    Raises:
        TypeError: It is no estimator.
        ValueError: Both or none of seconds and steps are given.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(
            f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}"
        )
    if run_every_secs is not None and run_every_steps is not None:
        raise ValueError("Only one of `run_every_secs` and `run_every_steps` must be set.")
    if estimator.config.is_chief:
        return _StopOnPredicate(should_stop_fn, run_every_secs, run_every_steps)
    return _StopOnSignal()


def stop_if_higher_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """A hook that ends training once an evaluation's metric is above a threshold.

    Args:
        estimator: The estimator that is trained, evaluated meanwhile by `train_and_evaluate`.
        metric_name: The name of the metric, as in the results of `evaluate`.
        threshold: What it is compared with.
        eval_dir: Where the events of evaluations are; `estimator.eval_dir()` when None.
        min_steps: Evaluations before this step do not count.
        run_every_secs: Seconds between two looks at the evaluations; None if steps are given.
        run_every_steps: Steps between two looks.

    Raises:
        TypeError: It is no estimator.
        ValueError: Both or none of seconds and steps are given. While it trains: evaluations have
            no such metric.
    """
    crossed = _crossed(metric_name, threshold, gt, "higher")
    return _stopping(estimator, crossed, eval_dir, min_steps, run_every_secs, run_every_steps)


def stop_if_lower_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """The same as `stop_if_higher_hook` for a metric below the threshold."""
    crossed = _crossed(metric_name, threshold, lt, "lower")
    return _stopping(estimator, crossed, eval_dir, min_steps, run_every_secs, run_every_steps)


def stop_if_no_increase_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """A hook that ends training when a metric has not been higher for a number of steps.

    Args:
        estimator: As for `stop_if_higher_hook`.
        metric_name: As for `stop_if_higher_hook`.
        max_steps_without_increase: Training ends with an evaluation that is this many steps, or
            more, after the best one.
        eval_dir: As for `stop_if_higher_hook`.
        min_steps: As for `stop_if_higher_hook`.
        run_every_secs: As for `stop_if_higher_hook`.
        run_every_steps: As for `stop_if_higher_hook`.

    Raises:
        TypeError: As for `stop_if_higher_hook`.
        ValueError: As for `stop_if_higher_hook`.
    """
    rested = _rested(metric_name, max_steps_without_increase, gt, "increase")
    return _stopping(estimator, rested, eval_dir, min_steps, run_every_secs, run_every_steps)


def stop_if_no_decrease_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """The same as `stop_if_no_increase_hook` for a metric that should become lower."""
    rested = _rested(metric_name, max_steps_without_decrease, lt, "decrease")
    return _stopping(estimator, rested, eval_dir, min_steps, run_every_secs, run_every_steps)


def make_stop_at_checkpoint_step_hook(
    estimator: Estimator, last_step: int, wait_after_file_check_secs: float = 30
) -> SessionRunHook:
    """A hook that ends training at a step; tasks that do not save wait until it has been saved.

    Args:
        estimator: The estimator that is trained.
        last_step: The step to stop at.
        wait_after_file_check_secs: How long other tasks than the chief wait before they look for
            the checkpoint again, in seconds.
    """
    if estimator.config.is_chief:
        return StopAtStepHook(last_step=last_step)
    return _StopAtCheckpoint(estimator.model_dir, last_step, wait_after_file_check_secs)


def read_eval_metrics(eval_dir: str) -> OrderedDict[int, dict[str, float]]:
    """The metrics of the evaluations whose events are in a directory: by step, in its order.

    Args:
        eval_dir: The directory, such as `estimator.eval_dir()`.
    """
    found: dict[int, dict[str, float]] = {}
    for step, metrics in read_results(os.path.join(eval_dir, "*.tfevents.*")):
        found.setdefault(step, {}).update(metrics)
    return OrderedDict(sorted(found.items()))


_Results = OrderedDict[int, dict[str, float]]


def _stopping(
    estimator: Estimator,
    should_stop: Callable[[_Results], bool],
    eval_dir: str | None,
    min_steps: int,
    run_every_secs: float | None,
    run_every_steps: int | None,
) -> SessionRunHook:
    def look() -> bool:
        results = read_eval_metrics(eval_dir or estimator.eval_dir())
        return should_stop(
            OrderedDict((step, each) for step, each in results.items() if step >= min_steps)
        )

    return make_early_stopping_hook(estimator, look, run_every_secs, run_every_steps)


def _crossed(name: str, threshold: float, better: _Better, word: str) -> Callable[[_Results], bool]:
    def should_stop(results: _Results) -> bool:
        for step, metrics in results.items():
            value = _value(metrics, name, step)
            if better(value, threshold):
                logging.info(
                    'At step %s, metric "%s" has value %s which is %s than threshold %s.',
                    *(step, name, value, word, threshold),
                )
                return True
        return False

    return should_stop


def _rested(name: str, most: int, better: _Better, word: str) -> Callable[[_Results], bool]:
    def should_stop(results: _Results) -> bool:
        best: tuple[int, float] | None = None
        for step, metrics in results.items():
            value = _value(metrics, name, step)
            if best is None or better(value, best[1]):
                best = step, value
            if step - best[0] >= most:
                logging.info(
                    'No %s in metric "%s" for %s steps, which is greater than or equal to max '
                    "steps (%s) configured for early stopping.",
                    *(word, name, step - best[0], most),
                )
                return True
        return False

    return should_stop


def _value(metrics: dict[str, float], name: str, step: int) -> float:
    if name not in metrics:
        raise ValueError(
            f'The evaluation at step {step} has no metric "{name}". It has: {sorted(metrics)}'
        )
    return metrics[name]


def _signal() -> Any:
    """The variable by which the chief tells other tasks to stop."""
    with variable_scope(_SCOPE, reuse=AUTO_REUSE):
        return get_variable(
            "STOP",
            [],
            bool_,
            Constant(False),
            trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES],
        )


class _StopOnPredicate(SessionRunHook):
    """The chief's hook: asks now and then, and signals the answer."""

    def __init__(
        self, should_stop: Callable[[], bool], every_secs: float | None, every_steps: int | None
    ) -> None:
        if not callable(should_stop):
            raise TypeError(f"`should_stop_fn` must be callable. Got: {should_stop}")
        self._should_stop = should_stop
        self._timer = SecondOrStepTimer(every_secs=every_secs, every_steps=every_steps)

    def begin(self) -> None:
        self._step = required_step(type(self).__name__)
        signal = _signal()
        self._stop = signal.assign(True)
        # A model that stopped early has it in its checkpoint.
        self._go_on = signal.assign(False)
        self._timer.reset()
        self._seen: int | None = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._go_on)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._seen = step = int(run_values.results)
        if not self._timer.should_trigger_for_step(step):
            return
        self._timer.update_last_triggered_step(step)
        if self._should_stop():
            logging.info("Requesting early stopping at global step %d", step)
            run_context.session.run(self._stop)
            run_context.request_stop()

    def loop_limits(self) -> LoopLimits:
        return self._timer.limits(self._step, self._seen, ahead=0)


class _StopOnSignal(SessionRunHook):
    """The hook of tasks other than the chief."""

    _told: Tensor

    def begin(self) -> None:
        self._told = _signal().read_value()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._told)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if run_values.results:
            logging.info("Early stopping requested, suspending run.")
            run_context.request_stop()


class _StopAtCheckpoint(SessionRunHook):
    """Ends training when a checkpoint of the last step has been written."""

    def __init__(self, directory: str, last_step: int, wait_secs: float) -> None:
        self._directory = directory
        self._last_step = last_step
        self._wait_secs = wait_secs

    def begin(self) -> None:
        self._step = required_step(type(self).__name__)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if int(run_values.results) + 1 < self._last_step:
            return
        if saved_step(self._directory) >= self._last_step:
            run_context.request_stop()
        else:
            logging.info("Waiting for the checkpoint of step %d", self._last_step)
            time.sleep(self._wait_secs)
