"""The fit state, which survives all attempts of a fit, and where each attempt starts."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy.typing as npt

from sparkflow.spark.control.attempts.resuming import (
    ALWAYS,
    NEVER,
    describe_resumed,
    require_same_training,
)
from sparkflow.spark.control.callbacks import Callbacks
from sparkflow.spark.control.checkpoints.snapshot import FIT, Snapshot
from sparkflow.spark.control.checkpoints.store import (
    Checkpoint,
    CheckpointStore,
    require_same_variables,
)
from sparkflow.spark.control.checkpoints.tables import model_values
from sparkflow.spark.control.early_stopping import EarlyStopping
from sparkflow.spark.control.elastic import Resizing
from sparkflow.spark.control.finite import non_finite
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.control.recorder import HistoryRecorder
from sparkflow.spark.control.schedule import Schedule
from sparkflow.spark.control.training_run import OpenMaster, TrainingRun
from sparkflow.spark.control.worker_recovery import open_tasks
from sparkflow_runtime.security import Credentials

_log = logging.getLogger(__name__)

_MEMORY: Final = "the memory of the process that leads"


class FitState:
    """The fit state: creates the runs of one fit. Used by the thread that called `fit`.

    Reads the last checkpoint at once, so that errors in it are raised before any job.

    Args:
        plan: What to train.
        credentials: The credentials to present to the tasks.
        callbacks: Receive all events.
        store: The checkpoints; None without.
        start: The snapshot of another training to start from if there is no checkpoint: its
            best variables, or the last ones, and random streams, but not its position in the data.
        open_master: Connects to the tasks.
        remembered: The snapshot of an earlier `FitState` of the same fit in another process.
        lost: Why earlier ones were lost, each with the number of steps made by then; 0 if unknown.

    Raises:
        OtherTrainingError: The last checkpoint is of a different training, see `resume`.
        SparkTrainingError: Checkpoints cannot be written, or the last one is of another model or
            format.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        credentials: Credentials,
        callbacks: Callbacks,
        store: CheckpointStore | None = None,
        *,
        start: Snapshot | None = None,
        open_master: OpenMaster = open_tasks,
        remembered: Snapshot | None = None,
        lost: Sequence[tuple[str, int]] = (),
    ) -> None:
        if start is not None:
            state = plan.graph.state
            require_same_variables(Checkpoint("to begin with", start), state.shared, state.tables)
        # The early stopping of that training does not apply to this one.
        self._start = start and replace(start, early_stopping=None)
        self._plan = plan
        self._credentials = credentials
        self._open_master = open_master
        self._callbacks = callbacks
        self._store = store
        self._lost = len(lost)
        self._remembered = None if remembered is None else Checkpoint(_MEMORY, remembered)
        # The restarts of earlier fits, and those of this one, which `maxRestarts` limits.
        self._earlier: list[dict[str, Any]] = []
        self._restarts: list[dict[str, Any]] = []
        found = self._found()
        if found is None or found is self._remembered or self._is_own(found):
            self._go_on(found, lost)
            return
        self._require_same(found)
        self._earlier = list(found.snapshot.history.get("restarts", ()))
        self._begin(found)
        self._say_resumed(found)
        self._note_lost(lost)

    @property
    def history(self) -> TrainingHistory:
        """The history of the last attempt."""
        return self._recorder.history

    @property
    def restarts(self) -> list[str]:
        """The reason of each interruption of this fit, without those of earlier fits."""
        return [str(each["reason"]) for each in self._restarts]

    @property
    def remembered(self) -> Snapshot | None:
        """The last argument of `remember`; None before the first call."""
        return None if self._remembered is None else self._remembered.snapshot

    @property
    def positions(self) -> tuple[tuple[int, int], ...]:
        """By worker, where the next attempt starts: completed epochs, and steps of the next one."""
        return self._schedule.positions

    @property
    def finished_values(self) -> Mapping[str, npt.NDArray[Any]] | None:
        """The values of an earlier fit that completed the training; None if steps remain.

        If there are such values, no job is needed.
        """
        if self.history.resumed is None or not self.history.resumed["finished"]:
            return None
        assert self._snapshot is not None
        early = self._early(self._snapshot)
        if early is not None and early.has_best:
            self.history.best_step = early.best_step
        best = self._snapshot.best if early is not None else {}
        shared = model_values(self._snapshot.shared, self._plan.graph.state.tables)
        values = {**shared, **best}
        return {name: values[name] for name in self._plan.fetch}

    def on_restart(self, reason: str) -> None:
        """Notes that an attempt has failed and another one will follow."""
        made = self.history.steps
        self._callbacks.on_restart(reason)
        self._begin(self._remembered or self._latest())
        self._note_restart(reason, made)

    def resize(self, plan: TrainingPlan) -> None:
        """Makes the next run use the plan's number of workers and the remembered snapshot."""
        self._plan = plan
        self._begin(self._remembered or self._latest())

    def remember(self, snapshot: Snapshot) -> None:
        """Keeps a run's snapshot in memory, from which the next attempt starts."""
        self._remembered = Checkpoint(_MEMORY, snapshot)

    def attempt(self, resizing: Resizing | None = None) -> TrainingRun:
        """Creates the next run; its data start at `positions`.

        Args:
            resizing: Decides whether the number of workers changes.
        """
        return TrainingRun(
            self._plan,
            self._credentials,
            self._recorder,
            self._callbacks,
            schedule=self._schedule,
            snapshot=self._snapshot,
            store=self._store,
            open_master=self._open_master,
            resizing=resizing,
            notes=self._notes,
        )

    def _notes(self) -> Mapping[str, Any]:
        """The notes of a snapshot: the identity of this fit, and its restarts so far."""
        name = self._plan.name
        known = {"name": name, "restarts": len(self._restarts), "lost": self._lost}
        return {FIT: known} if name else {}

    def _found(self) -> Checkpoint | None:
        """The snapshot from which the first attempt starts; None to start anew."""
        store, remembered = self._store, self._remembered
        if store is None:
            return remembered
        store.prepare()
        never = self._plan.config.resume == NEVER
        # Existing checkpoints may be of this fit, if it was continued.
        found = None if never and remembered is None and not self._lost else self._latest()
        if found is not None and self._is_own(found):
            if remembered is None or found.snapshot.step > remembered.snapshot.step:
                self._remembered = None
                return found
        elif never:
            _leave_existing(store)
            found = None
        return remembered or found

    def _is_own(self, found: Checkpoint) -> bool:
        name = self._plan.name
        return bool(name) and found.snapshot.fit.get("name") == name

    def _go_on(self, found: Checkpoint | None, lost: Sequence[tuple[str, int]]) -> None:
        """Starts where this fit was in another process, or anew."""
        if found is not None:
            restarts = list(found.snapshot.history.get("restarts", ()))
            first = len(restarts) - int(found.snapshot.fit.get("restarts", 0))
            self._earlier, self._restarts = restarts[:first], restarts[first:]
            lost = lost[int(found.snapshot.fit.get("lost", 0)) :]
        self._begin(found)
        self._note_lost(lost)

    def _note_lost(self, lost: Sequence[tuple[str, int]]) -> None:
        for reason, made in lost:
            self._note_restart(reason, made)

    def _note_restart(self, reason: str, made: int) -> None:
        undone = max(0, made - self.history.steps)
        if undone:
            _log.warning("%d steps since the last checkpoint are repeated", undone)
        self._recorder.add_restart(reason, undone)

    def _latest(self) -> Checkpoint | None:
        return self._store.latest(self._refuse) if self._store is not None else None

    def _refuse(self, snapshot: Snapshot) -> str:
        """Why a readable checkpoint must not be resumed; "" if it may be."""
        if self._plan.config.allow_non_finite:
            return ""
        bad = non_finite(snapshot.shared, self._plan.graph.trainable)
        return f"{bad[0]} is not finite, and allowNonFinite is False" if bad else ""

    def _require_same(self, found: Checkpoint) -> None:
        plan = self._plan
        if plan.config.resume != ALWAYS:
            schedule = self._schedule_of(found)
            require_same_training(
                found,
                plan.fingerprint,
                plan.graph.state,
                schedule,
                is_finished=self._is_finished(found, schedule),
            )
        require_same_variables(found, plan.graph.state.shared, plan.graph.state.tables)

    def _say_resumed(self, found: Checkpoint) -> None:
        plan = self._plan
        is_finished = self._is_finished(found, self._schedule)
        step = found.snapshot.step
        text = describe_resumed(found, plan.fingerprint, is_finished)
        self.history.resumed = {
            "path": found.path,
            "step": step,
            "finished": is_finished,
            "text": text,
        }
        _log.warning("%s", text)
        self._callbacks.on_resume(found.path, step, is_finished)

    def _is_finished(self, found: Checkpoint, schedule: Schedule) -> bool:
        early = self._early(found.snapshot)
        return schedule.finished or (early is not None and early.exhausted)

    def _early(self, snapshot: Snapshot) -> EarlyStopping | None:
        """Early stopping in the state of an earlier run."""
        early = EarlyStopping.of(self._plan.config)
        if early is not None and snapshot.early_stopping is not None:
            early.restore(snapshot.early_stopping)
        return early

    def _schedule_of(self, found: Checkpoint) -> Schedule:
        """The schedule of the steps that remain after a checkpoint."""
        plan, position = self._plan, found.snapshot.position
        done = position.done
        if dict(position.feed) != plan.position_rule:
            # Its position refers to other data.
            done = tuple(position.epochs_done * steps for steps in plan.epoch_steps)
        elif plan.config.in_step:
            done = done[:1] * plan.layout.num_workers  # all have made as many
        return plan.schedule(self._callbacks.needs_epochs, done)

    def _begin(self, found: Checkpoint | None) -> None:
        """Makes the next attempt start from a checkpoint, or anew."""
        plan = self._plan
        self._snapshot: Snapshot | None = self._start
        self._schedule: Schedule = plan.schedule(self._callbacks.needs_epochs)
        batches, steps = plan.config.gradient_accumulation, self._schedule.most
        if batches > steps:
            _log.warning(
                "Nothing is learned: an update needs gradientAccumulation=%d batches, and no "
                "worker has more than %d in this training. Reduce it, or train for more epochs",
                *(batches, steps),
            )
        if found is None:
            history = TrainingHistory(
                rows_per_epoch=plan.rows,
                num_workers=plan.layout.num_workers,
                restarts=list(self._restarts),
            )
        else:
            self._snapshot = found.snapshot
            self._schedule = self._schedule_of(found)
            history = TrainingHistory.from_dict(found.snapshot.history)
            known = [each["path"] for each in history.checkpoints]
            if found is not self._remembered and found.path not in known:
                listed = {"step": found.snapshot.step, "time": history.seconds, "path": found.path}
                history.checkpoints.append(listed)
            history.restarts = [*self._earlier, *self._restarts]
            history.rows_per_epoch = plan.rows
            history.num_workers = plan.layout.num_workers
            # The snapshot in memory is of the end of an epoch whenever that matters.
            moved = tuple(self._schedule.done) != found.snapshot.position.done
            if moved and found is not self._remembered:
                _log.warning(
                    "The checkpoint %s is of other rows, workers or batches: training continues "
                    "with its variables at the start of epoch %d, not at its position in the data",
                    found.path,
                    self._schedule.epochs_done + 1,
                )
            _log.info("continuing from %s, step %d", found.path, found.snapshot.step)
        self._recorder = HistoryRecorder(
            plan.rows, range(plan.layout.num_workers), plan.config.in_step, history, self._restarts
        )


def _leave_existing(store: CheckpointStore) -> None:
    count = store.ignore_existing()
    if count:
        _log.warning(
            "resume='never': training starts anew. The %d checkpoints in %s are kept in addition "
            "to the new ones, and keepCheckpointMax does not count them; delete those that are no "
            "longer needed",
            count,
            store.directory,
        )
