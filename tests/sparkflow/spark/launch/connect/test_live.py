"""The client's side of a training that runs elsewhere, with a fake query and a fake chief."""

import json
import queue
import signal
import threading
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.control.callbacks import Callback, Callbacks
from sparkflow.spark.control.checkpoints.packed import pack, unpack
from sparkflow.spark.control.checkpoints.snapshot import Position, Snapshot
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.errors import LostTaskError, SparkTrainingError
from sparkflow.spark.launch.connect import job, live
from sparkflow.spark.launch.connect.lead import Leadership
from sparkflow.spark.launch.connect.live import LiveQuery, Replay
from sparkflow.spark.launch.connect.outcome import (
    ADDRESS,
    COMPLETE,
    EVENTS,
    Outcome,
    Paused,
    error_to_parts,
    to_parts,
    to_rows,
)
from sparkflow_runtime.errors import UnavailableError
from sparkflow_runtime.security import Credentials

WAIT_S = 30


class Plan:
    """The parts of a plan that are used."""

    class config:
        in_step = False
        params: ClassVar[dict[str, Any]] = {}

    layout = ClusterLayout(0, 2, 2, messengers=1)
    rows = 20
    total_rows = 40


@dataclass(frozen=True)
class Planned:
    layout: ClusterLayout


@dataclass(frozen=True)
class Config:
    barrier: bool
    layout: ClusterLayout
    credentials: Credentials


class Notes(Callback):
    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.run: Any = None

    def on_train_begin(self, run: Any) -> None:
        self.run = run
        self.heard.append(("begin", run.total_steps, run.history.steps))

    def on_steps(self, update: Any) -> None:
        self.heard.append(("steps", update.first_step, update.losses.tolist()))

    def on_epoch_end(self, epoch: int, metrics: Any) -> None:
        self.heard.append(("epoch", epoch))

    def on_train_end(self, history: Any) -> None:
        self.heard.append(("end", history.steps))


def begin(number: int) -> dict[str, Any]:
    history = TrainingHistory(rows_per_epoch=20, num_workers=2).to_dict()
    return {"number": number, "kind": "begin", "total_steps": 4, "history": history}


def steps(number: int, first: int, *losses: float) -> dict[str, Any]:
    facts = {"first": first, "losses": list(losses), "rows": [5] * len(losses), "worker": 1}
    return {"number": number, "kind": "steps", "waited_s": 0.0, **facts}


END = Outcome({}, {})


def replay_of(*callbacks: Callback) -> Replay:
    return Replay(Callbacks(callbacks), Plan())  # type: ignore[arg-type]


def test_callbacks_hear_each_event_once_and_the_history_grows() -> None:
    notes = Notes()
    replay = replay_of(notes)
    replay.take([begin(1), steps(2, 0, 4.0)])
    assert notes.run.history.steps == 1
    replay.take([begin(1), steps(2, 0, 4.0), steps(3, 1, 3.0, 2.0)])
    replay.take([{"number": 4, "kind": "validation", "metrics": {"step": 3.0, "loss": 1.0}}])
    replay.take([{"number": 5, "kind": "epoch", "epoch": 0, "metrics": {"loss": 3.0}}])
    assert notes.heard == [
        ("begin", 4, 0),
        ("steps", 0, [4]),
        ("steps", 1, [3, 2]),
        ("epoch", 0),
    ]
    history = notes.run.history
    assert (history.loss, history.worker) == ([4, 3, 2], [1, 1, 1])
    assert history.validation[0]["loss"] == 1
    assert replay.asked() == {"acknowledged": 5, "stop": None}
    notes.run.stop("enough")
    notes.run.stop("later")
    assert replay.asked()["stop"] == "enough"

    last = TrainingHistory(steps=9)
    replay.finish(Outcome({"w": np.zeros(2)}, {}), last)
    assert notes.heard[-1] == ("end", 9)
    assert notes.run.history is last
    assert set(notes.run.values()) == {"w"}


class Values(Callback):
    """Reads the variables in every method that reports progress."""

    def on_train_begin(self, run: Any) -> None:
        self.run, self.found = run, []

    def on_steps(self, update: Any) -> None:
        self.found.append(self.run.values()["w"])


