"""`SummarySaverHook`: summaries while training."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow.summary.writer import FileWriterCache
from sparkflow.train.hooks.step_hooks import required_step
from sparkflow.train.hooks.step_timer import SecondOrStepTimer
from sparkflow.train.session_run_hook import (
    EVERY_RUN,
    LoopLimits,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from sparkflow_runtime.protos.event_pb2 import SessionLog


@export("train.SummarySaverHook", "estimator.SummarySaverHook")
class SummarySaverHook(SessionRunHook):
    """Writes summaries every N steps or seconds.

    Args:
        save_steps: Steps between two summaries.
        save_secs: Seconds between two summaries. Exactly one of the two is given.
        output_dir: Where to write events.
        summary_writer: A writer instead of `output_dir`.
        scaffold: Whose `summary_op` to use.
        summary_op: A summary, or a list of them, instead.

    Raises:
        ValueError: Both or none of the first or of the last two is given.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
    ) -> None:
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._summary_op = summary_op
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        """Opens the writer and finds the step counter."""
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = FileWriterCache.get(self._output_dir)
        self._next_step: int | None = None
        self._seen: int | None = None
        self._global_step_tensor = required_step("SummarySaverHook")

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the step, and for the summaries when they are due."""
        self._request_summary = self._next_step is None or self._timer.should_trigger_for_step(
            self._next_step
        )
        requests: dict[str, Any] = {"global_step": self._global_step_tensor}
        if self._request_summary:
            summaries = self._get_summary_op()
            if summaries is not None:
                requests["summary"] = summaries
        return SessionRunArgs(requests)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Writes them."""
        if not self._summary_writer:
            return
        self._seen = int(run_values.results["global_step"])
        step = self._seen + 1
        if self._next_step is None or self._request_summary:
            step = int(run_context.session.run(self._global_step_tensor))
        if self._next_step is None:
            self._summary_writer.add_session_log(SessionLog(status=SessionLog.START), step)
        if self._request_summary:
            self._timer.update_last_triggered_step(step)
            for summary in run_values.results.get("summary", ()):
                self._summary_writer.add_summary(summary, step)
        self._next_step = step + 1

    def loop_limits(self) -> LoopLimits:
        """Until the run before the one that is to write summaries."""
        if self._request_summary:
            return EVERY_RUN
        return self._timer.limits(self._global_step_tensor, self._seen, ahead=2)

    def end(self, session: Any = None) -> None:
        """Brings everything to the file."""
        if self._summary_writer:
            self._summary_writer.flush()

    def _get_summary_op(self) -> list[Any] | None:
        summary_op = self._summary_op
        if summary_op is None and self._scaffold is not None:
            summary_op = self._scaffold.summary_op
        if summary_op is None:
            return None
        return list(summary_op) if isinstance(summary_op, list | tuple) else [summary_op]
