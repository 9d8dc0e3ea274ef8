"""One training run, as the driver sees it: wait for the tasks, run segment after segment.

Everything that happens elsewhere (registrations, rows, steps, failures, the end of the Spark job)
arrives as a message in one inbox, read by the thread that called `fit`. Nothing else decides
anything. Between segments no step is under way: then it is validated, saved and told.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.job.events import LoopEnded, RowsReady, StepsDone, TaskRegistered
from sparkflow.spark.job.layout import TaskName
from sparkflow.spark.job.watchdog import Tasks, Watchdog
from sparkflow.spark.report.history import TrainingHistory
from sparkflow.spark.report.recorder import HistoryRecorder
from sparkflow.spark.run.callbacks import Callbacks
from sparkflow.spark.run.checkpoints import CheckpointStore
from sparkflow.spark.run.inbox import (
    CheckpointEnded,
    Inbox,
    Message,
    SegmentEnded,
    WorkerLost,
)
from sparkflow.spark.run.plan import TrainingPlan as TrainingPlan
from sparkflow.spark.run.replicas import Replicas
from sparkflow.spark.run.saving import CheckpointWriter
from sparkflow.spark.run.schedule import Schedule
from sparkflow.spark.run.snapshot import Position, Snapshot
from sparkflow.spark.run.validation import Validation
from sparkflow_runtime.master.driver import DriverMaster
from sparkflow_runtime.master.loops import Loop, stop_together
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef

_log = logging.getLogger(__name__)

_POLL_S = 0.5
_LOOP_END_S = 10.0


class Service(Tasks, Protocol):
    """Where tasks register, see `job.registration`."""

    def cluster(self) -> ClusterDef:
        """The addresses of all tasks, once all have registered."""

    def let_return(self, task: TaskName, start: tuple[int, int]) -> None:
        """Lets a lost worker come back, with its data from this epoch and step on."""


class Job(Protocol):
    """The tasks' Spark job, see `job.barrier_job`."""

    def start(self) -> None:
        """Submits it, if it does not run yet."""

    def has_active_tasks(self) -> bool:
        """Whether Spark is busy with it or what comes before it."""