class Finished(LiveQuery):
    """A query that has ended before its client has requested the last events."""

    def __init__(self, *parts: tuple[str, int, bytes]) -> None:
        self._parts = list(parts)

    def run(self) -> list[Any]:
        return self._parts


def _job(monkeypatch: pytest.MonkeyPatch, replay: Replay, parts: Any) -> job.ConnectJob:
    events = json.dumps([begin(1), steps(2, 0, 4.0)]).encode()
    rows = list(to_rows({**parts, EVENTS: events}))
    monkeypatch.setattr(job, "LiveQuery", lambda *_: Finished(*rows))
    monkeypatch.setattr(job, "takes_messengers", lambda *_: True)
    frame: Any = SimpleNamespace(
        columns=["message"], mapInArrow=lambda *_, **__: None, sparkSession=None
    )
    config: Any = Config(True, Plan.layout, Credentials())
    plan: Any = SimpleNamespace(config=SimpleNamespace(start_timeout=1.0))
    work = Leadership(plan, None, 0)  # type: ignore[arg-type]
    return job.ConnectJob(frame, config, work, 0, replay=replay)


def test_callbacks_that_hear_last_events_with_the_outcome_get_its_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    callback = Values()
    outcome = to_parts(Outcome({"w": np.float32([7])}, {}))
    _job(monkeypatch, replay_of(callback), outcome).run()
    assert callback.found == [np.float32([7])]
    failed = error_to_parts(ValueError("no"), restartable=False)
    with pytest.raises(ValueError, match="no"):
        _job(monkeypatch, replay_of(callback), failed).run()
    with pytest.raises(UnavailableError, match="variables are lost"):
        callback.run.values()
    notes = Notes()
    with pytest.raises(ValueError, match="no"):
        _job(monkeypatch, replay_of(notes), failed).run()
    assert notes.heard[-1] == ("steps", 0, [4])


def test_a_training_whose_slots_are_just_enough_is_told_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    callback = Notes()
    replay = replay_of(callback)
    made = _job(monkeypatch, replay, to_parts(Outcome({"w": np.float32([7])}, {})))
    given: list[Any] = []
    frame = made.rows
    monkeypatch.setattr(job, "takes_messengers", lambda *_: False)
    monkeypatch.setattr(job, "without_messengers", lambda *of: given.append(of) or frame)
    monkeypatch.setattr(job.ConnectJob, "_submit", lambda self: given.append(self) or END)
    made = replace(made, work=replace(made.work, plan=Planned(Plan.layout), needs_epochs=True))
    made.run()
    alone = given[1]
    assert given[0] == (frame, Plan.layout)
    assert alone.config.layout == alone.work.plan.layout == ClusterLayout(0, 2, 2)
    assert not alone.work.needs_epochs
    assert alone.work.stop is None
    replay.take([begin(1)])
    callback.run.stop("enough")
    made.run()
    assert given[-1].work.stop == "enough"


def test_jobs_that_were_lost_are_told_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons: list[str] = []
    replay = replay_of(Notes())
    made = replace(
        _job(monkeypatch, replay, {}), max_restarts=2, on_restart=reasons.append, replay=replay
    )
    given: list[Any] = []

    def submit(self: Any, *_: Any) -> Outcome:
        given.append(self.work.lost)
        if len(given) == 1:
            replay.take([begin(1), steps(2, 0, 4.0, 3.0)])
        if len(given) < 3:
            raise LostTaskError(f"loss {len(given)}")
        return END

    monkeypatch.setattr(job.ConnectJob, "_submit", submit)
    monkeypatch.setattr(job.ConnectJob, "_wait_for_executors", lambda self: None)
    assert made.run() is END
    assert given == [(), (("loss 1", 2),), (("loss 1", 2), ("loss 2", 2))]
    assert reasons == ["loss 1", "loss 2"]


