"""The threads of a supervisor: periodic summaries, step rates and checkpoints."""

from __future__ import annotations

import time
from typing import Any, Protocol

from sparkflow import logging
from sparkflow.train.sessions.coordinator import Coordinator, LooperThread
from sparkflow.train.step_counter import global_step
from sparkflow_runtime.protos.event_pb2 import SessionLog
from sparkflow_runtime.protos.summary_pb2 import Summary


class Supervised(Protocol):
    """The part of a `Supervisor` that the threads use."""

    @property
    def coord(self) -> Coordinator:
        """Coordinates the threads."""

    @property
    def global_step(self) -> Any:
        """Counts the steps; None if nothing does."""

    @property
    def save_model_secs(self) -> Any:
        """Seconds between two checkpoints."""

    @property
    def save_path(self) -> Any:
        """The path of checkpoints."""

    @property
    def save_summaries_secs(self) -> Any:
        """Seconds between two summaries."""

    @property
    def saver(self) -> Any:
        """Writes checkpoints."""

    @property
    def summary_op(self) -> Any:
        """The summaries to write."""

    @property
    def summary_writer(self) -> Any:
        """Writes events; None if nothing does."""


class SVSummaryThread(LooperThread):
    """Writes the supervisor's summaries.

    Args:
        sv: The supervisor.
        sess: The session to run them in.
    """

    def __init__(self, sv: Supervised, sess: Any) -> None:
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv = sv
        self._sess = sess

    def run_loop(self) -> None:
        """Once."""
        step = None
        if self._sv.global_step is not None:
            summary, step = self._sess.run([self._sv.summary_op, self._sv.global_step])
        else:
            summary = self._sess.run(self._sv.summary_op)
        if self._sv.summary_writer:
            self._sv.summary_writer.add_summary(summary, step)


class SVStepCounterThread(LooperThread):
    """Writes steps per second.

    Args:
        sv: The supervisor.
        sess: The session to read the step in.
        step_counter: Counts the steps; None for the supervisor's counter.
    """

    def __init__(self, sv: Supervised, sess: Any, step_counter: Any = None) -> None:
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv = sv
        self._sess = sess
        self._step_counter = sv.global_step if step_counter is None else step_counter
        self._summary_tag = f"{self._step_counter.op.name}/sec"
        self._last_time = 0.0
        self._last_step = 0

    def start_loop(self) -> None:
        """Records the first step and its time."""
        self._last_time = time.time()
        self._last_step = global_step(self._sess, self._step_counter)

    def run_loop(self) -> None:
        """Once."""
        step = global_step(self._sess, self._step_counter)
        now = time.time()
        elapsed, self._last_time = now - self._last_time, now
        added, self._last_step = step - self._last_step, step
        rate = added / elapsed if elapsed > 0 else float("inf")
        if self._sv.summary_writer:
            value = Summary.Value(tag=self._summary_tag, simple_value=rate)
            self._sv.summary_writer.add_summary(Summary(value=[value]), step)
        logging.info("%s: %g", self._summary_tag, rate)


class SVTimerCheckpointThread(LooperThread):
    """Saves checkpoints.

    Args:
        sv: The supervisor.
        sess: The session to save.
    """

    def __init__(self, sv: Supervised, sess: Any) -> None:
        super().__init__(sv.coord, sv.save_model_secs)
        self._sv = sv
        self._sess = sess

    def run_loop(self) -> None:
        """Once."""
        logging.info("Saving checkpoint to path %s", self._sv.save_path)
        self._sv.saver.save(self._sess, self._sv.save_path, global_step=self._sv.global_step)
        if self._sv.summary_writer and self._sv.global_step is not None:
            step = global_step(self._sess, self._sv.global_step)
            log = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._sv.save_path)
            self._sv.summary_writer.add_session_log(log, step)
