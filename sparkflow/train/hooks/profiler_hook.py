"""`ProfilerHook`: traces while training."""

from __future__ import annotations

import os
from typing import Any

from sparkflow import logging
from sparkflow._api import export
from sparkflow.client.timeline import Timeline
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
from sparkflow_runtime.files import system
from sparkflow_runtime.protos.config_pb2 import RunOptions


@export("train.ProfilerHook", "estimator.ProfilerHook")
class ProfilerHook(SessionRunHook):
    """Writes a Chrome trace `timeline-STEP.json` every N steps or seconds.

    Args:
        save_steps: Steps between two traces.
        save_secs: Seconds between two traces. Exactly one of the two is given.
        output_dir: The directory, which is made with the first trace.
        show_dataflow: Draw arrows from producers to consumers.
        show_memory: Draw the memory in use.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        self._output_dir = output_dir
        self._show_dataflow = show_dataflow
        self._show_memory = show_memory
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        """Finds the step counter."""
        self._next_step: int | None = None
        self._seen: int | None = None
        self._global_step_tensor = required_step("ProfilerHook")

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the step, and for a trace when it is due."""
        self._request = self._next_step is not None and self._timer.should_trigger_for_step(
            self._next_step
        )
        options = RunOptions(trace_level=RunOptions.FULL_TRACE) if self._request else None
        return SessionRunArgs({"global_step": self._global_step_tensor}, options=options)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Writes it."""
        step = self._seen = int(run_values.results["global_step"])
        if self._next_step is None:
            # The first run, which prepares much, is no example.
            self._timer.update_last_triggered_step(step)
        step += 1
        if self._request:
            step = int(run_context.session.run(self._global_step_tensor))
            self._timer.update_last_triggered_step(step)
            self._save(step, run_values.run_metadata.step_stats)
        self._next_step = step + 1

    def loop_limits(self) -> LoopLimits:
        """Until the run before the one that is to be traced."""
        if self._request:
            return EVERY_RUN
        return self._timer.limits(self._global_step_tensor, self._seen, ahead=2)

    def _save(self, step: int, step_stats: Any) -> None:
        path = os.path.join(self._output_dir, f"timeline-{step}.json")
        logging.info("Saving timeline for %d into '%s'.", step, path)
        trace = Timeline(step_stats).generate_chrome_trace_format(
            show_dataflow=self._show_dataflow, show_memory=self._show_memory
        )
        if self._output_dir:
            system.make_dirs(self._output_dir)
        with system.open_file(path, "wb") as file:
            file.write(trace.encode())
