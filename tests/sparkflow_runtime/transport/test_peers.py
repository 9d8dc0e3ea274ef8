import gc
import threading
from collections.abc import Iterator
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
from sparkflow_runtime.protos.worker_pb2 import (
    GetStatusRequest,
    GetStatusResponse,
    RecvTensorRequest,
)
from sparkflow_runtime.server import Server
from sparkflow_runtime.transport import codec, rpc
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.peers import WORKER_SERVICE, Peers
from sparkflow_runtime.transport.threads import DaemonThreads
from support.waiting import wait_until

TASK = "/job:w/replica:0/task:1"
WAIT_S = 20


class Sender:
    """A task whose bundles are controlled by the test; waits for unknown ones."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, Any] = {}
        self.changed = threading.Condition()
        self.given_up = 0

    def recv_tensor(self, request: RecvTensorRequest, context: Any) -> bytes:
        def wake() -> None:
            with self.changed:
                self.changed.notify_all()

        context.add_callback(wake)
        with self.changed:
            key = request.rendezvous_key
            self.asked.append(key)
            self.changed.notify_all()
            self.changed.wait_for(
                lambda: key in self.answers or not context.is_active(), timeout=WAIT_S
            )
            if key not in self.answers:
                self.given_up += 1
                self.changed.notify_all()
                raise CancelledError(message="given up")
        answer = self.answers[key]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answer(self, key: str, value: Any) -> None:
        with self.changed:
            self.answers[key] = value
            self.changed.notify_all()

    def wait_asked(self, *keys: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: set(keys) <= set(self.asked), WAIT_S)


@pytest.fixture
def sender() -> Sender:
    return Sender()


@pytest.fixture
def peers(sender: Sender) -> Iterator[Peers]:
    table = {"RecvTensor": rpc.Method(sender.recv_tensor, RecvTensorRequest, wants_context=True)}
    server = rpc.RpcServer(
        [rpc.handlers(WORKER_SERVICE, table)], host="127.0.0.1", port=0, token="t"
    )
    server.start()
    made = Peers({TASK: f"127.0.0.1:{server.port}"}, Self(token="t", transport="grpc"))
    yield made
    made.close()
    server.stop()


def bundle(*values: float) -> bytes:
    return codec.encode([np.float32(value) for value in values])


def test_bundles_of_a_loop_are_asked_for_one_turn_ahead(peers: Peers, sender: Sender) -> None:
    receiver = peers.receiver(7)
    for iteration in range(3):
        sender.answer(f"k;{iteration}", bundle(iteration, 1))
        assert receiver.receive(TASK, "k", iteration, iteration < 2) == (iteration, 1)
    sender.wait_asked("k;0", "k;1", "k;2")
    assert sorted(sender.asked) == ["k;0", "k;1", "k;2"]  # each once, nothing after the last
    receiver.cancel()


def test_the_end_of_the_sender_s_loop_is_none(peers: Peers, sender: Sender) -> None:
    sender.answer("k;0", codec.DEAD)
    assert peers.receiver(1).receive(TASK, "k", 0, False) is None


def test_errors_of_the_sender_arrive_unchanged(peers: Peers, sender: Sender) -> None:
    sender.answer("k;0", InvalidArgumentError(message="bad\n\t [[node 'x']]"))
    sender.answer("k;1", AbortedError(message="over"))
    sender.answer("k;2", b"\x0a\x05abc")
    receiver = peers.receiver(1)
    for iteration, (error, text) in enumerate(
        [(InvalidArgumentError, "'x'"), (AbortedError, "over"), (InvalidArgumentError, "truncated")]
    ):
        with pytest.raises(error, match=text):
            receiver.receive(TASK, "k", iteration, False)


def test_cancelling_ends_the_wait_and_what_was_asked_ahead(peers: Peers, sender: Sender) -> None:
    receiver = peers.receiver(1)
    sender.answer("k;0", bundle(1))
    assert receiver.receive(TASK, "k", 0, True) == (1,)
    threads = DaemonThreads(1, "test-peers")
    waiting = threads.submit(receiver.receive, TASK, "other", 1, True)
    sender.wait_asked("k;1", "other;1")
    receiver.cancel()
    assert isinstance(waiting.exception(WAIT_S), CancelledError)
    with sender.changed:
        assert sender.changed.wait_for(lambda: sender.given_up == 2, WAIT_S)
    assert set(receiver._asked) <= {("k", 1)}
    # Nothing is asked for any more.
    with pytest.raises(CancelledError):
        receiver.receive(TASK, "late", 0, True)
    threads.shutdown()


@pytest.mark.parametrize("seed", range(30))
def test_cancelling_at_any_moment_never_hangs(peers: Peers, sender: Sender, seed: int) -> None:
    receiver = peers.receiver(seed)
    for iteration in range(50):
        sender.answer(f"k;{iteration}", bundle(iteration))
    reached = threading.Semaphore(0)

    def loop() -> None:
        for iteration in range(50):
            reached.release()
            receiver.receive(TASK, "k", iteration, True)
        receiver.receive(TASK, "k", 50, True)  # nobody sends this one

    threads = DaemonThreads(1, "test-peers")
    running = threads.submit(loop)
    for _ in range(seed):
        assert reached.acquire(timeout=WAIT_S)
    receiver.cancel()
    assert isinstance(running.exception(WAIT_S), OpError)
    threads.shutdown()


def test_unknown_and_unreachable_tasks_are_named(peers: Peers) -> None:
    with pytest.raises(NotFoundError, match="Task /job:gone is not in the cluster of /job:w"):
        peers.receiver(1).receive("/job:gone", "k", 0, False)
    lost = Peers({TASK: "127.0.0.1:1"}, Self(token="t", transport="grpc"))
    with pytest.raises(UnavailableError, match=f"Task {TASK} at 127.0.0.1:1 cannot be reached"):
        lost.receiver(1).receive(TASK, "k", 0, False)
    lost.close()


def test_calls_held_for_one_task_do_not_wait_until_another_was_dialled(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dialling takes seconds if a machine is gone: they were sent before."""
    held = Asking()
    peers._askers["/job:other"] = held  # type: ignore[assignment]
    monkeypatch.setattr(peers, "_self", Self(token="t"))
    sent: list[bool] = []

    def dialled(task: str) -> None:
        sent.append(held.flushed)

    monkeypatch.setattr(peers, "_dial", dialled)
    assert peers.channel(TASK) is None
    assert sent == [True]