def test_a_run_that_ends_for_another_number_of_workers_gives_its_variables_to_the_last_to_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    callback = Values()
    replay = replay_of(callback)
    state: Any = SimpleNamespace(tables={})
    replay.plan = SimpleNamespace(  # type: ignore[assignment]
        **vars(Plan), graph=SimpleNamespace(state=state), fetch=("w",)
    )
    shared = {"w": np.float32([7]), "slot": np.float32([1])}
    left = Snapshot(4, Position((2, 2), (2, 2), {}), shared, {}, (), {"resized": [{"step": 2}]})
    found = _job(monkeypatch, replay, pack(left)).attempt()
    assert isinstance(found, Paused)
    assert (found.step, found.changes) == (4, ({"step": 2},))
    np.testing.assert_array_equal(unpack(found.left).shared["slot"], [1])
    assert callback.found == [np.float32([7])]
    assert replay.outcome is None  # the variables of the next run are different
    replay.wants_pause = True
    assert replay.asked()["pause"] is True


def test_a_training_that_had_nothing_to_do_ends_without_a_word() -> None:
    notes = Notes()
    replay = replay_of(notes)
    replay.take([{"number": 1, "kind": "resume", "path": "p", "step": 3, "finished": True}])
    replay.finish(Outcome({}, {}), TrainingHistory())
    assert notes.heard == []


class Session:
    """Knows which queries run, and ends them."""

    def __init__(self) -> None:
        self.interrupted: list[str] = []

    def addTag(self, tag: str) -> None: ...

    def interruptTag(self, tag: str) -> None:
        self.interrupted.append(tag.split("-")[1])


class Query:
    """Yields rows when the test allows it."""

    def __init__(self) -> None:
        self.sparkSession = Session()
        self.rows: queue.Queue[Any] = queue.Queue()

    def toLocalIterator(self) -> Any:
        while (found := self.rows.get(timeout=WAIT_S)) is not None:
            if isinstance(found, Exception):
                raise found
            yield dict(zip(("part", "number", "content"), found, strict=True))


class Chief:
    """Gives the test's answers, one per question."""

    def __init__(self) -> None:
        self.answers: queue.Queue[Any] = queue.Queue()
        self.asked: list[Any] = []

    def poll(self, asked: Any) -> Any:
        self.asked.append(asked)
        found = self.answers.get(timeout=WAIT_S)
        if isinstance(found, Exception):
            raise found
        return {"events": found, "ended": False}


@pytest.fixture
def chief(monkeypatch: pytest.MonkeyPatch) -> Chief:
    found = Chief()
    monkeypatch.setattr(live, "Asking", lambda *args: found)
    monkeypatch.setattr(live, "_PAUSE_S", 0.0)
    return found


def test_events_are_told_while_the_query_runs(chief: Chief) -> None:
    query = Query()
    begun = threading.Event()

    class First(Notes):
        def on_steps(self, update: Any) -> None:
            super().on_steps(update)
            begun.set()
            self.run.stop("seen")
            query.rows.put(("values", 0, b"v"))
            query.rows.put(None)

    notes = First()
    query.rows.put((ADDRESS, 0, b"host:1"))
    chief.answers.put(OSError("for a moment"))
    chief.answers.put([begin(1), steps(2, 0, 1.0)])
    rows = LiveQuery(query, Credentials("token"), replay_of(notes)).run()  # type: ignore[arg-type]
    assert begun.is_set()
    assert rows == [("values", 0, b"v")]
    assert chief.asked[0] == chief.asked[1] == {"acknowledged": 0, "stop": None}
    assert query.sparkSession.interrupted == ["ask"]
    chief.answers.put([])


