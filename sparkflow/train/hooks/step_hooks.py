"""Hooks about steps: when to stop, how fast they go, when to begin; feeds and last values."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from sparkflow import logging
from sparkflow._api import export
from sparkflow.summary.writer import FileWriterCache
from sparkflow.train.hooks.step_timer import SecondOrStepTimer
from sparkflow.train.session_run_hook import (
    EVERY_RUN,
    NO_LIMITS,
    LoopLimits,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from sparkflow.train.step_counter import get_global_step, read_of_global_step
from sparkflow_runtime.errors import OutOfRangeError
from sparkflow_runtime.protos.summary_pb2 import Summary

_WAIT_S: Final = 0.5
_LOG_EVERY: Final = 100


def required_step(hook: str) -> Any:
    """The tensor that reads the step counter.

    Raises:
        RuntimeError: The default graph has no step counter.
    """
    read = read_of_global_step()
    if read is None:
        raise RuntimeError(f"Global step should be created to use {hook}.")
    return read


@export("train.StopAtStepHook", "estimator.StopAtStepHook")
class StopAtStepHook(SessionRunHook):
    """Stops after a number of steps, or at a step.

    Args:
        num_steps: Steps from where the session begins.
        last_step: The step to stop at. Exactly one of the two is given.

    Raises:
        ValueError: Both or none is given.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps = num_steps
        self._last_step = last_step

    def begin(self) -> None:
        """Finds the step counter."""
        self._global_step_tensor = required_step("StopAtStepHook")
        self._seen: int | None = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Computes the last step."""
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = int(session.run(self._global_step_tensor)) + self._num_steps

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the step."""
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Stops when the last step is reached."""
        assert self._last_step is not None
        self._seen = int(run_values.results)
        if run_values.results + 1 < self._last_step:
            return
        # What was fetched may be the step before or after this run's own update.
        if run_context.session.run(self._global_step_tensor) >= self._last_step:
            run_context.request_stop()

    def loop_limits(self) -> LoopLimits:
        """Until `after_run` has to look."""
        if self._last_step is None or self._seen is None:
            return EVERY_RUN
        bound = self._last_step - 1
        return LoopLimits(max(1, bound - self._seen), bounds={self._global_step_tensor: bound})


@export("train.StepCounterHook", "estimator.StepCounterHook")
class StepCounterHook(SessionRunHook):
    """Logs and writes steps per second.

    Args:
        every_n_steps: Steps between two records.
        every_n_secs: Seconds between two records. Exactly one of the two is given.
        output_dir: Where to write events, None for nowhere.
        summary_writer: A writer instead of `output_dir`.

    Raises:
        ValueError: Both or none of the first two is given.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: Any = None,
    ) -> None:
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_steps=every_n_steps, every_secs=every_n_secs)
        self._summary_writer = summary_writer
        self._output_dir = output_dir

    def begin(self) -> None:
        """Opens the writer and finds the step counter."""
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = FileWriterCache.get(self._output_dir)
        self._global_step_tensor = required_step("StepCounterHook")
        self._summary_tag = f"{get_global_step().op.name}/sec"
        self._seen: int | None = None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the step."""
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Records the rate when it is due."""
        self._seen = int(run_values.results)
        if not self._timer.should_trigger_for_step(int(run_values.results) + 1):
            return
        step = int(run_context.session.run(self._global_step_tensor))
        if self._timer.should_trigger_for_step(step):
            seconds, steps = self._timer.update_last_triggered_step(step)
            if seconds is not None and steps is not None:
                self._log_and_record(steps, seconds, step)

    def loop_limits(self) -> LoopLimits:
        """Until a record is due."""
        return self._timer.limits(self._global_step_tensor, self._seen)

    def _log_and_record(self, elapsed_steps: int, elapsed_time: float, global_step: int) -> None:
        rate = elapsed_steps / elapsed_time if elapsed_time else float("inf")
        if self._summary_writer is not None:
            value = Summary.Value(tag=self._summary_tag, simple_value=rate)
            self._summary_writer.add_summary(Summary(value=[value]), global_step)
        logging.info("%s: %g", self._summary_tag, rate)


@export("train.GlobalStepWaiterHook", "estimator.GlobalStepWaiterHook")
class GlobalStepWaiterHook(SessionRunHook):
    """Holds back the first run until the step counter has reached a step, so workers start later.

    Args:
        wait_until_step: The step to wait for.
    """

    def __init__(self, wait_until_step: int) -> None:
        self._wait_until_step = wait_until_step

    def begin(self) -> None:
        """Finds the step counter."""
        self._worker_is_started = False
        self._global_step_tensor = required_step("_GlobalStepWaiterHook")

    def before_run(self, run_context: SessionRunContext) -> None:
        """Waits, the first time."""
        if self._worker_is_started or self._wait_until_step <= 0:
            self._worker_is_started = True
            return
        logging.info("Waiting for global step %d before starting training.", self._wait_until_step)
        last_logged = 0
        while True:
            step = int(run_context.session.run(self._global_step_tensor))
            if step >= self._wait_until_step:
                self._worker_is_started = True
                return
            if step - last_logged > _LOG_EVERY:
                logging.info(
                    "Waiting for global step %d before starting training. Current step is %d.",
                    self._wait_until_step,
                    step,
                )
                last_logged = step
            time.sleep(_WAIT_S)

    def loop_limits(self) -> LoopLimits:
        """None: it waits before the first run only."""
        return NO_LIMITS


@export("train.FinalOpsHook", "estimator.FinalOpsHook")
class FinalOpsHook(SessionRunHook):
    """Runs something at the end and keeps its values.

    Args:
        final_ops: What to fetch.
        final_ops_feed_dict: Values by tensor for it.
    """

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        self._final_ops = final_ops
        self._final_ops_feed_dict = final_ops_feed_dict
        self._final_ops_values: Any = None

    @property
    def final_ops_values(self) -> Any:
        """The values, None before the end."""
        return self._final_ops_values

    def end(self, session: Any) -> None:
        """Runs it."""
        if self._final_ops is None:
            return
        try:
            self._final_ops_values = session.run(
                self._final_ops, feed_dict=self._final_ops_feed_dict
            )
        except (OutOfRangeError, StopIteration) as error:
            logging.warning(
                "An OutOfRangeError or StopIteration exception is raised by the code in "
                "FinalOpsHook. This typically means the Ops running by the FinalOpsHook have a "
                "dependency back to some input source, which should not happen. Error: %s",
                error,
            )
            raise


@export("train.FeedFnHook", "estimator.FeedFnHook")
class FeedFnHook(SessionRunHook):
    """Feeds every run with the result of a function.

    Args:
        feed_fn: Gives a feed dictionary.
    """

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the feeds."""
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())
