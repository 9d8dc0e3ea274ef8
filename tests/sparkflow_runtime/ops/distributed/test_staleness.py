"""The clock of bounded staleness as ops. The rules are tested with the resource."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from support.eager import EagerBuilder
from support.step import FakeStep

DEADLINE_S = 60


@pytest.fixture
def g():
    return EagerBuilder()


def clock(g, staleness=0):
    return g.StalenessClock(name="c", num_replicas=2, staleness=staleness)


def test_replicas_share_the_clock_of_the_task(g):
    assert clock(g).value is clock(g).value
    with pytest.raises(InvalidArgumentError, match="staleness of 0, but 2 was asked for"):
        clock(g, 2)


def test_the_fast_wait_until_the_slow_come_or_leave(g):
    handle = clock(g)
    with ThreadPoolExecutor(1) as pool:
        for event in (
            lambda: g.StalenessClockAdvance(handle, replica=1),
            lambda: g.StalenessClockLeave(handle, replica=1),
        ):
            g.step = step = FakeStep()
            fast = pool.submit(g.StalenessClockAdvance, handle, replica=0)
            assert step.waiting.wait(DEADLINE_S)
            event()
            fast.result(DEADLINE_S)
    g.StalenessClockAdvance(handle, replica=0)
    g.StalenessClockJoin(handle, replica=1)
    assert handle.value.staleness == 0
