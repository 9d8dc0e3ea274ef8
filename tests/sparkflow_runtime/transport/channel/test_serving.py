"""The serving end of a channel: bundles, credit, calls, and every way it can end."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    UnavailableError,
)
from sparkflow_runtime.resources.parking import run_to_completion
from sparkflow_runtime.transport.channel import frames
from sparkflow_runtime.transport.channel.asking import AHEAD, PendingCall
from sparkflow_runtime.transport.channel.frames import Kind
from sparkflow_runtime.transport.channel.reactor import available
from sparkflow_runtime.transport.channel.serving import Sink, send_with_reply
from support.channels import WAIT_S, Channel

pytestmark = pytest.mark.skipif(not available(), reason="channels need Linux")


def send(sink: Sink, values: Sequence[Any], turns: range, lent: Sequence[int] = ()) -> None:
    for turn in turns:
        sink.send(turn, [value + turn for value in values], lent, lambda: None)


@pytest.mark.parametrize("size", [3, 50_000])
def test_bundles_of_a_loop_arrive_in_order(channel: Channel, size: int) -> None:
    [stream] = channel.asker.ask(1, ["0-1"], loops=True)
    sink = channel.task.sink("0-1")
    values = [np.arange(size, dtype=np.float32), np.arange(2)]
    sender = threading.Thread(target=send, args=(sink, values, range(50)))
    sender.start()
    kept = []
    for turn in range(50):
        bundle = stream.take(turn, channel.waker(), more=True)
        assert bundle is not None
        np.testing.assert_array_equal(bundle[0], values[0] + turn)
        np.testing.assert_array_equal(bundle[1], values[1] + turn)
        if turn % 10 == 0:
            kept.append((turn, bundle[0]))
    sender.join(WAIT_S)
    for turn, value in kept:  # what is still referenced is not overwritten
        np.testing.assert_array_equal(value, values[0] + turn)
    sink.end(50)
    assert stream.take(50, channel.waker(), more=True) is None


def test_a_sender_is_not_far_ahead(channel: Channel) -> None:
    [stream] = channel.asker.ask(1, ["0-1"], loops=True)
    sink = channel.task.sink("0-1")
    send(sink, [np.ones(2)], range(AHEAD))

    def enough() -> None:
        raise CancelledError(message="it waits")

    with pytest.raises(CancelledError, match="it waits"):
        sink.send(AHEAD, [np.ones(2)], (), enough)
    for turn in range(AHEAD):
        assert stream.take(turn, channel.waker(), more=True) is not None
    send(sink, [np.ones(2)], range(AHEAD, AHEAD + 3))


def test_shapes_may_change_from_turn_to_turn(channel: Channel) -> None:
    [stream] = channel.asker.ask(1, ["0-1"], loops=True)
    sink = channel.task.sink("0-1")
    for turn, size in enumerate([5, 5, 70_000, 3, 0, 5, 70_000, 70_000]):
        sink.send(turn, [np.full(size, turn), np.array([b"x" * turn], object)], (), lambda: None)
        bundle = stream.take(turn, channel.waker(), more=True)
        assert bundle is not None
        np.testing.assert_array_equal(bundle[0], np.full(size, turn))
        assert bundle[1][0] == b"x" * turn


def test_what_ends_a_stream_is_told(channel: Channel) -> None:
    streams = channel.asker.ask(1, ["a", "b", "refused"], loops=True)
    channel.task.sink("a").fail(NotFoundError(message="the step failed"))
    with pytest.raises(NotFoundError, match="the step failed"):
        streams[0].take(0, channel.waker(), more=True)
    sink = channel.task.sink("b")
    send(sink, [np.ones(1)], range(1))
    sink.end(1)
    assert streams[1].take(0, channel.waker(), more=True) is not None
    assert streams[1].take(1, channel.waker(), more=True) is None
    with pytest.raises(AbortedError, match="that step is over"):
        streams[2].take(0, channel.waker(), more=True)


def test_who_wants_nothing_more_gets_nothing(channel: Channel) -> None:
    [stream] = channel.asker.ask(1, ["a"], loops=True)
    sink = channel.task.sink("a")
    stream.cancel()
    channel.task.until(lambda: channel.task.gone == ["a False"])
    send(sink, [np.ones(30_000)], range(100))  # does not block, although nobody takes anything
    assert channel.call(b"", np.ones(1))[0] == 2


def test_both_may_send_much_at_once(channel: Channel) -> None:
    # Nobody reads while both write more than the sockets' buffers: the reactor must.
    back = Channel("tcp")
    there = channel.asker.ask(1, ["a"], loops=True)
    here = back.asker.ask(1, ["b"], loops=True)
    big = np.random.rand(1_000_000)
    sinks = channel.task.sink("a"), back.task.sink("b")
    senders = [threading.Thread(target=send, args=(s, [big], range(3))) for s in sinks]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(WAIT_S)
        assert not sender.is_alive()
    for streams, end in ((there, channel), (here, back)):
        for turn in range(3):
            bundle = streams[0].take(turn, end.waker(), more=True)
            assert bundle is not None
            np.testing.assert_array_equal(bundle[0], big + turn)
    back.close()


def test_the_end_of_the_asker_abandons_its_steps(channel: Channel) -> None:
    channel.asker.ask(7, ["a"], loops=True)
    sink = channel.task.sink("a")
    channel.asker.call(9, b"meet", [])
    channel.asker.post(frames.pack(Kind.FINISH, 8))
    channel.task.until(lambda: channel.task.finished == [8] and channel.task.called == [9])
    channel.asker.close()
    channel.task.until(lambda: channel.task.gone == ["a True"] and channel.task.abandoned == [9])
    assert channel.closed.wait(WAIT_S)
    channel.task.barrier.abort()
    sink.end(3)  # nobody receives it


def test_calls_that_begin_after_the_end_of_the_asker_are_not_run(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would abandon their steps any more."""
    seen: list[Any] = []
    late: list[Callable[[], None]] = []

    def answer(args: Sequence[Any]) -> Sequence[Any]:
        seen.append(args)
        return args

    channel.task.answer = answer
    monkeypatch.setattr(channel.reactor, "hand_over", late.append)
    for step_id in (8, 9):
        last = channel.asker.call(step_id, b"", [], is_held=True)
    assert channel.asker.result(last, channel.waker()) == []
    channel.asker.close()
    assert channel.closed.wait(WAIT_S)
    assert len(late) == 1
    late[0]()
    assert len(seen) == 1


