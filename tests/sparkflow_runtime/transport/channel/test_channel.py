"""Both ends of a channel: bundles, calls, credit, shared memory, and every way it can end."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest

from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    UnavailableError,
)
from sparkflow_runtime.transport.channel import frames, memory
from sparkflow_runtime.transport.channel.asking import AHEAD, Asker, PendingCall
from sparkflow_runtime.transport.channel.frames import Kind
from sparkflow_runtime.transport.channel.opening import Opened
from sparkflow_runtime.transport.channel.reactor import Reactor, available
from sparkflow_runtime.transport.channel.serving import Serving, Sink, send_with_reply
from sparkflow_runtime.transport.waking import Waker

pytestmark = pytest.mark.skipif(not available(), reason="channels need Linux")

WAIT_S = 20
T = TypeVar("T")
PS = "/job:ps/replica:0/task:0"


class Task:
    """A task that echoes calls and lets a test send bundles."""

    def __init__(self) -> None:
        self.sinks: dict[str, Sink] = {}
        self.gone: list[str] = []
        self.called: list[int] = []
        self.abandoned: list[int] = []
        self.finished: list[int] = []
        self.changed = threading.Condition()
        self.barrier = threading.Barrier(2)
        self.answer: Callable[[Sequence[Any]], Sequence[Any]] = lambda args: [2 * a for a in args]

    def sink(self, key: str) -> Sink:
        with self.changed:
            assert self.changed.wait_for(lambda: key in self.sinks, WAIT_S)
            return self.sinks[key]

    def until(self, told: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(told, WAIT_S)

    def subscribe(self, step_id: int, key: str, sink: Sink) -> None:
        if key == "refused":
            raise AbortedError(message="that step is over")
        with self.changed:
            self.sinks[key] = sink
            self.changed.notify_all()

    def unsubscribe(self, step_id: int, key: str, sink: Sink, gone: bool) -> None:
        self._note(self.gone, f"{key} {gone}")

    def call(self, step_id: int, text: bytes, args: Sequence[Any]) -> Sequence[Any]:
        self._note(self.called, step_id)
        if text == b"fail":
            raise NotFoundError(message="no such thing")
        if text == b"meet":
            self.barrier.wait(WAIT_S)
        return self.answer(args)

    def abandon(self, step_id: int) -> None:
        self._note(self.abandoned, step_id)

    def finish(self, step_id: int) -> None:
        self._note(self.finished, step_id)

    def _note(self, seen: list[T], what: T) -> None:
        with self.changed:
            seen.append(what)
            self.changed.notify_all()


class Channel:
    """Both ends in this process, with a reactor of their own."""

    def __init__(self, kind: str) -> None:
        if kind == "tcp":
            with socket.create_server(("127.0.0.1", 0)) as door:
                mine = socket.create_connection(door.getsockname())
                theirs, _ = door.accept()
        else:
            mine, theirs = socket.socketpair()
        seals = (1, 2) if kind == "tcp" else None
        self.task = Task()
        self.reactor = Reactor()
        self.arenas = [SharedArena() if kind == "shm" else None for _ in range(2)]
        self.closed = threading.Event()
        self.serving = Serving(
            Opened(theirs, PS, 1, seals),
            self.task,
            self.reactor,
            self.arenas[0],
            lambda _: self.closed.set(),
        )
        self.asker = Asker(Opened(mine, PS, 1, seals and seals[::-1]), self.reactor, self.arenas[1])

    def waker(self) -> Waker:
        return Waker.of_this_thread(lambda: None)

    def call(self, text: bytes, *args: Any, step_id: int = 1) -> list[Any]:
        return self.asker.result(self.asker.call(step_id, text, args), self.waker())

    def close(self) -> None:
        self.asker.close()
        self.serving.close()
        for arena in self.arenas:
            if arena is not None:
                arena.close()


@pytest.fixture(params=["tcp", "unix", "shm"])
def channel(request: pytest.FixtureRequest) -> Iterator[Channel]:
    if request.param == "shm" and not SharedArena.available():
        pytest.skip("no shared memory here")
    before = set(threading.enumerate())
    made = Channel(request.param)
    yield made
    made.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT_S)
    assert set(threading.enumerate()) <= before


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
    assert channel.call(b"", np.ones(1))[0] == 2  # the channel goes on


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
    for turn, value in kept:  # what somebody holds is not written over
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
    send(sink, [np.ones(30_000)], range(100))  # not held up, though nobody takes anything
    assert channel.call(b"", np.ones(1))[0] == 2


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


def test_both_may_send_much_at_once(channel: Channel) -> None:
    # Nobody reads while both write more than the sockets hold: the reactor must.
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
    with pytest.raises(UnavailableError, match=r"Task /job:ps/replica:0/task:0 is gone"):
        stream.take(0, channel.waker(), more=False)
    assert ended.wait(WAIT_S)
    assert isinstance(calls[0].error, OpError)
    with pytest.raises(UnavailableError):
        channel.asker.ask(1, ["b"], loops=False)
    channel.task.barrier.abort()


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
    sink.end(3)  # nobody hears it


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
    channel.task.sink("a").send(0, [np.arange(4.0)], (), lambda: None)  # with no call at all
    assert stream.take(0, channel.waker(), more=True) is not None
    assert len(sent) == 1


def test_the_end_of_a_step_goes_with_what_comes_next_or_soon(channel: Channel) -> None:
    channel.asker.post(frames.pack(Kind.FINISH, 7), is_held=True)
    assert channel.asker.holds_back
    assert channel.call(b"") == []
    assert channel.task.finished == [7]
    assert not channel.asker.holds_back
    channel.asker.post(frames.pack(Kind.FINISH, 8), is_held=True)
    channel.task.until(lambda: channel.task.finished == [7, 8])  # the reactor's janitor sent it
    channel.asker.post(frames.pack(Kind.FINISH, 9), is_held=True)
    channel.asker.post(frames.pack(Kind.FINISH, 10))
    channel.task.until(lambda: channel.task.finished == [7, 8, 9, 10])


def test_the_end_of_a_step_does_not_wait_for_the_answer_of_another(channel: Channel) -> None:
    """The reactor reads the channel then, for the answer that nobody waits for."""
    answered = threading.Event()
    channel.asker.call(1, b"meet", [], lambda _: answered.set())
    channel.asker.post(frames.pack(Kind.FINISH, 7), is_held=True)
    channel.task.until(lambda: channel.task.finished == [7])
    assert not answered.is_set()
    channel.task.barrier.wait(WAIT_S)
    assert answered.wait(WAIT_S)


def test_steps_need_no_new_threads(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the step before comes with a call, and two calls are under way at once."""
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
    # A few: one that has just answered may not be free yet when the next call comes.
    assert len(started) < rounds / 4
    channel.task.until(lambda: len(channel.task.finished) == 2 * rounds)