def test_a_query_that_does_not_end_after_the_outcome_is_left(
    chief: Chief, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_TAIL_S", 0.0)
    monkeypatch.setattr(live, "_LOOK_S", 0.01)
    query = Query()
    query.rows.put((ADDRESS, 0, b"host:1"))
    query.rows.put(("values", 0, b"v"))  # the beginning of more, however long nothing follows
    last = [("values", 1, b"w"), (COMPLETE, 0, b"")]
    later = threading.Timer(0.2, lambda: [query.rows.put(each) for each in last])
    later.start()
    live_query = LiveQuery(query, Credentials("token"), replay_of())  # type: ignore[arg-type]
    assert live_query.run() == [("values", 0, b"v"), ("values", 1, b"w")]
    assert query.sparkSession.interrupted == ["train", "ask"]
    later.join()
    query.rows.put(None)
    chief.answers.put([])


def test_the_outcome_is_taken_where_the_query_fails_after_it(chief: Chief) -> None:
    query = Query()
    rows = [(ADDRESS, 0, b"host:1"), ("values", 0, b"v"), (COMPLETE, 0, b"")]
    for each in (*rows, OSError("a task that began anew was lost")):
        query.rows.put(each)
    live_query = LiveQuery(query, Credentials("token"), replay_of())  # type: ignore[arg-type]
    assert live_query.run() == [("values", 0, b"v")]
    chief.answers.put([])


def test_slots_are_looked_for_between_questions_and_the_next_one_says_so(chief: Chief) -> None:
    query = Query()
    replay = replay_of()
    looks: list[int] = []

    def look() -> None:
        looks.append(len(chief.asked))
        if len(looks) == 1:
            raise OSError("no such thing")
        replay.wants_pause = True
        query.rows.put(None)

    query.rows.put((ADDRESS, 0, b"host:1"))
    for _ in range(3):
        chief.answers.put([])
    live_query = LiveQuery(query, Credentials("token"), replay, look=look, look_every_s=0.0)  # type: ignore[arg-type]
    assert live_query.run() == []
    assert looks[:2] == [0, 1]
    assert all("pause" not in each for each in chief.asked[:1])


def test_where_no_messenger_tells_the_chief_is_looked_up(chief: Chief) -> None:
    query = Query()
    answers = ["", "host:1"]

    class Stop(Notes):
        def on_train_begin(self, run: Any) -> None:
            query.rows.put(None)

    chief.answers.put([begin(1)])
    found = LiveQuery(
        query,  # type: ignore[arg-type]
        Credentials("token"),
        replay_of(Stop()),
        find=lambda: answers.pop(0),
    ).run()
    assert found == []
    assert answers == []
    chief.answers.put([])


def test_what_a_callback_raises_ends_the_query(chief: Chief) -> None:
    class Failing(Notes):
        def on_train_begin(self, run: Any) -> None:
            raise ZeroDivisionError("enough")

    query = Query()
    query.rows.put((ADDRESS, 0, b"host:1"))
    chief.answers.put([begin(1)])
    with pytest.raises(ZeroDivisionError, match="enough"):
        LiveQuery(query, Credentials("token"), replay_of(Failing())).run()  # type: ignore[arg-type]
    assert query.sparkSession.interrupted == ["train", "ask"]
    query.rows.put(None)


def test_a_chief_that_cannot_be_asked_does_not_end_training(
    chief: Chief, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query()
    query.rows.put((ADDRESS, 0, b"host:1"))
    for _ in range(3):
        chief.answers.put(OSError("unreachable"))
    ended = threading.Timer(0.5, query.rows.put, [None])
    ended.start()
    assert LiveQuery(query, Credentials("token"), replay_of()).run() == []  # type: ignore[arg-type]
    ended.join()
    assert "no live progress any more, training continues: unreachable" in caplog.text


def test_a_query_that_fails_is_spark_s_failure(chief: Chief) -> None:
    query = Query()
    query.rows.put(RuntimeError("Job aborted"))
    with pytest.raises(SparkTrainingError, match="Job aborted"):
        LiveQuery(query, Credentials("token"), replay_of()).run()  # type: ignore[arg-type]


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_ends_the_query_wherever_it_comes(
    chief: Chief, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Maximizes the time in code where CPython 3.11 may let interrupts bypass a `try`.
    monkeypatch.setattr(live, "_LOOK_S", 0.0)
    for _ in range(5):
        query = Query()
        timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            LiveQuery(query, Credentials("token"), replay_of()).run()  # type: ignore[arg-type]
        timer.join()
        query.rows.put(None)
        assert query.sparkSession.interrupted == ["train", "ask"]
