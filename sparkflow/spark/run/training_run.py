"""One training run, as the driver sees it: wait for the tasks, run the loops, fetch the variables.

Everything that happens elsewhere (registrations, rows, steps, failures, the end of the Spark job)
arrives as an event in one queue, read by the thread that called `fit`. Nothing else decides
anything.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.graphs.training import TrainingGraph
from sparkflow.spark.job.barrier_job import BarrierJob
from sparkflow.spark.job.events import (
    Event,
    JobEnded,
    LoopEnded,
    RowsReady,
    StepsDone,
    TaskRegistered,
)
from sparkflow.spark.job.failures import is_cause, is_failure, to_exception
from sparkflow.spark.job.layout import Layout
from sparkflow.spark.job.registration import RegistrationServer
from sparkflow.spark.report.history import TrainingHistory
from sparkflow.spark.report.recorder import HistoryRecorder
from sparkflow.spark.run.callbacks import Callbacks
from sparkflow_runtime.master.driver import DriverMaster, DriverSession
from sparkflow_runtime.master.loops import Loop

_log = logging.getLogger(__name__)

_POLL_S = 0.5
# How long the reason of a failure may take after its first consequence.
_CAUSE_WAIT_S = 6.0
_LOOP_END_S = 10.0


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What is to be trained.

    Attributes:
        layout: The tasks; every worker has rows.
        rows: All rows of an epoch.
        graph: The replicas' graph.
        total_steps: Steps of each worker in sync mode; None lets each end with its own rows.
        fetch: Names of the variables whose values are wanted.
        start_timeout_s: How long Spark may take to start the tasks.
        epochs: How often each row is trained on.
        batch_size: Rows per step of each worker.
        params: The trainer's parameters, for callbacks.
    """

    layout: Layout
    rows: int
    graph: TrainingGraph
    total_steps: int | None
    fetch: tuple[str, ...]
    start_timeout_s: float
    epochs: int = 1
    batch_size: int = 1
    params: Mapping[str, Any] = field(default_factory=dict)