class TrainingRun:
    """Drives one run. `events.put` takes events from any thread; the rest is for that of `fit`.

    A `callbacks.RunControl`.

    Args:
        plan: What is to be trained.
        token: The job's token.
        recorder: Takes the losses.
        callbacks: Are told of everything.
        schedule: The steps that come; the plan's from the beginning if None.
        snapshot: What the run goes on from; None to begin.
        store: Where checkpoints are written; None for nowhere.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        token: str,
        recorder: HistoryRecorder,
        callbacks: Callbacks,
        *,
        schedule: Schedule | None = None,
        snapshot: Snapshot | None = None,
        store: CheckpointStore | None = None,
    ) -> None:
        self.events = Inbox()
        self._plan = plan
        self._token = token
        self._recorder = recorder
        self._callbacks = callbacks
        self._schedule = schedule or plan.schedule(callbacks.needs_epochs)
        self._snapshot = snapshot
        self._writer = CheckpointWriter(store, self.events.put) if store is not None else None
        self._early = plan.control.early_stopping()
        if self._early is not None and snapshot is not None and snapshot.early_stopping:
            self._early.restore(snapshot.early_stopping)
        self._stop_reason = ""
        self._epochs_told = self._epochs_seen = self._schedule.epochs_done
        self._rows_done = sum(recorder.history.epoch_rows)
        self._validated_at = self._saved_at = -1
        self._save_after = self._next_save()
        self._missing_rows: dict[Any, int] = {}
        self._replicas: Replicas
        self._watchdog: Watchdog
        self._service: Service
        self._stack: contextlib.ExitStack
        self._absent: dict[int, tuple[float, Exception]] = {}
        self.events.may_lose = self._may_lose
        self._validation: Validation | None = None
        self._loops: dict[int, Loop] = {}
        self._threads: list[threading.Thread] = []

    @property
    def history(self) -> TrainingHistory:
        """Losses and counters so far."""
        return self._recorder.history

    @property
    def num_workers(self) -> int:
        """Workers that train."""
        return self._plan.layout.num_workers

    @property
    def num_ps(self) -> int:
        """Tasks that only hold variables."""
        return self._plan.layout.num_ps

    @property
    def sync(self) -> bool:
        """Whether all workers make their steps together."""
        return self._plan.in_step

    @property
    def rows_per_epoch(self) -> int:
        """Training rows of an epoch."""
        return self._plan.rows

    @property
    def total_rows(self) -> int:
        """Training rows of all epochs."""
        return self._plan.rows * self._plan.epochs

    @property
    def total_steps(self) -> int:
        """Steps of the run, as `RunControl` counts them."""
        return self._schedule.end

    @property
    def params(self) -> Mapping[str, Any]:
        """The trainer's parameters."""
        return self._plan.params

    def stop(self, reason: str = "") -> None:
        """Ends training well at the next step that all workers reach."""
        self._stop_reason = self._stop_reason or reason or "a callback"

    def values(self) -> Mapping[str, npt.NDArray[Any]]:
        """The variables as they are now."""
        with self.events.guard():
            return self._replicas.values(self._plan.fetch)

    def run(self, server: Service, job: Job) -> Mapping[str, npt.NDArray[Any]]:
        """Trains and returns the values of the variables. Blocks until the end.

        Raises:
            OpError: A step failed.
            SparkTrainingError: The cluster did, or checkpoints cannot be written.
        """
        plan = self._plan
        submitted = time.monotonic()
        self._service = server
        self._expect_rows()
        self._watchdog = Watchdog(server, plan.start_timeout_s, plan.stall_timeout_s)
        job.start()
        self._wait_for_tasks(job)
        _log.info("%d tasks after %.1f s", plan.layout.num_tasks, time.monotonic() - submitted)
        with contextlib.ExitStack() as self._stack:
            stack = self._stack
            master = DriverMaster(server.cluster(), self._token)
            stack.callback(master.close)
            with self.events.guard():
                self._replicas = Replicas(master, plan.graph, self.num_workers, stack)
                self._replicas.initialise(self._snapshot)
            self._snapshot = None  # it may be large
            self._watchdog.begin()
            while plan.waits_for_rows and self._missing_rows:
                self._callbacks.on_waiting("waiting for rows")
                self._handle(self.events.next(_POLL_S))
                self._watchdog.check_rows(self._missing_rows)
            if plan.evaluation is not None:
                with self.events.guard():
                    self._validation = Validation(
                        master, plan.evaluation, plan.validation_steps, stack
                    )
            stack.callback(self._end_loops)
            self._callbacks.on_train_begin(self)
            self._recorder.start()
            self._train()
            history = self._recorder.history
            _log.info("%d steps in %.1f s", history.steps, history.seconds)
            values = self._final_values()
            self._finish_saving()
            self._callbacks.on_train_end(history)
        return values

    def _train(self) -> None:
        if self._early is not None and self._early.exhausted:
            self._stop_reason = "early stopping"
        while not self._stop_reason:
            segment = self._schedule.next_segment()
            if segment is None:
                break
            self._run_segment(segment)
            self._between_segments()
        self.history.stopped = self._stop_reason or (
            "maxSteps" if self._schedule.epochs_done < self._plan.epochs else ""
        )

    def _run_segment(self, steps: tuple[int, ...]) -> None:
        """Has all workers make their steps, or fewer if something comes up."""
        leaves = self._plan.graph.mode.leaves
        with self.events.guard():
            if leaves:
                self._replicas.join([worker for worker, count in enumerate(steps) if count])
            self._loops = self._replicas.start_loops(steps, self._schedule.done)
        self._threads = [self._listen_to(*item) for item in self._loops.items()]
        # Of the loops that were lost, and of those that run.
        made, seen = [0] * len(steps), [0] * len(steps)
        left, silent = set(self._loops), set(self._loops)
        halted = False
        self._watchdog.begin()
        while left:
            message = self.events.next(self._poll_s())
            if message is None:
                self._watchdog.check_steps()
                self._check_absent()
            if isinstance(message, WorkerLost):
                worker = message.worker
                made[worker] += seen[worker]
                seen[worker] = 0
                silent.add(worker)
                self._let_return(message, self._schedule.position(worker, made[worker]))
            elif isinstance(message, TaskRegistered) and message.task.index in self._absent:
                worker = message.task.index
                if not self._bring_back(worker, steps[worker] - made[worker], made[worker]):
                    left.discard(worker)
                    silent.discard(worker)
            elif isinstance(message, SegmentEnded):
                made[message.worker] += message.num_steps
                left.discard(message.worker)
                silent.discard(message.worker)
                if leaves:
                    with self.events.guard():
                        self._replicas.leave(message.worker)
                if not halted and made[message.worker] < steps[message.worker]:
                    raise SparkTrainingError(
                        f"The data of worker task {message.worker} ended after "
                        f"{made[message.worker]} of {steps[message.worker]} steps: {message.reason}"
                    )
            elif isinstance(message, StepsDone):
                silent.discard(message.worker)
                seen[message.worker] += len(message.losses)
                self._watchdog.saw_steps(message.worker)
            self._handle(message)
            # A loop can be halted once it runs.
            if not halted and not silent and left and self._wants_halt():
                halted = True
                self._halt()
        self._join_threads()
        self._loops = {}
        self._schedule.advance(made)

    def _may_lose(self, worker: int) -> bool:
        """Whether the others can go on while a lost worker is started again.

        They can where nothing but the parameter servers knows of it.
        """
        plan = self._plan
        return (
            plan.graph.mode.sync_mode == "async"
            and plan.layout.num_ps > 0
            and plan.evaluation is None
            and worker in self._loops
            and len(self.history.restarts) < int(plan.params.get("maxRestarts", 0))
        )

    def _let_return(self, lost: WorkerLost, position: tuple[int, int]) -> None:
        reason = str(lost.error).split("\n", 1)[0]
        _log.warning("the others go on without worker task %d: %s", lost.worker, reason)
        self._recorder.add_restart(reason)
        del self._loops[lost.worker]
        deadline = time.monotonic() + self._plan.start_timeout_s
        self._absent[lost.worker] = (deadline, lost.error)
        self._service.let_return(TaskName("worker", lost.worker), position)

    def _bring_back(self, worker: int, count: int, made: int) -> bool:
        """Has a worker that has come back make its other steps; False if there are none."""
        del self._absent[worker]
        with self.events.guard():
            master = DriverMaster(self._service.cluster(), self._token)
            self._stack.callback(master.close)
            self._replicas.replace(worker, master, self._stack)
            self.events.welcome(worker)
            if not count:
                return False
            loop = self._replicas.start_loop(worker, count, self._schedule.done[worker] + made)
        self._loops[worker] = loop
        self._threads.append(self._listen_to(worker, loop))
        _log.info("worker task %d is back, %d steps are left", worker, count)
        return True

    def _check_absent(self) -> None:
        for deadline, error in self._absent.values():
            if time.monotonic() > deadline:
                raise error

    def _between_segments(self) -> None:
        """What is due now that no step is under way."""
        control, schedule = self._plan.control, self._schedule
        epochs = schedule.epochs_done
        at_epoch, self._epochs_seen = epochs > self._epochs_seen, epochs
        metrics: dict[str, float] = {}
        if self._validation is not None and (
            schedule.is_multiple(control.validation_steps)
            or (control.validates_at_epochs and at_epoch)
            or self._is_last()
        ):
            metrics = self._validate()
        if at_epoch:
            self._tell_epochs(epochs, metrics)
        if self._writer is not None and (
            schedule.is_multiple(control.checkpoint_steps)
            or (control.saves_at_epochs and at_epoch)
            or time.monotonic() >= self._save_after
            or self._is_last()
        ):
            self._save()

    def _validate(self) -> dict[str, float]:
        assert self._validation is not None
        if self._validated_at == self._schedule.total:
            return {}
        self._validated_at = self._schedule.total
        self._watchdog.begin()
        with self.events.guard():
            metrics = self._validation.evaluate(self._watchdog.saw_steps, self._check_quietly)
        self._recorder.add_validation(metrics)
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

    def _check_quietly(self) -> None:
        self._handle(self.events.next(0))
        self._watchdog.check_steps()

    def _save(self) -> None:
        assert self._writer is not None
        if self._saved_at == self._schedule.total:
            return
        self._saved_at = self._schedule.total
        self._finish_saving()  # so that the history says that there is the one before
        plan, early = self._plan, self._early
        has_best = early is not None and early.best == early.best
        with self.events.guard():
            shared, best, workers = self._replicas.learnt(plan.fetch if has_best else ())
        position = Position(tuple(self._schedule.done), plan.epoch_steps, plan.position_rule)
        snapshot = Snapshot(
            step=self._schedule.total,
            position=position,
            shared=shared,
            best=best,
            workers=workers,
            history=self.history.to_dict(),
            early_stopping=early.to_json() if early is not None else None,
        )
        self._writer.write(snapshot)
        self._save_after = self._next_save()

    def _final_values(self) -> Mapping[str, npt.NDArray[Any]]:
        early = self._early
        if early is not None and early.best == early.best:
            self.history.best_step = early.best_step
            with self.events.guard():
                self._replicas.give_back(self._plan.fetch)
        return self.values()

    def _finish_saving(self) -> None:
        if self._writer is None:
            return
        self._writer.wait()
        while (message := self.events.next(0)) is not None:
            self._handle(message)

    def _handle(self, message: Message | None) -> None:
        if isinstance(message, StepsDone):
            self._take(message)
        elif isinstance(message, RowsReady):
            self._count_rows(message)
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
        self._callbacks.on_steps(update)
        self._rows_done += int(update.rows.sum())
        if not self._plan.control.stops(self._callbacks.needs_epochs).at_epochs:
            self._tell_epochs(self._rows_done // max(self._plan.rows, 1), {})

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

    def _wait_for_tasks(self, job: Job) -> None:
        missing = set(self._plan.layout.tasks)
        timeout = self._plan.start_timeout_s
        deadline = time.monotonic() + timeout
        while missing:
            tasks = f"{len(missing)} of {self._plan.layout.num_tasks} tasks"
            self._callbacks.on_waiting(f"waiting for {tasks}")
            message = self.events.next(_POLL_S)
            self._handle(message)
            if isinstance(message, TaskRegistered):
                missing.discard(message.task)
            elif len(missing) == self._plan.layout.num_tasks and job.has_active_tasks():
                # Spark is still at the stages before; they may take as long as they need.
                deadline = time.monotonic() + timeout
            if time.monotonic() > deadline:
                names = ", ".join(map(str, sorted(missing)))
                raise SparkTrainingError(
                    f"After {timeout:g} s these tasks have not started: {names}. Spark's slots may "
                    "be taken by other jobs, or the executors cannot reach the driver "
                    "(spark.driver.host). startTimeout sets how long to wait"
                )

    def _expect_rows(self) -> None:
        shares = [0] * self._plan.layout.num_ps + list(self._plan.worker_rows)
        self._missing_rows = dict(zip(self._plan.layout.tasks, shares, strict=True))

    def _count_rows(self, event: RowsReady) -> None:
        share = self._missing_rows.pop(event.task, event.rows)
        if event.rows != share:
            raise SparkTrainingError(
                f"{event.task} got {event.rows} rows instead of {share}: the DataFrame gives other "
                "rows each time it is evaluated. Cache it or write it to a file first"
            )

    def _wants_halt(self) -> bool:
        return bool(self._stop_reason) or time.monotonic() >= self._save_after

    def _halt(self) -> None:
        if self._plan.in_step:
            stop_together(list(self._loops.values()))
        else:
            for loop in self._loops.values():
                loop.stop()

    def _is_last(self) -> bool:
        return bool(self._stop_reason) or self._schedule.finished

    def _next_save(self) -> float:
        seconds = self._plan.control.checkpoint_seconds
        return time.monotonic() + seconds if seconds and self._writer else float("inf")

    def _poll_s(self) -> float:
        return min(_POLL_S, max(self._save_after - time.monotonic(), 0.01))

    def _listen_to(self, worker: int, loop: Loop) -> threading.Thread:
        thread = threading.Thread(
            target=self._listen, args=(worker, loop), name=f"loop-{worker}", daemon=True
        )
        thread.start()
        return thread

    def _listen(self, worker: int, loop: Loop) -> None:
        try:
            for update in loop.updates():
                losses, weights, waits = (np.asarray(v, np.float32).ravel() for v in update.values)
                self.events.put(StepsDone(worker, losses, weights, float(waits.sum())))
            end = loop.wait()
        except BaseException as error:
            self.events.put(LoopEnded(worker, error))
        else:
            self.events.put(SegmentEnded(worker, end.num_steps, end.out_of_range))

    def _end_loops(self) -> None:
        for loop in self._loops.values():
            loop.cancel()
        self._join_threads()

    def _join_threads(self) -> None:
        for thread in self._threads:
            thread.join(_LOOP_END_S)
        self._threads = []
