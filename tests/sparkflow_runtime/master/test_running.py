import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)
from sparkflow_runtime.master import running
from sparkflow_runtime.master.running import InBackground, Pending, RunningStep, RunningSteps
from sparkflow_runtime.transport.threads import DaemonThreads

WAIT_S = 20


class Link:
    """A worker whose only partition ends when the test says so, or when its step is finished.

    Args:
        finishes: Whether finishing a step ends its partition, as it does unless the worker hangs.
    """

    def __init__(self, finishes: bool = True) -> None:
        self.future: Future[Any] = Future()
        self.finishes = finishes
        self.finished: list[tuple[int, OpError | None]] = []

    def finish_step(self, step_id: int, error: OpError | None = None) -> None:
        self.finished.append((step_id, error))
        if self.finishes and not self.future.done():
            self.future.set_exception(AbortedError(message=f"Step {step_id} is over"))


def beginning(step: RunningStep, links: list[Link]) -> Callable[[], list[Pending]]:
    return lambda: [InBackground(step, link.future) for link in links]


@pytest.fixture
def links() -> list[Link]:
    return [Link(), Link(), Link()]


@pytest.fixture
def steps(links: list[Link]) -> RunningSteps[Link]:
    return RunningSteps([*links, links[0]])


@pytest.fixture
def threads():
    made = DaemonThreads(4, "test-running")
    yield made
    made.shutdown()


def run(steps: RunningSteps[Link], links: list[Link], timeout_s: float | None = None) -> list[Any]:
    step = steps.begin(timeout_s)
    return steps.run(step, beginning(step, links))


def test_results_come_in_order_and_all_workers_forget_the_step(
    steps: RunningSteps[Link], links: list[Link]
) -> None:
    for number, link in enumerate(links):
        link.future.set_result(number)
    assert run(steps, links) == [0, 1, 2]
    assert [len(link.finished) for link in links] == [1, 1, 1]  # each worker once
    assert [link.finished[0][1] for link in links] == [None] * 3  # nobody is told of an error
    assert not steps._running


@pytest.mark.parametrize("late", [False, True])
def test_the_first_cause_ends_the_others(
    steps: RunningSteps[Link], links: list[Link], threads: DaemonThreads, late: bool
) -> None:
    cause = InvalidArgumentError(message="bad").at("[[node 'x']]")
    if late:
        running_step = threads.submit(run, steps, links)
        links[1].future.set_exception(cause)
        error = running_step.exception(WAIT_S)
    else:
        # Consequences of the cause may arrive first.
        links[0].future.set_exception(CancelledError(message="elsewhere"))
        links[1].future.set_exception(cause)
        links[2].future.set_exception(UnavailableError(message="a peer is gone"))
        with pytest.raises(InvalidArgumentError) as info:
            run(steps, links)
        error = info.value
    assert error is cause
    assert all(link.future.done() for link in links)
    assert all(any("bad" in str(error) for _, error in link.finished) for link in links)


def test_when_all_failures_are_consequences_the_first_heard_of_is_told(
    steps: RunningSteps[Link], links: list[Link]
) -> None:
    links[2].future.set_exception(CancelledError(message="Queue 'q' was closed"))
    with pytest.raises(CancelledError, match="Queue 'q' was closed"):
        run(steps, links)


def test_a_worker_that_hangs_does_not_hide_the_error(
    monkeypatch: pytest.MonkeyPatch, links: list[Link]
) -> None:
    monkeypatch.setattr(running, "_SETTLE_TIMEOUT_S", 0.05)
    links[0].finishes = False
    steps = RunningSteps(links)
    links[1].future.set_exception(InvalidArgumentError(message="bad"))
    with pytest.raises(InvalidArgumentError, match="bad"):
        run(steps, links)


@pytest.mark.parametrize("way", ["cancel", "close"])
def test_cancelling_tells_why(
    steps: RunningSteps[Link], links: list[Link], threads: DaemonThreads, way: str
) -> None:
    step = steps.begin()
    future = threads.submit(steps.run, step, beginning(step, links))
    why = CancelledError(message="the user said so")
    if way == "cancel":
        step.cancel(why)
        step.cancel(CancelledError(message="again"))
    else:
        steps.close(why)
    error = future.exception(WAIT_S)
    assert isinstance(error, CancelledError)
    assert "the user said so" in str(error)
    step.cancel(why)  # already over: ignored
    if way == "close":
        with pytest.raises(CancelledError, match="the user said so"):
            steps.begin()
        with pytest.raises(CancelledError, match="the user said so"):
            steps.check()


