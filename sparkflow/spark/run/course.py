"""The course of one fit: what lives through all its attempts, and where each of them begins."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from sparkflow.spark.report.history import TrainingHistory
from sparkflow.spark.report.recorder import HistoryRecorder
from sparkflow.spark.run.callbacks import Callbacks
from sparkflow.spark.run.checkpoints import Checkpoint, CheckpointStore, require_same_variables
from sparkflow.spark.run.plan import TrainingPlan
from sparkflow.spark.run.schedule import Schedule
from sparkflow.spark.run.snapshot import Snapshot
from sparkflow.spark.run.training_run import TrainingRun

_log = logging.getLogger(__name__)


class Course:
    """Makes the runs of one fit. Used by the thread that called it.

    Reads the last checkpoint at once, so that what is wrong with it is said before any job.

    Args:
        plan: What is to be trained.
        token: The job's token.
        callbacks: Are told of everything.
        store: The checkpoints; None without.
        start: What another training has left, to begin with where there is no checkpoint: its
            variables and random streams, not its place in the data.

    Raises:
        SparkTrainingError: The checkpoints cannot be written, or the last one is of another model
            or format.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        token: str,
        callbacks: Callbacks,
        store: CheckpointStore | None = None,
        *,
        start: Snapshot | None = None,
    ) -> None:
        if start is not None:
            require_same_variables(Checkpoint("to begin with", start), plan.graph.state.shared)
        # What that training was watching says nothing of this one.
        self._start = start and replace(start, best={}, early_stopping=None)
        self._plan = plan
        self._token = token
        self._callbacks = callbacks
        self._store = store
        self._reasons: list[str] = []
        if store is not None:
            store.prepare()
            if not plan.control.resume:
                count = store.ignore_existing()
                if count:
                    _log.warning(
                        "resume=False: training starts anew; the %d checkpoints in %s stay until "
                        "newer ones have replaced them (keepCheckpointMax=%d)",
                        count,
                        store.directory,
                        plan.control.keep_checkpoint_max,
                    )
        self._begin()
        self._restarts_before = len(self.history.restarts)

    @property
    def history(self) -> TrainingHistory:
        """Of the attempt that was made last."""
        return self._recorder.history

    @property
    def positions(self) -> tuple[tuple[int, int], ...]:
        """Per worker where the next attempt begins: epochs that are over, steps of the next."""
        return self._schedule.positions

    @property
    def finished_values(self) -> Mapping[str, npt.NDArray[Any]] | None:
        """The values of an earlier fit that has done all that is asked for; None if there is work.

        With these no job is needed.
        """
        snapshot = self._snapshot
        if snapshot is None or snapshot is self._start:
            return None
        early = self._plan.control.early_stopping()
        if early is not None and snapshot.early_stopping is not None:
            early.restore(snapshot.early_stopping)
        if not (self._schedule.finished or (early is not None and early.exhausted)):
            return None
        values = {**snapshot.shared, **(snapshot.best if early is not None else {})}
        return {name: values[name] for name in self._plan.fetch}

    def on_restart(self, reason: str) -> None:
        """An attempt has failed and there will be another one."""
        self._reasons.append(reason)
        self._callbacks.on_restart(reason)
        self._begin()
        # A checkpoint's history knows of the restarts before it.
        known = max(0, len(self.history.restarts) - self._restarts_before)
        for each in self._reasons[known:]:
            self._recorder.add_restart(each)

    def attempt(self) -> TrainingRun:
        """The next run; its data begin at `positions`."""
        return TrainingRun(
            self._plan,
            self._token,
            self._recorder,
            self._callbacks,
            schedule=self._schedule,
            snapshot=self._snapshot,
            store=self._store,
        )

    def _begin(self) -> None:
        """Finds where the next attempt begins."""
        plan = self._plan
        found = self._store.latest() if self._store is not None else None
        self._snapshot: Snapshot | None = self._start
        self._schedule: Schedule = plan.schedule(self._callbacks.needs_epochs)
        history: TrainingHistory | None = None
        if found is not None:
            require_same_variables(found, plan.graph.state.shared)
            self._snapshot = found.snapshot
            self._schedule = plan.schedule(self._callbacks.needs_epochs, _done(plan, found))
            history = TrainingHistory.from_dict(found.snapshot.history)
            if found.path not in [each["path"] for each in history.checkpoints]:
                listed = {"step": found.snapshot.step, "time": history.seconds, "path": found.path}
                history.checkpoints.append(listed)
            history.rows_per_epoch = plan.rows
            history.num_workers = plan.layout.num_workers
            _log.info("goes on from %s, step %d", found.path, found.snapshot.step)
        self._recorder = HistoryRecorder(
            plan.rows, range(plan.layout.num_workers), plan.in_step, history
        )


def _done(plan: TrainingPlan, checkpoint: Checkpoint) -> tuple[int, ...]:
    """Per worker the steps that count as done."""
    position = checkpoint.snapshot.position
    if dict(position.feed) == plan.position_rule:
        return position.done
    epochs = position.epochs_done
    _log.warning(
        "The checkpoint %s is of other rows, workers or batches: training goes on at the beginning "
        "of epoch %d with its variables, not at its place in the data",
        checkpoint.path,
        epochs + 1,
    )
    return tuple(epochs * steps for steps in plan.epoch_steps)
