"""The client's view of a training on the cluster: its query, and callbacks during training.

The query's first row comes when training has begun to gather, and says where the chief is. From
then on a thread asks it, and the thread that called `fit` tells the callbacks.
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
"""So long after the last row of the outcome the query may take to end."""

Row = tuple[str, int, bytes]


class LiveRun:
    """A training that runs on the cluster, as callbacks see it: a `RunControl`.

    Args:
        plan: What is trained.
        total_steps: See `RunControl`.
        history: What has happened so far.
        ask: Brings the variables.

    Attributes:
        wants_stop: The reason why a callback wants it to end; None if none does.
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
        """Has training end well soon: the cluster hears of it with the next question."""
        self.wants_stop = self.wants_stop or reason or "a callback"

    def values(self) -> Mapping[str, npt.NDArray[Any]]:
        """The variables as they are; at the end those of the model. Costs a query."""
        return self._ask()

    def end(self, outcome: Outcome, history: TrainingHistory) -> None:
        """Training has come back."""
        self.history = history
        self._ask = lambda: outcome.values


class Replay:
    """Tells callbacks what a chief has told. For the thread that called `fit`.

    Args:
        callbacks: Are told.
        plan: What is trained.

    Attributes:
        run: What callbacks see; None before it begins.
        plan: What is trained: another one where the number of workers changes.
        acknowledged: The number of the last event that they know of.
        outcome: What has come back; None before.
        wants_pause: Whether the cluster is to come to a halt for another number of workers.
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
        """How many steps have been told of."""
        return 0 if self.run is None else self.run.history.steps

    @property
    def needs_epochs(self) -> bool:
        """Whether a callback must find the cluster quiet."""
        return self._callbacks.needs_epochs

    def follow(self, asking: Asking | None) -> None:
        """Who can be asked from now on; None: nobody."""
        self._asking = asking

    def asked(self) -> dict[str, Any]:
        """What to poll the chief with."""
        stop = self.run.wants_stop if self.run is not None else None
        asked: dict[str, Any] = {"acknowledged": self.acknowledged, "stop": stop}
        return {**asked, "pause": True} if self.wants_pause else asked

    def take(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Tells the callbacks of all that they have not heard of."""
        for event in events:
            if event["number"] > self.acknowledged:
                self._tell(event)
                self.acknowledged = event["number"]

    def take_paused(self, paused: Paused, events: Iterable[Mapping[str, Any]]) -> None:
        """Tells what is left of a run that has ended for another number of workers."""
        shared = model_values(unpack(paused.left).shared, self.plan.graph.state.tables)
        values = {name: shared[name] for name in self.plan.fetch}
        self.outcome = Outcome(values, {})
        self.take(events)
        self.outcome = None

    def finish(self, outcome: Outcome, history: TrainingHistory) -> None:
        """Tells that training has ended well."""
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
        if self.outcome is not None:  # the last events come with it
            return self.outcome.values
        if self._asking is None:
            raise UnavailableError(message="Training has failed, and its variables are lost")
        return from_parts(from_rows(self._asking.values())).values


class LiveQuery:
    """The training's query and, beside it, those that ask its chief.

    Args:
        query: The barrier job, whose first partition is a messenger's, if it has any.
        credentials: What the job's tasks show to each other.
        replay: Tells the callbacks.
        on_begun: Is called when all tasks have got their slots, which a messenger tells.
        look: Looks for slots while training runs, and says by `Replay.wants_pause` what comes of
            it; None where their number does not matter.
        look_every_s: Seconds between two looks.
        find: Asks the cluster once where the chief is, which it knows only while training runs;
            None where a messenger tells.
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
        """The rows of the query. Blocks; callbacks are called meanwhile, by this thread.

        Raises:
            Exception: The query failed, or a callback did: then the query is cancelled.
        """
        # The loop is a function of its own: CPython 3.11 looks for signals where `continue` jumps
        # back, and an interrupt there passes by the `try` around a loop in the same function.
        self._replay.acknowledged = 0  # another chief, which counts from one
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
                    # Such as a task that Spark has begun anew and that cannot reach the directory
                    # in which it would find that training is over.
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
                _log.warning("the Spark job failed after it had brought the result: %s", found)
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
        self._session.addTag(self._tags[0])  # tags are those of a thread
        try:
            for row in self._query.toLocalIterator():
                content = bytes(row["content"])
                self._messages.put(("row", (row["part"], row["number"], content)))
        except Exception as error:
            self._messages.put(("error", error))
        else:
            self._messages.put(("end", None))

    def _seek(self, find: Callable[[], str]) -> None:
        """Asks until the chief is found."""
        self._session.addTag(self._tags[1])
        while not self._over.wait(_PAUSE_S):
            try:
                address = find()
            except Exception as error:
                if not self._over.is_set():
                    _log.warning("no live progress, training goes on: %s", error)
                return
            if address:
                self._messages.put(("row", (ADDRESS, 0, address.encode())))
                return

    def _ask(self, asking: Asking) -> None:
        """Asks again whenever what was told has been passed on."""
        self._session.addTag(self._tags[1])
        failures, first = 0, True
        next_look_s = time.monotonic() + self._look_every_s
        while (request := self._requests.get()) is not None:
            # Who waits for its callbacks, or is to stop, is not kept waiting.
            if not (first or self._replay.needs_epochs or request["stop"]):
                self._over.wait(_PAUSE_S)
            first = False
            if self._look is not None and time.monotonic() > next_look_s:
                # By this thread, so that no question of its own has the slot that is free.
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
                        _log.warning("no live progress any more, training goes on: %s", error)
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
                _log.warning("looking for slots failed: %s", str(error).split("\n", 1)[0])

    def _interrupt(self, tag: str) -> None:
        with contextlib.suppress(Exception):  # the session is closed: its queries have ended
            self._session.interruptTag(tag)


def events_in(content: bytes) -> Sequence[Mapping[str, Any]]:
    """What `Relay.end` gave."""
    events: list[Mapping[str, Any]] = json.loads(content)
    return events
