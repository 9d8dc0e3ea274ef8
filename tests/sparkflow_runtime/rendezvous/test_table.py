import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
)
from sparkflow_runtime.rendezvous.table import (
    MAX_AHEAD,
    EndOfLoop,
    RendezvousTable,
    StepRendezvous,
)
from sparkflow_runtime.transport.threads import DaemonThreads

WAIT_S = 20


@pytest.fixture
def start():
    threads = DaemonThreads(16, "test-rendezvous")
    yield threads.submit
    threads.shutdown()


@pytest.fixture
def step() -> StepRendezvous:
    return StepRendezvous()


Start = Callable[..., "Future[Any]"]


def test_values_meet_whoever_comes_first(step: StepRendezvous, start: Start) -> None:
    step.put("0-1-0-0", 0, "early")
    assert step.take("0-1-0-0", 0, WAIT_S) == "early"
    taker = start(step.take, "0-1-0-0", 1, WAIT_S)
    step.put("0-1-1-0", 1, "other key")
    step.put("0-1-0-0", 1, "late")
    assert taker.result(WAIT_S) == "late"
    assert step.take("0-1-1-0", 1, WAIT_S) == "other key"


def test_a_value_is_taken_once(step: StepRendezvous) -> None:
    step.put("k", 0, 1)
    step.take("k", 0, WAIT_S)
    with pytest.raises(DeadlineExceededError, match=r"'k' \(iteration 0\) for 0.01 s"):
        step.take("k", 0, 0.01)


def test_a_sender_waits_for_its_taker(step: StepRendezvous, start: Start) -> None:
    for iteration in range(MAX_AHEAD):
        step.put("k", iteration, iteration)
    ahead = start(step.put, "k", MAX_AHEAD, "ahead")
    step.put("other", 0, None)  # other keys have their own bound
    assert not ahead.done()
    assert step.take("k", 0, WAIT_S) == 0
    ahead.result(WAIT_S)
    assert step.take("k", MAX_AHEAD, WAIT_S) == "ahead"


def test_abort_ends_every_wait_with_the_first_error(step: StepRendezvous, start: Start) -> None:
    for iteration in range(MAX_AHEAD):
        step.put("full", iteration, None)
    called: list[str] = []
    undo = step.on_abort(lambda: called.append("undone"))
    step.on_abort(lambda: called.append("now"))
    undo()
    waits = [
        start(step.take, "k", 0),
        start(step.take, "k", 1),
        start(step.put, "full", MAX_AHEAD, None),
    ]
    step.abort(InvalidArgumentError(message="first"))
    step.abort(CancelledError(message="second"))
    found = [wait.exception(WAIT_S) for wait in waits]
    assert [(type(e), str(e)) for e in found] == [(InvalidArgumentError, "first")] * 3
    assert len({id(e) for e in found}) == 3  # each thread has its own instance
    assert called == ["now"]
    step.on_abort(lambda: called.append("late"))
    assert called == ["now", "late"]
    for late in (
        lambda: step.take("full", 0),
        lambda: step.put("k", 0, 1),
        lambda: step.check(0),
    ):
        with pytest.raises(InvalidArgumentError, match="first"):
            late()


def test_the_end_of_a_sender_s_data(step: StepRendezvous, start: Start) -> None:
    step.put("0-1-0-0", 2, "last")
    waiting = start(step.take, "0-1-0-0", 3)
    other = start(step.take, "1-0-0-0", 3, WAIT_S)
    step.end("0", 3)
    assert isinstance(waiting.exception(WAIT_S), EndOfLoop)
    assert step.take("0-1-0-0", 2, WAIT_S) == "last"  # what was sent before still arrives
    step.end("0", 5)
    with pytest.raises(EndOfLoop):
        step.take("0-1-7-0", 4)
    step.put("1-0-0-0", 3, "goes on")
    assert other.result(WAIT_S) == "goes on"


def test_the_limit_of_the_loop(step: StepRendezvous, start: Start) -> None:
    for iteration in range(MAX_AHEAD):
        step.put("k", iteration, None)
    sender = start(step.put, "k", MAX_AHEAD, None)
    taker = start(step.take, "other", MAX_AHEAD)
    step.check(100)
    step.limit(MAX_AHEAD)
    step.limit(MAX_AHEAD + 5)
    assert isinstance(sender.exception(WAIT_S), EndOfLoop)
    assert isinstance(taker.exception(WAIT_S), EndOfLoop)
    step.check(MAX_AHEAD - 1)
    with pytest.raises(EndOfLoop):
        step.check(MAX_AHEAD)
    assert step.take("k", 0, WAIT_S) is None


