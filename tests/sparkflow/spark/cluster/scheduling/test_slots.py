"""The check before the job, without Spark."""

import itertools
import threading
from collections.abc import Callable

import pytest

from sparkflow.spark.cluster.scheduling import slots
from sparkflow.spark.cluster.scheduling.slots import SlotLedger, check_slots
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.errors import SparkTrainingError


def test_executors_that_register_late_are_waited_for() -> None:
    counts = itertools.count(1)
    check_slots(lambda: next(counts), ClusterLayout(1, 2), wait_s=60)
    assert next(counts) == 4


def test_too_few_slots_after_the_wait() -> None:
    with pytest.raises(SparkTrainingError, match=r"numWorkers=2 and numPs=1 need 3 .* Spark has 2"):
        check_slots(lambda: 2, ClusterLayout(1, 2), wait_s=0)


class Fit(threading.Thread):
    """A fit that holds its slots until it is told to end."""

    def __init__(
        self, ledger: SlotLedger, wanted: int, count: Callable[[], int] = lambda: 4
    ) -> None:
        super().__init__(daemon=True)
        self._ledger = ledger
        self._wanted = wanted
        self._count = count
        self.waits, self.runs, self.go = (threading.Event() for _ in range(3))
        self.texts: list[str] = []
        self.start()

    def run(self) -> None:
        def on_waiting(text: str) -> None:
            self.texts.append(text)
            self.waits.set()

        with self._ledger.reserved(self._wanted, self._count, on_waiting):
            self.runs.set()
            self.go.wait(20)


def test_fits_wait_for_each_other_in_turn() -> None:
    ledger = SlotLedger()
    first = Fit(ledger, 3)
    assert first.runs.wait(20)
    second = Fit(ledger, 2)
    assert second.waits.wait(20)
    third = Fit(ledger, 1)  # would fit, but is queued after the second
    assert third.waits.wait(20)
    assert not second.runs.is_set()
    assert not third.runs.is_set()
    assert second.texts[0] == (
        "waiting for other fits of this session: 2 task slots are needed, 3 of 4 are in use"
    )
    assert third.texts[0] == (
        "waiting for other fits of this session: 1 task slot is needed, 3 of 4 are in use; "
        "1 of them comes first"
    )
    first.go.set()
    assert second.runs.wait(20)
    assert third.runs.wait(20)
    for fit in (second, third):
        fit.go.set()
        fit.join(20)


class Asking:
    """A Spark that is slow to report its number of slots."""

    def __init__(self, then: int = 4) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()
        self._then = then

    def __call__(self) -> int:
        self.asked.set()
        assert self.answer.wait(20)
        return self._then


@pytest.mark.parametrize(
    ("wanted", "texts"),
    [
        (1, []),  # there is room for both
        (2, ["waiting for other fits of this session: 2 task slots are needed, 3 of 4 are in use"]),
    ],
)
def test_who_comes_while_another_one_asks_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch, wanted: int, texts: list[str]
) -> None:
    monkeypatch.setattr(slots, "_SAY_S", 20.0)
    ledger, spark = SlotLedger(), Asking()
    first = Fit(ledger, 3, spark)
    assert spark.asked.wait(20)
    counted = threading.Semaphore(0)
    second = Fit(ledger, wanted, lambda: counted.release() or 4)
    assert counted.acquire(timeout=20)
    with ledger._changed:  # it is waiting by now, or about to
        assert second.texts == []
    spark.answer.set()
    assert first.runs.wait(20)
    assert (second.waits if texts else second.runs).wait(20)
    assert second.texts == texts
    for fit in (first, second):
        fit.go.set()
        assert fit.runs.wait(20)
        fit.join(20)


def test_what_takes_long_to_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_SAY_S", 0.01)
    ledger, spark = SlotLedger(), Asking()
    first = Fit(ledger, 1, spark)
    assert spark.asked.wait(20)
    second = Fit(ledger, 2)
    assert second.waits.wait(20)
    assert second.texts[0].endswith("0 of 4 are in use; 1 of them comes first")
    spark.answer.set()
    for fit in (first, second):
        fit.go.set()
        assert fit.runs.wait(20)
        fit.join(20)


def test_alone_a_fit_never_waits_here() -> None:
    with SlotLedger().reserved(9, lambda: 4, pytest.fail):
        pass
