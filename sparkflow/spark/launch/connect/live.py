"""The client's view of a training on the cluster: its query, and callbacks during training.

The query's first row arrives when tasks begin to register, and has the chief's address. From then
on a thread polls the chief, and the thread that called `fit` calls the callbacks.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame

from sparkflow.spark.cluster.events import JobEnded
from sparkflow.spark.cluster.failures import to_exception
from sparkflow.spark.control.callbacks import Callbacks, Update
from sparkflow.spark.control.checkpoints.packed import unpack
from sparkflow.spark.control.checkpoints.tables import model_values
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.control.recorder import HistoryRecorder
from sparkflow.spark.launch.connect.asking import Asking
from sparkflow.spark.launch.connect.outcome import (
    ADDRESS,
    COMPLETE,
    Outcome,
    Paused,
    from_parts,
    from_rows,
)
from sparkflow_runtime.errors import UnavailableError
from sparkflow_runtime.security import Credentials

_log = logging.getLogger(__name__)

_PAUSE_S: Final = 1.0
_LOOK_S: Final = 0.5
_TRIES: Final = 3
_TAIL_S: Final = 30.0
"""Maximum seconds from the last row of the outcome to the end of the query."""

Row = tuple[str, int, bytes]


class LiveRun:
    """A training that runs on the cluster, for callbacks: a `RunControl`.

    Args:
        plan: The plan of the training.
        total_steps: See `RunControl`.
        history: The history so far.
        ask: Returns the variables.

    Attributes:
        wants_stop: Why a callback has requested the end; None if none has.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        total_steps: int,
        history: TrainingHistory,
        ask: Callable[[], Mapping[str, npt.NDArray[Any]]],
    ) -> None:
        self.history = history
        self.num_workers = plan.layout.num_workers
        self.num_ps = plan.layout.num_ps
        self.sync = plan.config.in_step
        self.rows_per_epoch = plan.rows
        self.total_rows = plan.total_rows
        self.total_steps = total_steps
        self.params = plan.config.params
        self.wants_stop: str | None = None
        self._ask = ask

    def stop(self, reason: str = "") -> None:
        """Requests a regular end of training, which reaches the cluster with the next poll."""
        self.wants_stop = self.wants_stop or reason or "a callback"

    def values(self) -> Mapping[str, npt.NDArray[Any]]:
        """Returns the current variables; at the end those of the model. Costs a query."""
        return self._ask()

    def end(self, outcome: Outcome, history: TrainingHistory) -> None:
        """Marks training as finished."""
        self.history = history
        self._ask = lambda: outcome.values


