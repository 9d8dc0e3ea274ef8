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
from sparkflow_runtime.master.running import RunningSteps
from sparkflow_runtime.transport.threads import DaemonThreads

WAIT_S = 20


class Link:
    """A worker whose one partition ends when the test says so, or when its step is finished.

    Args:
        finishes: Whether finishing a step ends its partition, as it does unless the worker hangs.
    """

    def __init__(self, finishes: bool = True) -> None:
        self.future: Future[Any] = Future()
        self.finishes = finishes
        self.finished: list[tuple[int, OpError | None]] = []
        self.ended: list[tuple[int, int]] = []

    def finish_step(self, step_id: int, error: OpError | None = None) -> None:
        self.finished.append((step_id, error))
        if self.finishes and not self.future.done():
            self.future.set_exception(AbortedError(message=f"Step {step_id} is over"))

    def end_loop(self, step_id: int, num_steps: int) -> None:
        self.ended.append((step_id, num_steps))
        if not self.future.done():
            self.future.set_result(num_steps)


Run = Callable[..., "Future[Any]"]


@pytest.fixture
def links() -> list[Link]:
    return [Link(), Link(), Link()]


@pytest.fixture
def steps(links: list[Link]) -> RunningSteps:
    return RunningSteps([*links, links[0]])  # type: ignore[list-item]


@pytest.fixture
def threads():
    made = DaemonThreads(4, "test-running")
    yield made
    made.shutdown()


def run(steps: RunningSteps, links: list[Link], **options: Any) -> list[Any]:
    return steps.run(steps.begin(), lambda: [link.future for link in links], **options)


def test_results_come_in_order_and_all_workers_forget_the_step(
    steps: RunningSteps, links: list[Link]
) -> None:
    for number, link in enumerate(links):
        link.future.set_result(number)
    assert run(steps, links) == [0, 1, 2]
    assert [len(link.finished) for link in links] == [1, 1, 1]  # each worker once
    assert steps._reasons == {}


@pytest.mark.parametrize("late", [False, True])
def test_the_first_cause_ends_the_others(
    steps: RunningSteps, links: list[Link], threads: DaemonThreads, late: bool
) -> None:
    cause = InvalidArgumentError(message="bad").at("[[node 'x']]")
    if late:
        running_step = threads.submit(run, steps, links)
        links[1].future.set_exception(cause)
        error = running_step.exception(WAIT_S)
    else:
        # What follows from the cause may be heard of first.
        links[0].future.set_exception(CancelledError(message="elsewhere"))
        links[1].future.set_exception(cause)
        links[2].future.set_exception(UnavailableError(message="a peer is gone"))
        with pytest.raises(InvalidArgumentError) as info:
            run(steps, links)
        error = info.value
    assert error is cause
    assert all(link.future.done() for link in links)
    assert all("bad" in str(link.finished[0][1]) for link in links)


def test_when_all_failures_are_consequences_the_first_heard_of_is_told(
    steps: RunningSteps, links: list[Link]
) -> None:
    links[2].future.set_exception(CancelledError(message="Queue 'q' was closed"))
    with pytest.raises(CancelledError, match="Queue 'q' was closed"):
        run(steps, links)


def test_a_worker_that_hangs_does_not_hide_the_error(
    monkeypatch: pytest.MonkeyPatch, links: list[Link]
) -> None:
    monkeypatch.setattr(running, "_SETTLE_TIMEOUT_S", 0.05)
    links[0].finishes = False
    steps = RunningSteps(links)  # type: ignore[arg-type]
    links[1].future.set_exception(InvalidArgumentError(message="bad"))
    with pytest.raises(InvalidArgumentError, match="bad"):
        run(steps, links)


@pytest.mark.parametrize("way", ["cancel", "close"])
def test_cancelling_tells_why(
    steps: RunningSteps, links: list[Link], threads: DaemonThreads, way: str
) -> None:
    step_id = steps.begin()
    future = threads.submit(steps.run, step_id, lambda: [link.future for link in links])
    why = CancelledError(message="the user said so")
    if way == "cancel":
        steps.cancel(step_id, why)
        steps.cancel(step_id, CancelledError(message="again"))
    else:
        steps.close(why)
    error = future.exception(WAIT_S)
    assert isinstance(error, CancelledError)
    assert "the user said so" in str(error)
    steps.cancel(step_id, why)  # over: ignored
    if way == "close":
        with pytest.raises(CancelledError, match="the user said so"):
            steps.begin()
        with pytest.raises(CancelledError, match="the user said so"):
            steps.check()


def test_a_real_failure_is_told_rather_than_the_cancellation(
    steps: RunningSteps, links: list[Link]
) -> None:
    step_id = steps.begin()
    links[0].future.set_exception(InvalidArgumentError(message="bad"))
    steps.cancel(step_id, CancelledError(message="stop"))
    with pytest.raises(InvalidArgumentError, match="bad"):
        steps.run(step_id, lambda: [link.future for link in links])


def test_a_cancelled_step_fails_even_if_all_of_it_was_done(
    steps: RunningSteps, links: list[Link]
) -> None:
    for link in links:
        link.future.set_result(1)
    step_id = steps.begin()
    steps.cancel(step_id, CancelledError(message="stop"))
    with pytest.raises(CancelledError, match="stop"):
        steps.run(step_id, lambda: [link.future for link in links])


def test_deadlines(steps: RunningSteps, links: list[Link]) -> None:
    links[0].future.set_result(1)
    with pytest.raises(DeadlineExceededError, match=r"longer than 0\.05 s"):
        run(steps, links, timeout_s=0.05)
    assert all(link.future.done() for link in links)


def test_what_was_started_is_ended_when_the_next_cannot_be(
    steps: RunningSteps, links: list[Link]
) -> None:
    def start() -> Any:
        yield links[0].future
        raise InvalidArgumentError(message="cannot start")

    with pytest.raises(InvalidArgumentError, match="cannot start"):
        steps.run(steps.begin(), start)
    assert isinstance(links[0].future.exception(0), AbortedError)
    assert steps._reasons == {}


def test_interrupting_ends_the_step(steps: RunningSteps, links: list[Link]) -> None:
    def start() -> Any:
        yield links[0].future
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        steps.run(steps.begin(), start)
    assert links[0].future.done()


def test_a_loop_whose_data_end_ends_the_others_at_that_count(
    steps: RunningSteps, links: list[Link]
) -> None:
    links[1].future.set_result(5)
    assert run(steps, links, ends_early=lambda count: count if count < 100 else None) == [5, 5, 5]
    assert [len(link.ended) for link in links] == [1, 1, 1]


def test_a_complete_loop_ends_by_itself(
    steps: RunningSteps, links: list[Link], threads: DaemonThreads
) -> None:
    for link in links:
        link.future.set_result(100)
    assert run(steps, links, ends_early=lambda count: count if count < 100 else None) == [100] * 3
    assert [link.ended for link in links] == [[], [], []]


def test_steps_have_numbers_of_their_own(steps: RunningSteps) -> None:
    found: set[int] = set()

    def begin() -> None:
        mine = {steps.begin() for _ in range(500)}
        with lock:
            found.update(mine)

    lock = threading.Lock()
    group = [threading.Thread(target=begin) for _ in range(4)]
    for thread in group:
        thread.start()
    for thread in group:
        thread.join(WAIT_S)
    assert len(found) == 2000
