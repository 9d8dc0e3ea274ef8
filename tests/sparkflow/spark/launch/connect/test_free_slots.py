"""How free slots are counted, with a session whose tasks are set by the test."""

import contextlib
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.launch.connect import free_slots as module
from sparkflow.spark.launch.connect.free_slots import Held, at_once, free_slots
from support.clocks import give_time


def held(executor: str, *times: tuple[float, float]) -> list[Held]:
    return [Held(executor, *each) for each in times]


@pytest.mark.parametrize(
    ("slots", "count"),
    [
        ([], 0),
        (held("a", (0, 2), (0.5, 2.5), (1, 3)), 3),
        # One slot, three tasks: each begins when the previous one has ended.
        (held("a", (0, 2), (2, 2), (2.1, 2.2)), 1),
        # Clocks of different machines are unrelated.
        (held("a", (0, 2), (2, 4)) + held("b", (1000, 1002), (1001, 1003)), 3),
        # A new executor is slow to start, but its slots count.
        (held("a", (0, 2)) + held("b", (9, 11), (9.5, 11.5)) + held("a", (2, 2)), 3),
    ],
)
def test_slots_that_tasks_had_at_the_same_time(slots: list[Held], count: int) -> None:
    assert at_once(slots) == count


class Session:
    """Its tasks return these rows; then the query ends, fails, or continues until cancelled."""

    def __init__(self, rows: Sequence[Held], end: Exception | str = "") -> None:
        self.rows, self.end = rows, end
        self.asked: list[int] = []
        self.cancelled = threading.Event()

    def addTag(self, tag: str) -> None: ...

    def interruptTag(self, tag: str) -> None:
        self.cancelled.set()

    def range(self, start: int, end: int, step: int, partitions: int) -> Any:
        self.asked.append(partitions)
        return self

    def mapInArrow(self, task: Any, schema: str, barrier: bool) -> Any:
        assert not barrier
        return self

    def toLocalIterator(self) -> Iterator[Any]:
        for each in self.rows:
            yield {"executor": each.executor, "began": each.began, "ended": each.ended}
        if isinstance(self.end, Exception):
            raise self.end
        if self.end:
            self.cancelled.wait(30)


def test_tasks_that_all_found_a_slot_are_not_cancelled() -> None:
    session = Session(held("a", (0, 2), (0, 2)))
    assert free_slots(session, 5) == 2
    assert session.asked == [5]
    assert not session.cancelled.is_set()


def test_tasks_that_find_none_are_not_waited_for() -> None:
    session = Session(held("a", (0, 2)), "waits")
    assert free_slots(session, 3, hold_s=0.0, patience_s=0.2) == 1
    assert session.cancelled.is_set()


def test_tasks_that_fail_say_why() -> None:
    with pytest.raises(SparkTrainingError, match="no module named sparkflow"):
        free_slots(Session([], RuntimeError("no module named sparkflow")), 3)


def test_a_python_process_has_its_slot_once_per_query(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: queue.SimpleQueue[float] = queue.SimpleQueue()
    give_time(monkeypatch, module, sleep=slept.put)
    monkeypatch.setattr(module, "_last_query", "")
    found = []
    for query in ("first", "first", "second"):
        with contextlib.closing(module._hold(query, 7.0, [])) as rows:  # type: ignore[type-var]
            found += pa.Table.from_batches(rows).to_pylist()
    assert slept.qsize() == 2
    assert len({each["executor"] for each in found}) == 1
    assert all(each["began"] <= each["ended"] for each in found)
