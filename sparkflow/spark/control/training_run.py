"""The driver's side of a training run: waits for the tasks, then runs segment after segment.

All external events (registrations, rows, steps, failures, the end of the Spark job) arrive as
messages in one event queue, read by the thread that called `fit`, which alone makes decisions.
Between segments no step is running: that is when the run validates, writes checkpoints and calls
callbacks. The states of a run and their order are defined in `run_state`; `schedule` says what is
due between segments.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

from sparkflow.spark.cluster.events import RowsReady, StepsDone
from sparkflow.spark.cluster.watchdog import Tasks, Watchdog
from sparkflow.spark.control.callbacks import Callbacks
from sparkflow.spark.control.checkpoints.saving import CheckpointEnded, CheckpointWriter
from sparkflow.spark.control.checkpoints.snapshot import FINGERPRINT, IS_FINITE, Position, Snapshot
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.control.early_stopping import EarlyStopping
from sparkflow.spark.control.elastic import Resize, Resizing
from sparkflow.spark.control.event_queue import EventQueue, Message
from sparkflow.spark.control.finite import FiniteWatch
from sparkflow.spark.control.gathering import POLL_S, Gathering, Job
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.control.plan import TrainingPlan as TrainingPlan
from sparkflow.spark.control.recorder import HistoryRecorder
from sparkflow.spark.control.replicas import Replicas
from sparkflow.spark.control.run_state import RunEvent, RunStory, after
from sparkflow.spark.control.schedule import Duty, Pause, Schedule, Stops, is_due
from sparkflow.spark.control.segment import Segments
from sparkflow.spark.control.validation import Validation
from sparkflow.spark.control.worker_recovery import (
    Returns,
    WorkerRecovery,
    give_up_lost,
    open_tasks,
)
from sparkflow_runtime.master.driver import Master
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.security import Credentials

_log = logging.getLogger(__name__)


OpenMaster: TypeAlias = Callable[[ClusterDef, Credentials, TrainingPlan], Master]
"""Creates the object that opens sessions on the registered tasks, see `open_tasks`."""


class Service(Tasks, Returns, Protocol):
    """Where tasks register, see `cluster.registration`."""


class TrainingRun:
    """Drives one run. `events.put` may be called from any thread; the rest is for that of `fit`.

    Implements `callbacks.RunControl`.

    Attributes:
        events: The event queue.
        story: The state of the run, and the events so far.

    Args:
        plan: What to train.
        credentials: The credentials to present to the tasks.
        recorder: Records the losses.
        callbacks: Receive all events.
        schedule: The remaining steps; None for all of the plan's.
        snapshot: The snapshot to resume from; None to start anew.
        store: The store for checkpoints; None for none.
        open_master: Connects to the tasks.
        resizing: Decides whether the number of workers changes; None if it is fixed.
        notes: Additional notes for each snapshot.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        credentials: Credentials,
        recorder: HistoryRecorder,
        callbacks: Callbacks,
        *,
        schedule: Schedule | None = None,
        snapshot: Snapshot | None = None,
        store: CheckpointStore | None = None,
        open_master: OpenMaster = open_tasks,
        resizing: Resizing | None = None,
        notes: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.events = EventQueue()
        self._plan = plan
        self._credentials = credentials
        self._open_master = open_master
        self._recorder = recorder
        self._callbacks = callbacks
        self._schedule = schedule or plan.schedule(callbacks.needs_epochs)
        self._snapshot = snapshot
        self._writer = CheckpointWriter(store, self.events.put) if store is not None else None
        self._early = EarlyStopping.of(plan.config)
        if self._early is not None and snapshot is not None and snapshot.early_stopping:
            self._early.restore(snapshot.early_stopping)
        self._stop_reason = ""
        self._epochs_told = self._epochs_seen = self._schedule.epochs_done
        self._rows_done = sum(recorder.history.epoch_rows)
        self._validated_at = self._saved_at = -1
        self._resizing = resizing
        self._notes = notes
        self.story = RunStory()
        self._watch = FiniteWatch(
            plan.graph.loss_name,
            plan.graph.trainable,
            allowed=plan.config.allow_non_finite,
            values=self._all_values,
            last_checkpoint=self._last_checkpoint,
        )
        self._save_after = self._next_save()
        self._gathering = Gathering(plan, callbacks.on_waiting)
        self._replicas: Replicas
        self._watchdog: Watchdog
        self._segments: Segments
        self._lost: WorkerRecovery
        self._validation: Validation | None = None

    @property
    def history(self) -> TrainingHistory:
        """Losses and counters so far."""
        return self._recorder.history

    @property
    def num_workers(self) -> int:
        """The number of workers."""
        return self._plan.layout.num_workers

    @property
    def num_ps(self) -> int:
        """The number of tasks that only hold variables."""
        return self._plan.layout.num_ps

    @property
    def sync(self) -> bool:
        """Whether all workers step together."""
        return self._plan.config.in_step

    @property
    def rows_per_epoch(self) -> int:
        """Training rows of an epoch."""
        return self._plan.rows

    @property
    def total_rows(self) -> int:
        """Training rows of all epochs."""
        return self._plan.total_rows

    @property
    def total_steps(self) -> int:
        """Steps of the run, as `RunControl` counts them."""
        return self._schedule.end

    @property
    def params(self) -> Mapping[str, Any]:
        """The trainer's parameters."""
        return self._plan.config.params

    def stop(self, reason: str = "") -> None:
        """Ends training early at the next step that all workers reach."""
        self._stop_reason = self._stop_reason or reason or "a callback"

    def values(self) -> Mapping[str, npt.NDArray[Any]]:
        """Returns the current values of the model's variables."""
        with self.events.guard():
            return self._replicas.values(self._plan.fetch)

    def _all_values(self) -> Mapping[str, npt.NDArray[Any]]:
        """Includes variables of training only: NaNs may appear in these first."""
        with self.events.guard():
            return self._replicas.values(self._plan.graph.state.names)

    def run(self, server: Service, job: Job) -> Mapping[str, npt.NDArray[Any]]:
        """Trains and returns the values of the variables. Blocks until the end.

        Raises:
            OpError: A step failed.
            SparkTrainingError: The cluster failed, or checkpoints cannot be written.
        """
        try:
            return self._run(server, job)
        except Resize as change:
            _log.info("%s", change)
            raise
        except BaseException as error:
            self._note(RunEvent.FAILED, str(error).split("\n", 1)[0])
            _log.info("the run so far: %s", self.story)
            raise

    def _run(self, server: Service, job: Job) -> Mapping[str, npt.NDArray[Any]]:
        plan = self._plan
        self._watchdog = Watchdog(server, plan.config.start_timeout, plan.config.stall_timeout)
        self._note(RunEvent.STARTED)
        job.start()
        self._gathering.wait_for_tasks(job, self._hear)
        self._note(RunEvent.TASKS_REGISTERED)
        self.events.all_answer = lambda wait_s: (
            server.states(wait_s).keys() >= server.infos().keys()
        )
        with contextlib.ExitStack() as stack:
            master = self._open_master(server.cluster(), self._credentials, plan)
            stack.callback(master.close)
            give_up_lost(self.events, master)
            with self.events.guard():
                self._replicas = Replicas(master, plan.graph, self.num_workers, stack)
                self._replicas.initialise(self._snapshot)
            self._snapshot = None  # it may be large
            self._note(RunEvent.INITIALIZED)
            self._watchdog.begin()
            if plan.waits_for_rows:
                self._gathering.wait_for_rows(self._hear, self._watchdog.check_rows)
            self._note(RunEvent.ROWS_ARRIVED)
            if plan.evaluation is not None:
                with self.events.guard():
                    self._validation = Validation(
                        master, plan.evaluation, plan.validation_steps, stack
                    )
            lost = WorkerRecovery(
                plan,
                self._credentials,
                server,
                self.events,
                self._replicas,
                self._recorder,
                stack,
                tuple(self._schedule.done),
            )
            self._lost = lost
            self._segments = Segments(
                plan, self.events, self._replicas, self._watchdog, lost, listener=self
            )
            stack.callback(self._segments.end)
            if self._resizing is not None:
                self._resizing.begins(self.history)
            self._callbacks.on_train_begin(self)
            self._recorder.start()
            self._train()
            history = self._recorder.history
            _log.info("%d steps in %.1f s", history.steps, history.seconds)
            values = self._final_values()
            self._finish_saving()
            self._note(RunEvent.FINISHED)
            self._callbacks.on_train_end(history)
        return values

    def _train(self) -> None:
        if self._early is not None and self._early.exhausted:
            self._stop_reason = "early stopping"
        while not self._stop_reason:
            segment = self._schedule.next_segment()
            if segment is None:
                break
            self._note(RunEvent.SEGMENT_BEGAN, f"after step {self._schedule.total}")
            self._schedule.advance(self._segments.run(self._schedule, segment))
            self._note(RunEvent.SEGMENT_ENDED, f"step {self._schedule.total}")
            self._lost.count_repeated(self._schedule.done)
            self._between_segments()
            self._resize()
        self._note(RunEvent.TRAINED, self._stop_reason)
        self.history.stopped = self._stop_reason or (
            "maxSteps" if self._schedule.epochs_done < self._plan.config.epochs else ""
        )

    def _resize(self) -> None:
        """Ends the run if training must continue with another number of workers."""
        if self._resizing is None or self._stop_reason or self._schedule.finished:
            return
        self._finish_saving()  # so that the history includes the checkpoint
        self._resizing.between_segments(self._schedule, self._snapshot_now)

    def _between_segments(self) -> None:
        """Runs what is due while no step is running."""
        epochs = self._schedule.epochs_done
        at_epoch, self._epochs_seen = epochs > self._epochs_seen, epochs
        metrics: dict[str, float] = {}
        if self._is_due(Duty.VALIDATE, at_epoch):
            self._note(RunEvent.VALIDATION_BEGAN)
            metrics = self._validate()
            self._note(RunEvent.VALIDATION_ENDED, self._stop_reason)
        if self._is_due(Duty.REPORT_EPOCH, at_epoch):
            self._tell_epochs(epochs, metrics)
        if self._is_due(Duty.SAVE, at_epoch):
            self._note(RunEvent.SAVE_BEGAN)
            self._save()
            self._note(RunEvent.SAVE_ENDED)

    def _is_due(self, duty: Duty, at_epoch: bool) -> bool:
        pause = Pause(
            step=self._schedule.total,
            at_epoch=at_epoch,
            is_last=bool(self._stop_reason) or self._schedule.finished,
            save_time_over=time.monotonic() >= self._save_after,
            validates=self._validation is not None,
            saves=self._writer is not None,
            validated_at=self._validated_at,
            saved_at=self._saved_at,
        )
        return is_due(duty, self._plan.config, pause)

    def _note(self, event: RunEvent, note: str = "") -> None:
        self.story = after(self.story, event, note)
        _log.debug("%s %s: %s", event.value, note, self.story.state.value)

    def _validate(self) -> dict[str, float]:
        assert self._validation is not None
        self._validated_at = self._schedule.total
        self._watchdog.begin()
        with self.events.guard():
            metrics = self._validation.evaluate(self._watchdog.saw_steps, self._check_quietly)
        self._recorder.add_validation({"step": float(self._schedule.total), **metrics})
        self._watch.saw_metrics(metrics, self._schedule.total)
        self._callbacks.on_validation({"step": float(self._schedule.total), **metrics})
        early = self._early
        if early is not None:
            if early.update(metrics[early.name], self._schedule.total):
                with self.events.guard():
                    self._replicas.keep(self._plan.fetch)
            elif early.exhausted:
                self._stop_reason = (
                    f"early stopping: {early.name} was best ({early.best:.6g}) after step "
                    f"{early.best_step}"
                )
        return metrics

    def _hear(self, timeout_s: float) -> Message | None:
        message = self.events.next(timeout_s)
        self.handle(message)
        return message

    def _check_quietly(self) -> None:
        self._hear(0)
        self._watchdog.check_steps()

    def _save(self) -> None:
        assert self._writer is not None
        self._saved_at = self._schedule.total
        self._finish_saving()  # so that the history includes the previous one
        self._writer.write(self._snapshot_now())
        self._save_after = self._next_save()

    def _snapshot_now(self) -> Snapshot:
        """Returns the full state; no step may be running."""
        plan, early = self._plan, self._early
        has_best = early is not None and early.has_best
        with self.events.guard():
            shared, best, workers = self._replicas.learnt(plan.fetch if has_best else ())
        is_finite = self._watch.saw_values(shared, self._schedule.total)
        position = Position(tuple(self._schedule.done), plan.epoch_steps, plan.position_rule)
        notes: dict[str, Any] = {IS_FINITE: is_finite, **self._notes()}
        if plan.fingerprint is not None:
            notes[FINGERPRINT] = plan.fingerprint.to_json()
        return Snapshot(
            step=self._schedule.total,
            position=position,
            shared=shared,
            best=best,
            workers=workers,
            history=self.history.to_dict(),
            early_stopping=early.to_json() if early is not None else None,
            notes=notes,
        )

    def _final_values(self) -> Mapping[str, npt.NDArray[Any]]:
        early = self._early
        if early is not None and early.has_best:
            self.history.best_step = early.best_step
            with self.events.guard():
                self._replicas.give_back(self._plan.fetch)
        values = self.values()
        self._watch.saw_values(values, self._schedule.total)
        return values

    def _last_checkpoint(self) -> str:
        """Returns the path of the last complete checkpoint, if there is one."""
        if self._writer is not None:
            self._writer.wait()
            if self._writer.last_path:
                return self._writer.last_path
        known = self.history.checkpoints
        return str(known[-1]["path"]) if known else ""

    def _finish_saving(self) -> None:
        if self._writer is None:
            return
        self._writer.wait()
        while (message := self.events.next(0)) is not None:
            self.handle(message)

    def handle(self, message: Message | None) -> None:
        """Handles an event during or between steps; see `segment.Listener`."""
        if isinstance(message, StepsDone):
            self._take(message)
        elif isinstance(message, RowsReady):
            self._gathering.count_rows(message)
        elif isinstance(message, CheckpointEnded):
            assert self._writer is not None
            self._writer.count(message)
            if message.path:
                self._recorder.add_checkpoint(message.step, message.path)
                self._callbacks.on_checkpoint(message.path)

    def _take(self, event: StepsDone) -> None:
        update = self._recorder.add(event.worker, event.losses, event.weights, event.waited_s)
        if not update.num_steps:
            return
        self._watch.saw_losses(update)
        self._callbacks.on_steps(update)
        self._rows_done += int(update.rows.sum())
        if not Stops.of(self._plan.config, self._callbacks.needs_epochs).at_epochs:
            self._tell_epochs(self._rows_done // max(self._plan.rows, 1), {})

    def misses(self, worker: int, count: int, rows: int) -> None:
        """Counts steps that a lost worker made but did not report; see `segment.Listener`."""
        self._recorder.add_untold(worker, count, rows)
        self._rows_done += rows

    def _tell_epochs(self, count: int, metrics: Mapping[str, float]) -> None:
        if count <= self._epochs_told:
            return
        losses = self.history.epoch_loss
        while self._epochs_told < min(count, len(losses)):
            told: dict[str, float] = {"loss": losses[self._epochs_told]}
            if self._epochs_told == count - 1:
                told |= {f"val_{name}": value for name, value in metrics.items()}
            self._callbacks.on_epoch_end(self._epochs_told, told)
            self._epochs_told += 1

    def wants_halt(self) -> bool:
        """Returns whether a stop is requested, or a checkpoint is due by time."""
        return bool(self._stop_reason) or time.monotonic() >= self._save_after

    def _next_save(self) -> float:
        seconds = self._plan.config.checkpoint_seconds
        return time.monotonic() + seconds if seconds and self._writer else float("inf")

    def halts(self) -> None:
        """Notes that the segment is ended early."""
        self._note(RunEvent.HALT_WANTED, self._stop_reason or "a checkpoint is due")

    def poll_s(self) -> float:
        """How long it may take until `wants_halt` is asked again."""
        return min(POLL_S, max(self._save_after - time.monotonic(), 0.01))