def test_what_waits_beyond_the_limit_is_woken(step: StepRendezvous) -> None:
    called: list[str] = []
    step.on_abort(lambda: called.append("always"))
    step.on_abort(lambda: called.append("within"), 4)
    step.on_abort(lambda: called.append("beyond"), 5)
    step.limit(5)
    step.limit(5)
    assert called == ["beyond"]
    step.on_abort(lambda: called.append("late"), 6)
    assert called == ["beyond", "late"]
    step.abort(CancelledError(message="stop"))
    assert called == ["beyond", "late", "always", "within"]


def test_an_unwanted_wait_ends_and_takes_nothing(step: StepRendezvous, start: Start) -> None:
    wanted = threading.Event()
    wanted.set()
    waiting = start(step.take, "k", 0, None, wanted.is_set)
    wanted.clear()
    step.wake()
    assert isinstance(waiting.exception(WAIT_S), CancelledError)
    step.put("k", 0, "kept")
    with pytest.raises(CancelledError, match="Nothing waits for 'k'"):
        step.take("k", 0, None, lambda: False)
    assert step.take("k", 0, WAIT_S) == "kept"


def test_a_long_loop_leaves_nothing_behind(step: StepRendezvous) -> None:
    for iteration in range(20_000):
        step.put("0-1-0-0", iteration, iteration)
        step.on_abort(lambda: None)()
        assert step.take("0-1-0-0", iteration, WAIT_S) == iteration
    assert step._values == {}
    assert step._callbacks == {}
    assert step._waiting == {"0-1-0-0": 0}


def test_errors_do_not_keep_tensors_alive(step: StepRendezvous) -> None:
    table = RendezvousTable()

    def fail() -> None:
        large = np.zeros(10)
        found.append(weakref.ref(large))
        raise InvalidArgumentError(message="with a large frame")

    found: list[weakref.ref[Any]] = []
    try:
        fail()
    except InvalidArgumentError as error:
        step.abort(error)
        table.finish(1, error)
    gc.collect()
    assert found[0]() is None


def test_both_ends_find_one_rendezvous_until_it_is_finished() -> None:
    table = RendezvousTable()
    step = table.find(7)
    assert table.find(7) is step
    assert table.find(8) is not step
    table.finish(7)
    with pytest.raises(AbortedError, match="Step 7 is over"):
        step.take("k", 0)
    with pytest.raises(AbortedError, match="Step 7 is over"):  # a peer's late request
        table.find(7)
    table.finish(9, CancelledError(message="stopped"))  # before anybody used it
    with pytest.raises(CancelledError, match="stopped"):
        table.find(9)


def test_finished_steps_are_forgotten_in_the_end() -> None:
    table = RendezvousTable()
    for step_id in range(3 * RendezvousTable.MAX_FINISHED):
        table.find(step_id)
        table.finish(step_id)
    assert table._steps == {}
    assert len(table._finished) == RendezvousTable.MAX_FINISHED


def test_a_request_that_races_with_the_end_never_hangs(start: Start) -> None:
    table = RendezvousTable()

    def ask(step_id: int) -> None:
        table.find(step_id).take("k", 0, WAIT_S)

    asked = [start(ask, step_id) for step_id in range(200) for _ in range(2)]
    for step_id in range(200):
        table.finish(step_id)
    assert {type(future.exception(WAIT_S)) for future in asked} == {AbortedError}
    assert table._steps == {}


def test_steps_end_with_their_session(start: Start) -> None:
    table = RendezvousTable()
    for step_id, session in ((1, "gone"), (2, "gone"), (3, "other")):
        table.find(step_id).session = session
    waiting = start(table.find(2).take, "k", 0)
    table.finish_all_of("gone")
    assert "Session 'gone' is gone" in str(waiting.exception(WAIT_S))
    assert table.running() == [3]


def test_closing_ends_all_steps(start: Start) -> None:
    table = RendezvousTable()
    waiting = start(table.find(1).take, "k", 0)
    table.close(CancelledError(message="shutting down"))
    assert "shutting down" in str(waiting.exception(WAIT_S))
    with pytest.raises(CancelledError, match="shutting down"):
        table.find(2)