class TrainingRun:
    """Drives one run. `events` takes events from any thread; the rest is for the thread of `fit`.

    Args:
        plan: What is to be trained.
        token: The job's token.
        recorder: Takes the losses.
        callbacks: Are told of everything.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        token: str,
        recorder: HistoryRecorder,
        callbacks: Callbacks,
    ) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._plan = plan
        self._token = token
        self._recorder = recorder
        self._callbacks = callbacks
        self._epochs_told = 0
        self._rows_done = 0
        self._sessions: list[DriverSession] = []
        self._failures: list[Event] = []
        self._loops: list[Loop] = []
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
        return self._plan.total_steps is not None

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
        if self._plan.total_steps is not None:
            return self._plan.total_steps
        shares = self._plan.layout.worker_rows(self._plan.rows)
        return sum(-(-share // self._plan.batch_size) for share in shares) * self._plan.epochs

    @property
    def params(self) -> Mapping[str, Any]:
        """The trainer's parameters."""
        return self._plan.params

    def stop(self, reason: str = "") -> None:
        """Ends training well at the next step that all workers reach."""
        _log.info("training stops%s", f": {reason}" if reason else "")
        for loop in self._loops:
            loop.stop()

    def values(self) -> Mapping[str, npt.NDArray[Any]]:
        """The variables as they are now."""
        with self._graph_errors():
            values = self._sessions[0].run([f"{name}:0" for name in self._plan.fetch], {}, [])
        return dict(zip(self._plan.fetch, map(np.asarray, values), strict=True))

    def run(self, server: RegistrationServer, job: BarrierJob) -> Mapping[str, npt.NDArray[Any]]:
        """Trains and returns the values of the variables. Blocks until the end.

        Raises:
            OpError: A step failed.
            SparkTrainingError: The cluster did.
        """
        plan = self._plan
        submitted = time.monotonic()
        job.start()
        self._wait_for_tasks(job)
        _log.info("%d tasks after %.1f s", plan.layout.num_tasks, time.monotonic() - submitted)
        with contextlib.ExitStack() as stack:
            master = DriverMaster(server.cluster(), self._token)
            stack.callback(master.close)
            first = self._open_session(master, 0, stack)
            with self._graph_errors():
                first.run([], {}, list(plan.graph.initializers))
            self._wait_for_rows()
            _log.info("all rows after %.1f s", time.monotonic() - submitted)
            others = range(1, plan.layout.num_workers)
            self._sessions = [first, *(self._open_session(master, i, stack) for i in others)]
            stack.callback(self._stop_loops)
            self._callbacks.on_train_begin(self)
            self._recorder.start()
            for worker, session in enumerate(self._sessions):
                fetches = [plan.graph.loss, plan.graph.weight]
                self._start_loop(worker, session, fetches, [plan.graph.train_op])
            self._follow_loops()
            history = self._recorder.history
            _log.info("%d steps in %.1f s", history.steps, history.seconds)
            values = self.values()
            self._callbacks.on_train_end(history)
        return values

    def _wait_for_tasks(self, job: BarrierJob) -> None:
        missing = set(self._plan.layout.tasks)
        timeout = self._plan.start_timeout_s
        deadline = time.monotonic() + timeout
        while missing:
            tasks = f"{len(missing)} of {self._plan.layout.num_tasks} tasks"
            self._callbacks.on_waiting(f"waiting for {tasks}")
            event = self._next(_POLL_S)
            if isinstance(event, TaskRegistered):
                missing.discard(event.task)
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

    def _wait_for_rows(self) -> None:
        layout = self._plan.layout
        shares = [0] * layout.num_ps + layout.worker_rows(self._plan.rows)
        expected = dict(zip(layout.tasks, shares, strict=True))
        while expected:
            self._callbacks.on_waiting("waiting for rows")
            event = self._next(_POLL_S)
            if isinstance(event, RowsReady):
                share = expected.pop(event.task)
                if event.rows != share:
                    raise SparkTrainingError(
                        f"{event.task} got {event.rows} rows instead of {share}: the DataFrame "
                        "gives other rows each time it is evaluated. Cache it or write it to a "
                        "file first"
                    )

    def _follow_loops(self) -> None:
        workers = set(range(self._plan.layout.num_workers))
        while workers:
            event = self._next(_POLL_S)
            if isinstance(event, StepsDone):
                self._take(event)
            elif isinstance(event, LoopEnded):
                workers.discard(event.worker)

    def _take(self, event: StepsDone) -> None:
        update = self._recorder.add(event.worker, event.losses, event.weights, event.waited_s)
        if not update.num_steps:
            return
        self._callbacks.on_steps(update)
        history = self.history
        self._rows_done += int(update.rows.sum())
        while self._epochs_told < self._rows_done // max(self._plan.rows, 1):
            loss = history.epoch_loss[self._epochs_told]
            self._callbacks.on_epoch_end(self._epochs_told, {"loss": loss})
            self._epochs_told += 1

    def _next(self, timeout_s: float) -> Event | None:
        """The next event that is not a failure.

        Raises:
            Exception: As `to_exception` says, once something failed.
        """
        try:
            event = self.events.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if not is_failure(event):
            return event
        self._failures.append(event)
        raise self._explain()

    def _explain(self) -> Exception:
        """Waits a little for the cause of the failures so far."""
        deadline = time.monotonic() + _CAUSE_WAIT_S
        while not any(map(is_cause, self._failures)):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                event = self.events.get(timeout=left)
            except queue.Empty:
                break
            if is_failure(event):
                self._failures.append(event)
            if isinstance(event, JobEnded):
                break  # nothing comes after it
        return to_exception(self._failures)

    @contextlib.contextmanager
    def _graph_errors(self) -> Iterator[None]:
        """Has errors of single steps compete with the reports of tasks that died meanwhile."""
        try:
            yield
        except Exception as error:
            self._failures.append(LoopEnded(0, error))
            explained = self._explain()
            raise explained from error

    def _open_session(
        self, master: DriverMaster, worker: int, stack: contextlib.ExitStack
    ) -> DriverSession:
        graph_def = self._plan.graph.replica(worker, self._plan.layout.num_workers)
        filters = ["/job:ps", f"/job:worker/task:{worker}"]
        with self._graph_errors():
            session = master.create_session(graph_def, device_filters=filters)
        stack.callback(session.close)
        return session

    def _start_loop(
        self, number: int, session: DriverSession, fetches: list[str], targets: list[str]
    ) -> None:
        with self._graph_errors():
            loop = session.start_loop(fetches, targets, self._plan.total_steps)
        self._loops.append(loop)
        thread = threading.Thread(
            target=self._listen, args=(number, loop), name=f"loop-{number}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _listen(self, number: int, loop: Loop) -> None:
        try:
            for update in loop.updates():
                losses, weights = (np.asarray(v, np.float32).ravel() for v in update.values)
                self.events.put(StepsDone(number, losses, weights, update.waited_s))
        except BaseException as error:
            self.events.put(LoopEnded(number, error))
        else:
            self.events.put(LoopEnded(number))

    def _stop_loops(self) -> None:
        for loop in self._loops:
            loop.cancel()
        for thread in self._threads:
            thread.join(_LOOP_END_S)


def finish(server: RegistrationServer, job: BarrierJob, failed: bool) -> None:
    """Ends all tasks and waits until they have; called whatever happened before.

    Raises:
        SparkTrainingError: The Spark job does not end, after training that went well.
    """
    started = time.monotonic()
    server.end("Training was given up" if failed else "")
    ended = job.finish()
    server.close()
    _log.info("the tasks ended within %.1f s", time.monotonic() - started)
    if not ended and not failed:
        raise SparkTrainingError("The Spark job did not end after training did")