class Replay:
    """Passes events of a chief to callbacks. For the thread that called `fit`.

    Args:
        callbacks: The callbacks.
        plan: The plan of the training.

    Attributes:
        run: The run that callbacks get; None before it begins.
        plan: The plan of the training, which is replaced if the number of workers changes.
        acknowledged: The number of the last event passed to them.
        outcome: The outcome; None before it has arrived.
        wants_pause: Whether the cluster is to stop for another number of workers.
    """

    def __init__(self, callbacks: Callbacks, plan: TrainingPlan) -> None:
        self._callbacks = callbacks
        self.plan = plan
        self.wants_pause = False
        self._recorder: HistoryRecorder | None = None
        self._asking: Asking | None = None
        self.run: LiveRun | None = None
        self.acknowledged = 0
        self.outcome: Outcome | None = None

    @property
    def steps(self) -> int:
        """The number of steps reported so far."""
        return 0 if self.run is None else self.run.history.steps

    @property
    def needs_epochs(self) -> bool:
        """Whether a callback requires that no step runs while it is called."""
        return self._callbacks.needs_epochs

    def follow(self, asking: Asking | None) -> None:
        """Sets the connection to the chief; None for none."""
        self._asking = asking

    def asked(self) -> dict[str, Any]:
        """Returns the request for the next poll."""
        stop = self.run.wants_stop if self.run is not None else None
        asked: dict[str, Any] = {"acknowledged": self.acknowledged, "stop": stop}
        return {**asked, "pause": True} if self.wants_pause else asked

    def take(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Passes new events to the callbacks."""
        for event in events:
            if event["number"] > self.acknowledged:
                self._tell(event)
                self.acknowledged = event["number"]

    def take_paused(self, paused: Paused, events: Iterable[Mapping[str, Any]]) -> None:
        """Passes on the last events of a run that has ended for another number of workers."""
        shared = model_values(unpack(paused.left).shared, self.plan.graph.state.tables)
        values = {name: shared[name] for name in self.plan.fetch}
        self.outcome = Outcome(values, {})
        self.take(events)
        self.outcome = None

    def finish(self, outcome: Outcome, history: TrainingHistory) -> None:
        """Reports that training has succeeded."""
        if self.run is not None:
            self.run.end(outcome, history)
            self._callbacks.on_train_end(history)

    def _tell(self, event: Mapping[str, Any]) -> None:
        callbacks, recorder = self._callbacks, self._recorder
        match event["kind"]:
            case "waiting":
                callbacks.on_waiting(event["text"])
            case "resume":
                callbacks.on_resume(event["path"], event["step"], event["finished"])
            case "begin":
                history = TrainingHistory.from_dict(event["history"])
                stop = None if self.run is None else self.run.wants_stop
                self.run = LiveRun(self.plan, event["total_steps"], history, self._values)
                self.run.wants_stop = stop
                workers = range(self.plan.layout.num_workers)
                self._recorder = HistoryRecorder(self.plan.rows, workers, False, history)
                callbacks.on_train_begin(self.run)
            case "steps":
                losses = np.asarray(event["losses"], np.float32)
                rows = np.asarray(event["rows"], np.int64)
                worker, waited_s = event["worker"], event["waited_s"]
                if recorder is not None:
                    recorder.add(worker, losses, rows.astype(np.float32), waited_s)
                callbacks.on_steps(Update(event["first"], losses, rows, worker, waited_s))
            case "epoch":
                callbacks.on_epoch_end(event["epoch"], event["metrics"])
            case "validation":
                if recorder is not None:
                    recorder.add_validation(event["metrics"])
                callbacks.on_validation(event["metrics"])
            case "checkpoint":
                if recorder is not None:
                    recorder.add_checkpoint(recorder.history.steps, event["path"])
                callbacks.on_checkpoint(event["path"])
            case "restart":
                callbacks.on_restart(event["reason"])

    def _values(self) -> Mapping[str, npt.NDArray[Any]]:
        if self.outcome is not None:  # it includes the last events
            return self.outcome.values
        if self._asking is None:
            raise UnavailableError(message="Training has failed, and its variables are lost")
        return from_parts(from_rows(self._asking.values())).values


class LiveQuery:
    """The training's query, and the queries that poll its chief.

    Args:
        query: The barrier job; its first partition is that of the messenger, if any.
        credentials: The credentials of the job's tasks.
        replay: Calls the callbacks.
        on_begun: Called when all tasks have their slots, which a messenger reports.
        look: Checks for slots while training runs and sets `Replay.wants_pause`; None if their
            number does not matter.
        look_every_s: Seconds between two checks.
        find: Looks up the chief's address on the cluster once, which exists only while training
            runs; None if a messenger reports it.
    """

    def __init__(
        self,
        query: DataFrame,
        credentials: Credentials,
        replay: Replay,
        on_begun: Callable[[], None] = lambda: None,
        look: Callable[[], None] | None = None,
        look_every_s: float = 10.0,
        find: Callable[[], str] | None = None,
    ) -> None:
        self._look = look
        self._look_every_s = look_every_s
        self._find = find
        self._query = query
        self._session: Any = query.sparkSession
        self._credentials = credentials
        self._replay = replay
        self._on_begun = on_begun
        self._tags = tuple(f"sparkflow-{kind}-{uuid.uuid4().hex}" for kind in ("train", "ask"))
        self._messages: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._requests: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        self._over = threading.Event()

    def run(self) -> list[Row]:
        """Returns the rows of the query. Blocks and calls callbacks in this thread.

        Raises:
            Exception: The query or a callback failed; in the latter case the query is cancelled.
        """
        # The loop is a separate function: CPython 3.11 checks for signals when `continue` jumps
        # back, and an interrupt there bypasses a `try` around a loop in the same function.
        self._replay.acknowledged = 0  # another chief, whose numbers start at one
        self._replay.wants_pause = False
        try:
            return self._listen()
        except BaseException:
            self._interrupt(self._tags[0])
            raise
        finally:
            self._over.set()
            self._requests.put(None)
            self._replay.follow(None)
            self._interrupt(self._tags[1])

    def _listen(self) -> list[Row]:
        rows: list[Row] = []
        complete_s: float | None = None
        self._start("training", self._train)
        if self._find is not None:
            find = self._find
            self._start("finding", lambda: self._seek(find))
        while True:
            try:
                kind, found = self._messages.get(timeout=_LOOK_S)  # so that Ctrl-C is heard
            except queue.Empty:
                if complete_s is not None and time.monotonic() - complete_s > _TAIL_S:
                    # Such as a task that Spark has restarted and that cannot reach the directory
                    # with the information that training is over.
                    self._interrupt(self._tags[0])
                    return rows
                continue
            if kind == "row" and found[0] == ADDRESS:
                self._on_begun()
                self._follow(found[2].decode())
            elif kind == "row" and found[0] == COMPLETE:
                complete_s = time.monotonic()
            elif kind == "row":
                rows.append(found)
            elif kind == "events":
                self._replay.take(found)
                self._requests.put(self._replay.asked())
            elif kind == "error" and complete_s is not None:
                _log.warning("the Spark job failed after it had returned the result: %s", found)
                return rows
            elif kind == "error":
                raise to_exception([JobEnded(found)]) from found
            else:
                return rows

    def _follow(self, address: str) -> None:
        asking = Asking(self._session, address, self._credentials)
        self._replay.follow(asking)
        self._requests.put(self._replay.asked())
        self._start("asking", lambda: self._ask(asking))

    def _start(self, name: str, target: Callable[[], None]) -> None:
        threading.Thread(target=target, name=f"sparkflow-{name}", daemon=True).start()

    def _train(self) -> None:
        self._session.addTag(self._tags[0])  # tags belong to a thread
        try:
            for row in self._query.toLocalIterator():
                content = bytes(row["content"])
                self._messages.put(("row", (row["part"], row["number"], content)))
        except Exception as error:
            self._messages.put(("error", error))
        else:
            self._messages.put(("end", None))

    def _seek(self, find: Callable[[], str]) -> None:
        """Looks for the chief until it is found."""
        self._session.addTag(self._tags[1])
        while not self._over.wait(_PAUSE_S):
            try:
                address = find()
            except Exception as error:
                if not self._over.is_set():
                    _log.warning("no live progress, training continues: %s", error)
                return
            if address:
                self._messages.put(("row", (ADDRESS, 0, address.encode())))
                return

    def _ask(self, asking: Asking) -> None:
        """Polls again whenever the last events have been passed on."""
        self._session.addTag(self._tags[1])
        failures, first = 0, True
        next_look_s = time.monotonic() + self._look_every_s
        while (request := self._requests.get()) is not None:
            # A chief that waits for callbacks, or is to stop, is polled without delay.
            if not (first or self._replay.needs_epochs or request["stop"]):
                self._over.wait(_PAUSE_S)
            first = False
            if self._look is not None and time.monotonic() > next_look_s:
                # In this thread, so that no poll occupies a free slot at the same time.
                self._look_for_slots(self._look)
                next_look_s = time.monotonic() + self._look_every_s
                request = self._replay.asked()
            while not self._over.is_set():
                try:
                    answer = asking.poll(request)
                except Exception as error:
                    failures += 1
                    if self._over.is_set():
                        return
                    if failures >= _TRIES:
                        _log.warning("no live progress any more, training continues: %s", error)
                        return
                    self._over.wait(_PAUSE_S)
                    continue
                failures = 0
                self._messages.put(("events", answer["events"]))
                if answer["ended"]:
                    return
                break

    def _look_for_slots(self, look: Callable[[], None]) -> None:
        try:
            look()
        except Exception as error:
            if not self._over.is_set():
                _log.warning("checking for slots failed: %s", str(error).split("\n", 1)[0])

    def _interrupt(self, tag: str) -> None:
        with contextlib.suppress(Exception):  # the session is closed: its queries have ended
            self._session.interruptTag(tag)


def events_in(content: bytes) -> Sequence[Mapping[str, Any]]:
    """Returns the events in a result of `Relay.end`."""
    events: list[Mapping[str, Any]] = json.loads(content)
    return events