def test_who_asks_for_bundles_and_is_gone_before_is_taken_back(channel: Channel) -> None:
    subscribe = channel.task.subscribe

    def interrupted(step_id: int, key: str, sink: Sink) -> None:
        channel.serving.close()  # another thread has read that it is gone
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


def test_an_asker_that_finds_the_other_end_gone_leaves_nothing_behind(channel: Channel) -> None:
    channel.serving.close()
    deadline = time.monotonic() + WAIT_S
    while channel.asker.is_open and time.monotonic() < deadline:
        channel.asker.post(frames.pack(Kind.FINISH, 8))
    assert not channel.asker.is_open
    while channel.asker in channel.reactor._ends.values():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_call_that_is_held_back_goes_with_what_is_asked_for(channel: Channel) -> None:
    """Whoever runs it finds the bundles asked for: no other thread is needed there."""
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


class TestSharedMemory:
    """What travels as places instead of bytes."""

    @pytest.fixture
    def shared(self) -> Iterator[Channel]:
        if not SharedArena.available():
            pytest.skip("no shared memory here")
        made = Channel("shm")
        yield made
        made.close()

    def test_lent_arrays_are_read_in_place(self, shared: Channel) -> None:
        arena = shared.arenas[0]
        assert arena is not None
        variable = arena.allocate((1000,), np.float32)
        variable[:] = 1
        [stream] = shared.asker.ask(1, ["a"], loops=True)
        sink = shared.task.sink("a")
        sink.send(0, [variable, np.ones(2)], [0], lambda: None)
        bundle = stream.take(0, shared.waker(), more=True)
        assert bundle is not None
        variable[7] = 5
        assert bundle[0][7] == 5
        assert not bundle[0].flags.writeable
        assert shared.asker.transport == "shm"
        sink.send(1, [variable, np.ones(2)], [], lambda: None)  # a snapshot
        bundle = stream.take(1, shared.waker(), more=True)
        assert bundle is not None
        variable[7] = 6
        assert bundle[0][7] == 5

    def test_large_bodies_take_slots_that_come_back(self, shared: Channel) -> None:
        [stream] = shared.asker.ask(1, ["a"], loops=True)
        sink = shared.task.sink("a")
        value = np.arange(memory.LEAST_BYTES, dtype=np.float32)
        for turn in range(2000):  # many times what there are slots
            sink.send(turn, [value], (), lambda: None)
            bundle = stream.take(turn, shared.waker(), more=True)
            assert bundle is not None
            assert bundle[0][-1] == value[-1]
        ring = shared.serving.memory._ring
        assert ring is not None
        del bundle
        assert ring.held_bytes == 0

    def test_a_reader_that_keeps_everything_is_served_through_the_socket(
        self, shared: Channel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(memory, "RING_BYTES", 1 << 20)
        [stream] = shared.asker.ask(1, ["a"], loops=True)
        sink = shared.task.sink("a")
        kept = []
        for turn in range(12):
            value = np.full(50_000, turn, np.float32)
            sink.send(turn, [value], (), lambda: None)
            kept.append(stream.take(turn, shared.waker(), more=True))
        for turn, bundle in enumerate(kept):
            assert bundle is not None
            assert (bundle[0] == turn).all()

    def test_memory_that_was_never_shared_is_refused(self, shared: Channel) -> None:
        [stream] = shared.asker.ask(1, ["a"], loops=True)
        shared.task.sink("a")
        text = memory._SLOT.pack(0, 1, 0)
        layout = shared.asker._describer.describe([np.ones(2)]).layout
        head = frames.pack(
            Kind.BUNDLE, stream._number, 0, flags=2, text=text, layout=layout, tensors=1
        )
        shared.serving.post(head)
        with pytest.raises(OpError, match="never shared"):
            stream.take(0, shared.waker(), more=True)


def test_a_reactor_without_channels_has_no_threads() -> None:
    before = set(threading.enumerate())
    made = Channel("unix")
    assert made.call(b"", np.ones(1))[0] == 2
    made.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT_S)
    assert made.reactor._watch is None
    with contextlib.suppress(UnavailableError):
        made.asker.ask(1, ["a"], loops=False)
