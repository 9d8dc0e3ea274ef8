"""How updates reach listeners: separate ones, late ones, slow ones, after the end."""

import threading
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.master import updates as module
from sparkflow_runtime.master.updates import LoopUpdates, coalesced
from sparkflow_runtime.transport.threads import DaemonThreads
from sparkflow_runtime.worker.loop import LoopEnd, LoopUpdate

WAIT_S = 20


def update(first: int, *rows: Any, dtype: Any = np.float32) -> LoopUpdate:
    return LoopUpdate(first, len(rows), (np.array(rows, dtype),), 0.25, 1.0)


def steps(found: list[LoopUpdate]) -> list[int]:
    """The numbers of all steps."""
    return [each.first_step + i for each in found for i in range(each.num_steps)]


def test_the_first_listener_gets_all_others_what_comes() -> None:
    updates = LoopUpdates()
    updates.publish(update(0, 1, 2))
    first = updates.follow()
    second = updates.follow()
    updates.publish(update(2, 3))
    assert not updates.done
    updates.finish(LoopEnd(3))
    assert updates.done
    assert steps(list(first)) == [0, 1, 2]
    assert steps(list(second)) == [2]
    assert list(updates.follow()) == []
    assert updates.wait() == LoopEnd(3)


def test_listeners_wake_as_updates_come() -> None:
    updates = LoopUpdates()
    threads = DaemonThreads(1, "test-updates")
    seen: list[LoopUpdate] = []
    one = threading.Event()

    def listen() -> None:
        for each in updates.follow():
            seen.append(each)
            one.set()

    done = threads.submit(listen)
    updates.publish(update(0, 1))
    assert one.wait(WAIT_S)
    with pytest.raises(TimeoutError):
        updates.wait(0.0)
    updates.finish(LoopEnd(1))
    done.result(WAIT_S)
    assert steps(seen) == [0]
    threads.shutdown()


def test_polling_yields_none_when_nothing_comes() -> None:
    updates = LoopUpdates()
    found = updates.poll(0.0)
    assert next(found) is None
    updates.publish(update(0, 1))
    assert next(found) is not None
    updates.finish(LoopEnd(1))
    assert list(found) == []


def test_every_listener_raises_an_error_of_its_own() -> None:
    updates = LoopUpdates()
    listeners = [updates.follow(), updates.follow()]
    updates.publish(update(0, 1))
    updates.finish(InvalidArgumentError(message="bad"))
    errors = []
    for listener in listeners:
        assert steps([next(listener)]) == [0]
        with pytest.raises(InvalidArgumentError, match="bad") as info:
            next(listener)
        errors.append(info.value)
    assert errors[0] is not errors[1]


def test_a_slow_listener_gets_fewer_and_longer_updates() -> None:
    updates = LoopUpdates()
    found = updates.follow()
    for number in range(1000):
        updates.publish(update(number, number))
    updates.finish(LoopEnd(1000))
    taken = list(found)
    assert len(taken) <= module.MAX_UPDATES
    assert steps(taken) == list(range(1000))
    assert [row for each in taken for row in each.values[0].tolist()] == list(range(1000))
    assert sum(each.elapsed_s for each in taken) == 1000
    assert sum(each.waited_s for each in taken) == 250
    assert {each.num_dropped for each in taken} == {0}


def test_values_that_cannot_be_put_together_are_dropped_in_the_end() -> None:
    updates = LoopUpdates()
    found = updates.follow()
    for number in range(1000):
        updates.publish(update(number, np.zeros(number % 7)))
    taken = [next(found)]
    updates.finish(LoopEnd(1000))
    taken += found
    assert len(taken) <= module.MAX_UPDATES
    assert steps(taken) == list(range(1000))
    assert taken[0].num_dropped == taken[0].num_steps > 900
    assert len(taken[0].values[0]) == 0
    assert {each.num_dropped for each in taken[1:]} == {0}
    assert taken[-1].values[0].shape == (1, 999 % 7)


def test_the_oldest_values_are_dropped_when_they_are_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_VALUES_BYTES", 100)
    updates = LoopUpdates()
    found = updates.follow()
    for number in range(1000):
        updates.publish(update(number, number))
    updates.finish(LoopEnd(1000))
    taken = list(found)
    assert steps(taken) == list(range(1000))
    kept = [row for each in taken for row in each.values[0].tolist()]
    assert 12 <= len(kept) <= 25
    assert kept == list(range(1000))[-len(kept) :]
    assert sum(each.num_dropped for each in taken) == 1000 - len(kept)
    for each in taken:
        assert len(each.values[0]) == each.num_steps - each.num_dropped


def test_the_newest_values_are_kept_however_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_VALUES_BYTES", 8)
    found = coalesced([update(0, 1.0), update(1, b"x" * 100, b"y", dtype=object)])
    assert steps(found) == [0, 1, 2]
    assert found[-1].values[0].tolist() == [b"x" * 100, b"y"]
    assert found[0].num_dropped == 1


def test_updates_without_values_are_counted() -> None:
    found = coalesced([LoopUpdate(i, 2, (), 0.0, 0.5) for i in range(0, 100, 2)])
    assert [(each.first_step, each.num_steps, each.values) for each in found] == [(0, 100, ())]


def test_a_listener_that_leaves_is_forgotten() -> None:
    updates = LoopUpdates()
    found = updates.follow()
    updates.publish(update(0, 1))
    next(found)
    assert len(updates._listeners) == 1
    found.close()  # type: ignore[attr-defined]  # it is a generator
    del found
    assert updates._listeners == []