class Asking:
    """An asker with calls to send."""

    flushed = False
    is_open = True
    error: OpError | None = None

    def flush(self) -> None:
        self.flushed = True

    def close(self, error: OpError | None = None) -> None:
        self.is_open, self.error = False, error


def test_nothing_goes_on_to_where_a_task_was(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    other, stays = "/job:w/replica:0/task:2", "/job:w/replica:0/task:3"
    peers.learn({other: "127.0.0.1:1", stays: "127.0.0.1:3"})
    channels = {other: Asking(), stays: Asking()}
    monkeypatch.setattr(peers, "_askers", dict(channels))
    monkeypatch.setattr(peers, "_without", {other: float("inf")})
    before = peers.stub(other)
    peers.learn({other: "127.0.0.1:2", stays: "127.0.0.1:3"})
    assert peers.open_channel(stays) is channels[stays]
    assert peers.open_channel(other) is None
    assert other not in peers._without
    with pytest.raises(
        UnavailableError, match=r"was at 127\.0\.0\.1:1 and is at 127\.0\.0\.1:2 now"
    ):
        raise channels[other].error or AssertionError("it was not closed")
    assert peers.stub(other) is not before


def test_a_channel_that_was_being_opened_when_its_task_moved_is_not_used(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "/job:w/replica:0/task:2"
    peers.learn({other: "127.0.0.1:1"})
    made: list[Asking] = []

    def make(*_: Any) -> Asking:
        made.append(Asking())
        if len(made) == 1:
            peers.learn({other: "127.0.0.1:2"})
        return made[-1]

    monkeypatch.setattr("sparkflow_runtime.transport.peers.dial", lambda *_, **__: None)
    monkeypatch.setattr("sparkflow_runtime.transport.peers.Asker", make)
    monkeypatch.setattr(peers, "_locate", lambda task: (None, 0))
    assert peers._dial(other) is made[1]  # type: ignore[comparison-overlap]
    assert [each.is_open for each in made] == [False, True]


def test_closing_ends_waits_and_opens_nothing_new(peers: Peers, sender: Sender) -> None:
    threads = DaemonThreads(1, "test-peers")
    waiting = threads.submit(peers.receiver(1).receive, TASK, "k", 0, False)
    sender.wait_asked("k;0")
    peers.close()
    peers.close()
    assert isinstance(waiting.exception(WAIT_S), CancelledError)
    with pytest.raises(CancelledError, match="were closed"):
        peers.receiver(2).receive(TASK, "k", 0, False)
    threads.shutdown()


def test_who_was_given_up_is_waited_for_no_more(
    peers: Peers, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, asker = DaemonThreads(1, "test-peers"), Asking()
    waiting = threads.submit(peers.receiver(1).receive, TASK, "k", 0, False)
    sender.wait_asked("k;0")
    monkeypatch.setattr(peers, "_askers", {TASK: asker})
    peers.lose(TASK)
    assert isinstance(waiting.exception(WAIT_S), CancelledError)
    assert not asker.is_open
    monkeypatch.setattr(peers, "_self", Self(token="t"))  # which would have a channel
    for ask in (peers.stub, peers.channel):
        with pytest.raises(UnavailableError, match="was given up"):
            ask(TASK)
    threads.shutdown()


def test_a_channel_that_was_being_opened_when_its_task_was_given_up_is_not_used(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Asking()

    def make(*_: Any) -> Asking:
        peers.lose(TASK)
        return made

    monkeypatch.setattr("sparkflow_runtime.transport.peers.dial", lambda *_, **__: None)
    monkeypatch.setattr("sparkflow_runtime.transport.peers.Asker", make)
    monkeypatch.setattr(peers, "_locate", lambda task: (None, 0))
    with pytest.raises(UnavailableError, match="was given up"):
        peers._dial(TASK)
    assert not made.is_open


@pytest.mark.parametrize("transport", ["tcp", "auto"])
def test_a_task_that_is_started_again_where_it_was_is_asked_at_once(transport: str) -> None:
    """Nothing was expected from the previous one when it ended, so nobody waited for its end."""
    first = Server(None, "w", 1, host="127.0.0.1", token="t")
    first.start()
    peers = Peers({TASK: first.address}, Self(token="t", transport=transport))
    before = peers.channel(TASK)
    assert before is not None
    first.stop()
    second = Server(None, "w", 1, host="127.0.0.1", port=first.port, token="t")
    second.start()
    try:
        wait_until(lambda: not before.is_open, WAIT_S)
        asked = peers.channel(TASK)
        assert asked is not None
        assert asked is not before
        asked.ask(1, ["a"], loops=False)
    finally:
        peers.close()
        second.stop()


@pytest.mark.parametrize("transport", ["tcp", "auto", "grpc"])
def test_a_task_that_was_not_there_is_asked_as_soon_as_it_is(transport: str) -> None:
    """gRPC keeps returning earlier errors for a while without trying again."""
    place = Server(None, "w", 1, host="127.0.0.1", token="t")
    place.start()
    place.stop()
    peers = Peers({TASK: place.address}, Self(token="t", transport=transport))

    def ask() -> Any:
        return peers.stub(TASK).call(
            "GetStatus", GetStatusRequest(), GetStatusResponse.FromString, WAIT_S
        )

    for _ in range(3):
        with pytest.raises(UnavailableError, match="cannot be reached"):
            ask() if transport == "grpc" else peers.channel(TASK)
    server = Server(None, "w", 1, host="127.0.0.1", port=place.port, token="t")
    server.start()
    try:
        assert ask().incarnation
        stub = peers.stub(TASK)
        if transport != "grpc":
            assert peers.channel(TASK) is not None
        assert peers.stub(TASK) is stub  # a reached one is kept
    finally:
        peers.close()
        server.stop()


def test_what_is_asked_over_the_connection_before_goes_on(peers: Peers, sender: Sender) -> None:
    threads = DaemonThreads(1, "test-peers")
    waiting = threads.submit(peers.receiver(1).receive, TASK, "k", 0, False)
    sender.wait_asked("k;0")
    before = peers.stub(TASK)
    before.found_nobody = True
    del before
    sender.answer("j;0", bundle(2))
    assert peers.receiver(2).receive(TASK, "j", 0, False) == (2,)
    gc.collect()
    sender.answer("k;0", bundle(1))
    assert waiting.result(WAIT_S) == (1,)
    waiting = threads.submit(peers.receiver(3).receive, TASK, "l", 0, False)
    sender.wait_asked("l;0")
    peers.stub(TASK).found_nobody = True
    assert peers.stub(TASK) is not None
    peers.close()  # which ends the requests over both
    assert isinstance(waiting.exception(WAIT_S), CancelledError)
    threads.shutdown()