def test_a_bundle_can_go_with_the_reply(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The asker is woken once."""
    sent: list[int] = []
    send = channel.serving.wire._send_pieces

    def count(pieces: Sequence[Any], *rest: Any) -> None:
        sent.append(sum(len(memoryview(piece).cast("B")) for piece in pieces))
        send(pieces, *rest)

    def answer(args: Sequence[Any]) -> Sequence[Any]:
        send_with_reply("a")
        for key in keys:
            channel.task.sink(key).send(0, [np.arange(4.0)], (), lambda: None)
        return args

    channel.task.answer = answer
    monkeypatch.setattr(channel.serving.wire, "_send_pieces", count)
    for step_id, keys, messages in ((7, ["a"], 1), (8, ["b", "a"], 2), (9, ["a", "b"], 2)):
        sent.clear()
        channel.task.sinks.clear()
        streams = dict(zip(keys, channel.asker.ask(step_id, keys, loops=False), strict=True))
        assert channel.call(b"", step_id=step_id) == []
        assert len(sent) == messages
        for stream in streams.values():
            (value,) = stream.take(0, channel.waker(), more=False) or ()
            np.testing.assert_array_equal(value, np.arange(4.0))
    sent.clear()
    channel.task.sinks.clear()
    (stream,) = channel.asker.ask(10, ["a"], loops=True)
    channel.task.sink("a").send(0, [np.arange(4.0)], (), lambda: None)  # without a call
    assert stream.take(0, channel.waker(), more=True) is not None
    assert len(sent) == 1


def test_steps_need_no_new_threads(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the previous step comes with a call, and two calls run concurrently."""
    entered, leave = threading.Semaphore(0), threading.Barrier(3)

    def answer(args: Sequence[Any]) -> Sequence[Any]:
        entered.release()
        leave.wait(WAIT_S)
        return args

    def round_of_two() -> None:
        calls = []
        for step_id in (8, 9):
            calls.append(channel.asker.call(step_id, b"", [], is_held=True))
            held = channel.asker._take_held()
            channel.asker.wire.send([frames.pack(Kind.FINISH, step_id - 2), *held])
            assert entered.acquire(timeout=WAIT_S)
        leave.wait(WAIT_S)
        for call in calls:
            assert channel.asker.result(call, channel.waker()) == []

    channel.task.answer = answer
    started: list[str] = []
    start = threading.Thread.start
    monkeypatch.setattr(
        threading.Thread, "start", lambda thread: (started.append(thread.name), start(thread))
    )
    rounds = 50
    for _ in range(rounds):
        round_of_two()
    # A few: one that has just answered may not be free yet when the next call arrives.
    assert len(started) < rounds / 4
    channel.task.until(lambda: len(channel.task.finished) == 2 * rounds)


def test_who_asks_for_bundles_and_is_gone_before_is_taken_back(channel: Channel) -> None:
    subscribe = channel.task.subscribe

    def interrupted(step_id: int, key: str, sink: Sink) -> None:
        channel.serving.close()  # another thread has noticed that it is gone
        subscribe(step_id, key, sink)

    channel.task.subscribe = interrupted  # type: ignore[method-assign]
    channel.asker.ask(7, ["a"], loops=True)
    channel.task.until(lambda: channel.task.gone == ["a True"] * 2)


def test_what_the_task_raises_ends_the_channel_and_no_thread(channel: Channel) -> None:
    def refuse(step_id: int) -> None:
        raise InvalidArgumentError(message="no such step")

    channel.task.finish = refuse  # type: ignore[method-assign]
    channel.task.abandon = refuse  # type: ignore[method-assign]
    threads = channel.reactor._threads
    call = channel.asker.call(9, b"meet", [])
    channel.asker.post(frames.pack(Kind.FINISH, 8))
    with pytest.raises(UnavailableError):
        channel.asker.result(call, channel.waker())
    assert channel.closed.wait(WAIT_S)
    channel.task.barrier.abort()
    assert channel.reactor._threads >= threads - 1


@pytest.mark.parametrize("kind", [Kind.BUNDLE, Kind.REPLY, Kind.END])
def test_answers_from_an_asker_end_the_channel(channel: Channel, kind: Kind) -> None:
    channel.asker.post(frames.pack(kind, 1))
    assert channel.closed.wait(WAIT_S)
    with pytest.raises(UnavailableError):
        channel.call(b"", np.ones(1))


def test_a_body_of_another_size_is_refused(channel: Channel) -> None:
    pending = PendingCall()
    with channel.asker._arrived:
        channel.asker._calls[99] = pending
    message = channel.asker._describer.describe([np.ones(3)])
    head = frames.pack(
        Kind.CALL, 99, 1, layout=message.layout, tensors=1, body_bytes=message.body_bytes - 8
    )
    channel.asker.wire.send(head, [np.ones(2)], 16)
    with pytest.raises(InvalidArgumentError, match="its tensors need"):
        channel.asker.result(pending, channel.waker())


def later_call(channel: Channel, step_id: int) -> PendingCall:
    """Returns a call that has arrived, and is not answered yet."""
    before = len(channel.task.later)
    call = channel.asker.call(step_id, b"later", [])
    channel.task.until(lambda: len(channel.task.later) > before)
    return call


def test_a_call_can_be_answered_later_by_another_thread(channel: Channel) -> None:
    calls = [later_call(channel, step_id) for step_id in (1, 2)]
    assert channel.call(b"", np.float32(2)) == [4]  # and no thread is busy with them
    first, second = channel.task.later
    threading.Thread(target=second, args=([np.arange(3)],)).start()
    (result,) = channel.asker.result(calls[1], channel.waker())
    np.testing.assert_array_equal(result, np.arange(3))
    first(AbortedError(message="no more"))
    with pytest.raises(AbortedError, match="no more"):
        channel.asker.result(calls[0], channel.waker())


def test_answers_of_one_thread_go_together(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The asker is woken once, and no large answer delays small ones."""
    own, sent, large = threading.get_ident(), [], np.arange(1 << 16)
    send = channel.serving.wire.send

    def count(*args: Any, **about: Any) -> None:
        sent.append(threading.get_ident())
        send(*args, **about)

    monkeypatch.setattr(channel.serving.wire, "send", count)
    calls = [later_call(channel, step_id) for step_id in range(4)]
    outcomes = ([1], NotFoundError(message="none"), [large], [2])

    def answer() -> None:
        for later, outcome in zip(channel.task.later, outcomes, strict=True):
            later(outcome)
        assert not sent

    run_to_completion(answer)
    assert channel.asker.result(calls[0], channel.waker()) == [1]
    assert channel.asker.result(calls[3], channel.waker()) == [2]
    with pytest.raises(NotFoundError, match="none"):
        channel.asker.result(calls[1], channel.waker())
    np.testing.assert_array_equal(channel.asker.result(calls[2], channel.waker())[0], large)
    assert sent.count(own) == 2  # the last two are one message; a refusal is a separate one
    assert len(set(sent)) == 2  # the large one by another thread


def test_the_end_of_the_asker_abandons_what_is_answered_later(channel: Channel) -> None:
    later_call(channel, 9)
    channel.asker.close()
    channel.task.until(lambda: channel.task.abandoned == [9])
    assert channel.closed.wait(WAIT_S)
    channel.task.later[0]([1])  # nobody receives it
    assert channel.serving._running == {}


@pytest.mark.parametrize("outcome", [[object()], [np.zeros(2), None]])
def test_what_cannot_be_sent_is_refused_when_it_comes_later(channel: Channel, outcome: Any) -> None:
    call = later_call(channel, 9)
    channel.task.later[0](outcome)
    with pytest.raises(OpError):
        channel.asker.result(call, channel.waker())
