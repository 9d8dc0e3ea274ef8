"""The asking end of a channel: calls, delayed messages, and every way it can end."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import (
    CancelledError,
    NotFoundError,
    OpError,
    UnavailableError,
)
from sparkflow_runtime.transport.channel import frames
from sparkflow_runtime.transport.channel.asking import PendingCall
from sparkflow_runtime.transport.channel.frames import Kind
from sparkflow_runtime.transport.channel.reactor import available
from sparkflow_runtime.transport.waking import Waker
from support.channels import WAIT_S, Channel
from support.waiting import wait_until

pytestmark = pytest.mark.skipif(not available(), reason="channels need Linux")


def test_calls_bring_results(channel: Channel) -> None:
    for size in (0, 1, 1000, 100_000):
        x, text = np.random.RandomState(size).rand(size), np.array([b"t" * 3], object)
        channel.task.answer = lambda args: [args[0] * 2, args[1], np.float32(1)]
        doubled, same, scalar = channel.call(b"", x, text)
        np.testing.assert_array_equal(doubled, x * 2)
        assert list(same) == [b"ttt"]
        assert scalar == 1
    channel.task.answer = lambda args: []
    assert channel.call(b"") == []


def test_failures_arrive_with_class_and_text(channel: Channel) -> None:
    with pytest.raises(NotFoundError, match="no such thing"):
        channel.call(b"fail", np.ones(3))
    assert channel.call(b"", np.ones(1))[0] == 2  # the channel still works


def test_calls_of_one_channel_run_side_by_side(channel: Channel) -> None:
    # Each call waits for the other one.
    done = threading.Semaphore(0)

    def finished(call: PendingCall) -> None:
        assert call.error is None
        done.release()

    for _ in range(2):
        channel.asker.call(1, b"meet", [], finished)
    for _ in range(2):
        assert done.acquire(timeout=WAIT_S)


def test_threads_share_a_channel(channel: Channel) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(100):
                value = np.full(number * 50 + 1, turn + number, np.float32)
                np.testing.assert_array_equal(channel.call(b"", value)[0], 2 * value)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S * 3)
    assert failures == []


def test_a_wait_ends_when_it_is_not_wanted(channel: Channel) -> None:
    [stream] = channel.asker.ask(1, ["a"], loops=False)
    waiting = threading.Event()
    over = threading.Event()
    found: list[Any] = []

    def check() -> None:
        waiting.set()
        if over.is_set():
            raise CancelledError(message="the step was cancelled")

    def wait() -> None:
        waker = Waker.of_this_thread(check)
        found.append(waker)
        with pytest.raises(CancelledError, match="the step was cancelled"):
            stream.take(0, waker, more=False)

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(WAIT_S)
    over.set()
    found[0].wake()
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_the_end_of_the_server_ends_what_was_asked(channel: Channel) -> None:
    [stream] = channel.asker.ask(1, ["a"], loops=False)
    calls: list[PendingCall] = []
    ended = threading.Event()

    def done(call: PendingCall) -> None:
        calls.append(call)
        ended.set()

    channel.asker.call(1, b"meet", [], done)
    channel.task.sink("a")
    channel.serving.close()
    with pytest.raises(UnavailableError, match=r"channel to Task /job:ps/replica:0/task:0 broke"):
        stream.take(0, channel.waker(), more=False)
    assert ended.wait(WAIT_S)
    assert isinstance(calls[0].error, OpError)
    with pytest.raises(UnavailableError):
        channel.asker.ask(1, ["b"], loops=False)
    channel.task.barrier.abort()


def test_the_end_of_a_step_goes_with_what_comes_next_or_soon(channel: Channel) -> None:
    channel.asker.post(frames.pack(Kind.FINISH, 7), is_held=True)
    assert channel.asker.holds_back
    assert channel.call(b"") == []
    assert channel.task.finished == [7]
    assert not channel.asker.holds_back
    channel.asker.post(frames.pack(Kind.FINISH, 8), is_held=True)
    channel.task.until(lambda: channel.task.finished == [7, 8])  # sent by the reactor's janitor
    channel.asker.post(frames.pack(Kind.FINISH, 9), is_held=True)
    channel.asker.post(frames.pack(Kind.FINISH, 10))
    channel.task.until(lambda: channel.task.finished == [7, 8, 9, 10])


def test_the_end_of_a_step_does_not_wait_for_the_answer_of_another(channel: Channel) -> None:
    """Then the reactor reads the channel, for the answer that nobody waits for."""
    answered = threading.Event()
    channel.asker.call(1, b"meet", [], lambda _: answered.set())
    channel.asker.post(frames.pack(Kind.FINISH, 7), is_held=True)
    channel.task.until(lambda: channel.task.finished == [7])
    assert not answered.is_set()
    channel.task.barrier.wait(WAIT_S)
    assert answered.wait(WAIT_S)


def test_an_asker_that_finds_the_other_end_gone_leaves_nothing_behind(channel: Channel) -> None:
    channel.serving.close()
    deadline = time.monotonic() + WAIT_S
    while channel.asker.is_open and time.monotonic() < deadline:
        channel.asker.post(frames.pack(Kind.FINISH, 8))
    assert not channel.asker.is_open
    wait_until(lambda: channel.asker not in channel.reactor._ends.values(), WAIT_S)


def test_a_call_that_is_held_back_goes_with_what_is_asked_for(channel: Channel) -> None:
    """The other end finds the requested bundles with the call: it needs no other thread."""
    seen: list[list[str]] = []

    def answer(args: Sequence[Any]) -> Sequence[Any]:
        seen.append(sorted(channel.task.sinks))
        return args

    channel.task.answer = answer
    sent: list[int] = []
    send = channel.asker.wire.send

    def count(head: bytes | list[bytes], *rest: Any) -> None:
        sent.append(len(head) if isinstance(head, list) else 1)
        send(head, *rest)

    channel.asker.wire.send = count  # type: ignore[method-assign]
    call = channel.asker.call(1, b"", [], is_held=True)
    assert sent == []
    channel.asker.ask(1, ["a", "b"], loops=False)
    assert channel.asker.result(call, channel.waker()) == []
    assert sent == [3]
    assert seen == [["a", "b"]]


@pytest.mark.parametrize("way", ["flush", "wait", "post", "call"])
def test_no_call_stays_held_back(channel: Channel, way: str) -> None:
    held = channel.asker.call(1, b"", [], is_held=True)
    if way == "flush":
        channel.asker.flush()
    elif way == "post":
        channel.asker.post(frames.pack(Kind.FINISH, 8))
    elif way == "call":
        assert channel.call(b"", np.ones(2))[0].tolist() == [2, 2]
    assert not channel.asker._held or way == "wait"
    assert channel.asker.result(held, channel.waker()) == []


def test_arguments_are_never_held_back(channel: Channel) -> None:
    value = np.ones(3)
    call = channel.asker.call(1, b"", [value], is_held=True)
    value[:] = 7  # as a caller may once `call` has returned
    assert channel.asker.result(call, channel.waker())[0].tolist() == [2, 2, 2]


def test_a_call_that_is_held_back_ends_with_its_channel(channel: Channel) -> None:
    call = channel.asker.call(1, b"", [], is_held=True)
    channel.asker.close()
    with pytest.raises(UnavailableError):
        channel.asker.result(call, channel.waker())
    channel.asker.flush()


def test_frames_out_of_place_end_the_channel(channel: Channel) -> None:
    [stream] = channel.asker.ask(1, ["a"], loops=True)
    number = stream._number
    channel.task.sink("a")
    channel.serving.post(frames.pack(Kind.BUNDLE, number, 0, flags=frames.SAME_LAYOUT))
    with pytest.raises(OpError, match="refers to a layout that was never sent"):
        stream.take(0, channel.waker(), more=True)


@pytest.mark.parametrize("before", ["nothing", "call", "left alone"])
def test_an_asker_of_which_nothing_is_wanted_finds_the_other_end_gone(
    channel: Channel, before: str
) -> None:
    """The task may be back at the same address: later requests go to that one."""
    if before == "call":
        channel.call(b"", np.ones(1))
    elif before == "left alone":
        answered = threading.Event()
        channel.asker.call(1, b"", [np.ones(1)], on_done=lambda _: answered.set())
        assert answered.wait(WAIT_S)
    channel.serving.close()
    wait_until(lambda: not channel.asker.is_open, WAIT_S)
    wait_until(lambda: channel.asker not in channel.reactor._ends.values(), WAIT_S)


def test_arguments_that_are_lent_are_read_where_they_are() -> None:
    if not SharedArena.available():
        pytest.skip("no shared memory here")
    channel = Channel("shm")
    arena = channel.arenas[1]
    assert arena is not None
    value = arena.allocate((3000,), np.float32)
    value[:] = 1
    given: list[Any] = []
    channel.task.answer = lambda args: given.extend(args) or []  # type: ignore[func-returns-value]
    for lent in ([0], []):
        call = channel.asker.call(1, b"", [value, value[:10]], lent=lent)
        assert channel.asker.result(call, channel.waker()) == []
    value[:] = 2
    assert [float(each[0]) for each in given] == [2, 1, 1, 1]
    channel.close()
