"""How a client looks for slots, with a session whose queries are controlled by the test."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.launch.connect import room
from sparkflow.spark.launch.connect.room import TooFewSlotsError, require_slots, takes_messengers

LAYOUT = ClusterLayout(0, 2, 2, messengers=1)
TOO_FEW = RuntimeError("[SPARK-24819]: Barrier execution mode does not allow")


class Session:
    """Has some free slots out of a total; a query waits until there are as many as it needs."""

    def __init__(self, free: int, in_all: int = 4) -> None:
        self.free, self.in_all = free, in_all
        self.changed = threading.Condition()
        self.asked: list[int] = []
        self.cancelled: set[str] = set()
        self.on_asked: Callable[[int], None] = lambda count: None

    def addTag(self, tag: str) -> None:
        threading.current_thread().tag = tag  # type: ignore[attr-defined]

    def interruptTag(self, tag: str) -> None:
        with self.changed:
            self.cancelled.add(tag)
            self.changed.notify_all()

    def range(self, start: int, end: int, step: int, partitions: int) -> Any:
        return Probe(self, partitions)


class Probe:
    def __init__(self, session: Session, count: int) -> None:
        self._session, self._count = session, count

    def mapInArrow(self, task: Any, schema: str, barrier: bool) -> Any:
        assert barrier
        return self

    def count(self) -> int:
        session = self._session
        session.asked.append(self._count)
        session.on_asked(self._count)
        if self._count > session.in_all:
            raise TOO_FEW
        tag = threading.current_thread().tag  # type: ignore[attr-defined]
        with session.changed:
            session.changed.wait_for(
                lambda: session.free >= self._count or tag in session.cancelled, 30
            )
            if tag in session.cancelled:
                raise RuntimeError("cancelled")
        return self._count


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(require_slots, "__defaults__", (None, 0.3))


def _takes(session: Session) -> bool:
    with contextlib.ExitStack() as turn:
        taken = takes_messengers(session, LAYOUT, None, turn)
        assert room._turn.locked() == taken
    assert not room._turn.locked()
    return taken


def test_slots_are_free_or_in_use_or_not_there() -> None:
    assert require_slots(Session(free=3), LAYOUT)
    busy = Session(free=2)
    assert not require_slots(busy, LAYOUT)
    assert len(busy.cancelled) == 1  # the query does not continue
    with pytest.raises(TooFewSlotsError, match="numWorkers=2 and numPs=0 need 3 task slots"):
        require_slots(Session(free=2, in_all=2), LAYOUT)


def test_another_failure_is_no_want_of_slots() -> None:
    session = Session(free=3)

    def fail(count: int) -> None:
        raise RuntimeError("no such function")

    session.on_asked = fail
    with pytest.raises(SparkTrainingError, match="no such function") as raised:
        require_slots(session, LAYOUT)
    assert not isinstance(raised.value, TooFewSlotsError)


def test_an_interrupt_ends_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(room.queue.SimpleQueue):  # type: ignore[type-arg]
        def get(self, *args: Any, **kwargs: Any) -> Any:
            raise KeyboardInterrupt

    session = Session(free=0)
    monkeypatch.setattr(room.queue, "SimpleQueue", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        require_slots(session, LAYOUT, None, None)
    assert len(session.cancelled) == 1


def test_a_messenger_takes_what_nobody_else_needs(caplog: pytest.LogCaptureFixture) -> None:
    assert _takes(Session(free=3))
    assert caplog.text == ""


def test_beside_another_fit_slots_that_are_just_enough_are_enough(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = Session(free=2)
    assert not _takes(session)
    assert session.asked == [3, 2, 3]
    assert "one task slot more than the 2 of the training, and it is in use" in caplog.text


def test_slots_that_become_free_while_others_are_waited_for_are_seen() -> None:
    session = Session(free=0)

    def end_of_another(count: int) -> None:
        if count == 2:
            with session.changed:
                session.free = 4
                session.changed.notify_all()

    session.on_asked = end_of_another
    assert _takes(session)
    assert session.asked == [3, 2, 3]


def test_where_an_executor_has_gone_there_is_no_messenger(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = Session(free=2, in_all=2)
    assert not _takes(session)
    assert session.asked == [3]
    assert "and there is none now" in caplog.text