def test_a_real_failure_is_told_rather_than_the_cancellation(
    steps: RunningSteps[Link], links: list[Link]
) -> None:
    step = steps.begin()
    links[0].future.set_exception(InvalidArgumentError(message="bad"))
    step.cancel(CancelledError(message="stop"))
    with pytest.raises(InvalidArgumentError, match="bad"):
        steps.run(step, beginning(step, links))


def test_a_cancelled_step_fails_even_if_all_of_it_was_done(
    steps: RunningSteps[Link], links: list[Link]
) -> None:
    for link in links:
        link.future.set_result(1)
    step = steps.begin()
    step.cancel(CancelledError(message="stop"))
    with pytest.raises(CancelledError, match="stop"):
        steps.run(step, beginning(step, links))


def test_deadlines(steps: RunningSteps[Link], links: list[Link]) -> None:
    links[0].future.set_result(1)
    with pytest.raises(DeadlineExceededError, match=r"longer than 0\.05 s"):
        run(steps, links, timeout_s=0.05)
    assert all(link.future.done() for link in links)


def test_what_was_started_is_ended_when_the_next_cannot_be(
    steps: RunningSteps[Link], links: list[Link]
) -> None:
    step = steps.begin()

    def begin() -> Any:
        yield InBackground(step, links[0].future)
        raise InvalidArgumentError(message="cannot start")

    with pytest.raises(InvalidArgumentError, match="cannot start"):
        steps.run(step, begin)
    assert isinstance(links[0].future.exception(0), AbortedError)
    assert not steps._running


def test_interrupting_ends_the_step(steps: RunningSteps[Link], links: list[Link]) -> None:
    step = steps.begin()

    def begin() -> Any:
        yield InBackground(step, links[0].future)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        steps.run(step, begin)
    assert links[0].future.done()
    assert not steps._running


def test_one_partition_runs_in_the_calling_thread(
    steps: RunningSteps[Link], links: list[Link]
) -> None:
    seen: list[threading.Thread] = []

    def here() -> str:
        seen.append(threading.current_thread())
        for link in links:
            link.future.set_result("elsewhere")
        return "here"

    step = steps.begin()
    assert steps.run(step, beginning(step, links), here) == ["here", *["elsewhere"] * 3]
    assert seen == [threading.current_thread()]


def test_what_fails_elsewhere_ends_the_one_that_runs_here(
    steps: RunningSteps[Link], links: list[Link]
) -> None:
    def here() -> None:
        links[1].future.set_exception(InvalidArgumentError(message="bad"))
        # Like a worker that is told to finish the step.
        (error,) = {str(link.finished[0][1]) for link in links}
        raise CancelledError(message=error)

    step = steps.begin()
    with pytest.raises(InvalidArgumentError, match="bad"):
        steps.run(step, beginning(step, links), here)


class Alone:
    """A partition whose worker forgets the step by itself."""

    ends_step = True

    def __init__(self, error: OpError | None = None) -> None:
        self.error = error

    def end(self, step: RunningStep) -> int:
        step.check()
        if self.error is not None:
            raise self.error
        return 5


def test_a_worker_that_forgets_the_step_by_itself_is_not_told_to() -> None:
    link = Link()
    steps = RunningSteps([link])
    assert steps.run(steps.begin(), lambda: [Alone()]) == [5]
    assert link.finished == []
    with pytest.raises(UnavailableError):
        steps.run(steps.begin(), lambda: [Alone(UnavailableError(message="gone"))])
    assert link.finished


def test_steps_have_numbers_of_their_own(steps: RunningSteps[Link]) -> None:
    found: set[int] = set()

    def begin() -> None:
        mine = {steps.begin().id for _ in range(500)}
        with lock:
            found.update(mine)

    lock = threading.Lock()
    group = [threading.Thread(target=begin) for _ in range(4)]
    for thread in group:
        thread.start()
    for thread in group:
        thread.join(WAIT_S)
    assert len(found) == 2000


_FORKS = """
import os
from sparkflow_runtime.master import running
from sparkflow_runtime.master.repeated_runs import client_side
pid = os.fork()
starts = [next(ids.unused) >> 20 for ids in (running._step_ids, client_side._step_ids)]
os.write(1, f"{starts[0]} {starts[1]}\\n".encode())
if pid:
    os.waitpid(pid, 0)
"""


def test_a_forked_process_has_other_step_ids() -> None:
    found = subprocess.run([sys.executable, "-c", _FORKS], stdout=subprocess.PIPE, check=True)
    starts = found.stdout.split()
    assert len(set(starts)) == len(starts) == 4
