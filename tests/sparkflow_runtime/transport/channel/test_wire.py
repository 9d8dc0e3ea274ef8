"""Frames over one socket, whatever pieces they come in."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.errors import CancelledError, InvalidArgumentError, UnavailableError
from sparkflow_runtime.transport.channel import frames, wire as wire_module
from sparkflow_runtime.transport.channel.frames import Header, Kind
from sparkflow_runtime.transport.channel.opening import Opened
from sparkflow_runtime.transport.channel.records import Records
from sparkflow_runtime.transport.channel.wire import Wire

TASK = "/job:ps/replica:0/task:0"
WAIT_S = 20


class Collected:
    """A handler that stores what arrives."""

    def __init__(self) -> None:
        self.frames: list[tuple[Header, bytes, np.ndarray | None]] = []

    def buffer(self, header: Header, size_bytes: int) -> np.ndarray:
        return np.empty(size_bytes, np.uint8)

    def handle(self, header: Header, head: bytes, body: np.ndarray | None) -> None:
        self.frames.append((header, head, body))


@pytest.fixture
def ends() -> Iterator[tuple[Wire, socket.socket]]:
    mine, theirs = socket.socketpair()
    wire = Wire(Opened(mine, TASK, 1))
    yield wire, theirs
    wire.close()
    theirs.close()


def read_until(wire: Wire, collected: Collected, count: int) -> None:
    while len(collected.frames) < count:
        wire.wait(WAIT_S * 1000)
        wire.read(collected.buffer, collected.handle)


def test_a_frame_arrives_in_any_pieces(ends: tuple[Wire, socket.socket]) -> None:
    wire, theirs = ends
    body = np.random.RandomState(1).bytes(100)
    whole = frames.pack(Kind.CALL, 1, 2, text=b"text", layout=b"layout", body_bytes=100) + body
    collected = Collected()
    for size in (1, 7, 39, 40, 41, 60, len(whole)):
        for start in range(0, len(whole), size):
            theirs.sendall(whole[start : start + size])
            wire.wait(WAIT_S * 1000)
            wire.read(collected.buffer, collected.handle)
        header, head, found = collected.frames.pop()
        assert (header.kind, head) == (Kind.CALL, b"textlayout")
        assert found is not None
        assert found.tobytes() == body
        assert collected.frames == []


def test_many_frames_in_one_piece(ends: tuple[Wire, socket.socket]) -> None:
    wire, theirs = ends
    collected = Collected()
    data = b"".join(
        frames.pack(Kind.BUNDLE, number, text=b"x" * number, body_bytes=number) + bytes(number)
        for number in range(300)
    )
    sender = threading.Thread(target=theirs.sendall, args=(data,))
    sender.start()
    read_until(wire, collected, 300)
    sender.join(WAIT_S)
    assert [header.number for header, _, _ in collected.frames] == list(range(300))


@pytest.mark.parametrize("seals", [None, (1, 2)])
@pytest.mark.parametrize("size", [0, 100, 100_000])
@pytest.mark.parametrize("many", [False, True])
def test_frames_that_were_held_go_before_the_next(
    seals: tuple[int, int] | None, size: int, many: bool
) -> None:
    mine, theirs = socket.socketpair()
    sending = Wire(Opened(mine, TASK, 1, seals))
    receiving = Wire(Opened(theirs, TASK, 1, seals and seals[::-1]))
    collected = Collected()
    body = np.arange(size, dtype=np.uint8)
    for number, held in enumerate((b"", b"body")):
        sending.hold(frames.pack(Kind.BUNDLE, number, text=b"held", body_bytes=len(held)), held)
    receiving.wait(50)
    receiving.read(collected.buffer, collected.handle)
    assert collected.frames == []
    if many:
        sending.send([frames.pack(Kind.CREDIT, number) for number in (2, 3)])
    else:
        head = frames.pack(Kind.REPLY, 2, body_bytes=size)
        sender = threading.Thread(target=sending.send, args=(head, [body] if size else (), size))
        sender.start()
    count = 4 if many else 3
    read_until(receiving, collected, count)
    assert [header.number for header, _, _ in collected.frames] == list(range(count))
    assert [bytes(b"" if b is None else b) for _, _, b in collected.frames[:2]] == [b"", b"body"]
    if not many:
        sender.join(WAIT_S)
        last = collected.frames[-1][2]
        assert bytes(b"" if last is None else last) == body.tobytes()
    sending.close()
    receiving.close()


def test_a_text_larger_than_what_is_read_ahead(ends: tuple[Wire, socket.socket]) -> None:
    wire, theirs = ends
    collected = Collected()
    data = frames.pack(Kind.CREDIT, 1) + frames.pack(Kind.FAIL, 2, text=b"t" * 60_000)
    sender = threading.Thread(target=theirs.sendall, args=(data,))
    sender.start()
    read_until(wire, collected, 2)
    sender.join(WAIT_S)
    assert collected.frames[1][1] == b"t" * 60_000


def test_bodies_of_thousands_of_pieces_are_sent_whole() -> None:
    mine, theirs = socket.socketpair()
    sending, receiving = Wire(Opened(mine, TASK, 1)), Wire(Opened(theirs, TASK, 1))
    random = np.random.RandomState(2)
    pieces = [random.rand(random.randint(1, 700)).astype(np.float32) for _ in range(3000)]
    size = sum(piece.nbytes for piece in pieces)
    collected = Collected()
    head = frames.pack(Kind.BUNDLE, 1, body_bytes=size)
    sender = threading.Thread(target=sending.send, args=(head, pieces, size))
    sender.start()
    read_until(receiving, collected, 1)
    sender.join(WAIT_S)
    body = collected.frames[0][2]
    assert body is not None
    np.testing.assert_array_equal(body.view(np.float32), np.concatenate(pieces))
    sending.close()
    receiving.close()


def test_a_blocked_sender_can_be_called_off(ends: tuple[Wire, socket.socket]) -> None:
    wire, _ = ends
    told = []
    wire._on_blocked = lambda: told.append(True)

    def check() -> None:
        raise CancelledError(message="enough")

    big = np.zeros(10_000_000, np.uint8)
    head = frames.pack(Kind.BUNDLE, 1, body_bytes=big.nbytes)
    with pytest.raises(CancelledError, match="enough"):
        wire.send(head, [big], big.nbytes, check)
    assert told == [True]
    with pytest.raises(UnavailableError, match="enough"):  # nothing can follow half a frame
        wire.send(frames.pack(Kind.CREDIT, 1))


def test_the_other_end_s_end_is_told(ends: tuple[Wire, socket.socket]) -> None:
    wire, theirs = ends
    theirs.close()
    with pytest.raises(
        UnavailableError, match="channel to Task /job:ps/replica:0/task:0 broke: closed by"
    ):
        read_until(wire, Collected(), 1)
    with pytest.raises(UnavailableError):
        wire.send(frames.pack(Kind.CREDIT, 1))


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n" * 4, bytes(64), b"\xff" * 64])
def test_garbage_closes_the_channel(ends: tuple[Wire, socket.socket], garbage: bytes) -> None:
    wire, theirs = ends
    theirs.sendall(garbage)
    with pytest.raises(InvalidArgumentError):
        read_until(wire, Collected(), 1)
    with pytest.raises(UnavailableError):
        wire.read(Collected().buffer, Collected().handle)


def test_descriptors_travel_along(ends: tuple[Wire, socket.socket]) -> None:
    wire, theirs = ends
    other = Wire(Opened(theirs.dup(), TASK, 1))
    with socket.socket() as passed:
        other.send(frames.pack(Kind.SEGMENT, 1), descriptors=[passed.fileno()])
        collected = Collected()
        read_until(wire, collected, 1)
    descriptor = wire.take_descriptor()
    assert descriptor is not None
    socket.close(descriptor)
    assert wire.take_descriptor() is None
    other.close()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("no room")])
@pytest.mark.parametrize("way", ["send", "read"])
def test_nothing_follows_a_frame_that_something_unforeseen_cut(
    ends: tuple[Wire, socket.socket], error: BaseException, way: str
) -> None:
    """For example with Ctrl-C: the next frame used to be taken for the rest of that one."""
    wire, theirs = ends

    def fail(*_: object) -> None:
        raise error

    big = np.zeros(10_000_000, np.uint8)
    if way == "send":
        wire._on_blocked = fail
        with pytest.raises(type(error)):
            wire.send(frames.pack(Kind.BUNDLE, 1, body_bytes=big.nbytes), [big], big.nbytes)
    else:
        theirs.sendall(frames.pack(Kind.CREDIT, 1) * 2)
        collected = Collected()
        collected.handle = fail  # type: ignore[method-assign]
        with pytest.raises(type(error)):
            read_until(wire, collected, 1)
    with pytest.raises(UnavailableError, match=r"in the midst of a frame: (Keyboard|Memory)"):
        wire.send(frames.pack(Kind.CREDIT, 1))
    with pytest.raises(UnavailableError, match="in the midst of a frame"):
        wire.read(Collected().buffer, Collected().handle)
    receiving = Wire(Opened(theirs.dup(), TASK, 1))
    whole = Collected()
    with pytest.raises(UnavailableError):
        read_until(receiving, whole, 1)
    assert whole.frames == []
    receiving.release()


def test_what_was_given_back_is_not_kept() -> None:
    """Records have 768 KiB of buffers, and their keys."""
    mine, theirs = socket.socketpair()
    wire = Wire(Opened(Records(mine, (b"1" * 32, b"2" * 32), ""), TASK, 1))
    kept = wire_module._SOCKETS[wire.fileno()]
    wire.release()
    assert kept not in wire_module._SOCKETS.values()
    theirs.close()


def test_a_descriptor_is_given_back_by_whichever_thread_comes_last() -> None:
    """A sender that ended between the checks of the two locks used to find one of them held."""
    mine, theirs = socket.socketpair()
    wire = Wire(Opened(mine, TASK, 1))

    class HeldOnce:
        """The lock of a sender that ends right after the lock was requested."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self._asked = False

        def acquire(self, blocking: bool) -> bool:
            if not self._asked:
                self._asked = True
                wire._give_back()  # the sender's call, after it has released the lock
                return False
            return self._lock.acquire(blocking)

        def release(self) -> None:
            self._lock.release()

        def locked(self) -> bool:
            return self._lock.locked()

    wire._writing = HeldOnce()  # type: ignore[assignment]
    wire.release()
    assert mine.fileno() == -1
    theirs.close()


FORKS = """
import os, socket, sys, threading, numpy as np
from sparkflow_runtime.errors import UnavailableError
from sparkflow_runtime.transport.channel import frames
from sparkflow_runtime.transport.channel.frames import Kind
from sparkflow_runtime.transport.channel.reactor import reactor
from sparkflow_runtime.transport.channel.asking import Asker
from sparkflow_runtime.transport.channel.opening import Opened
from sparkflow_runtime.transport.channel.records import Records
from sparkflow_runtime.transport.channel.wire import Wire
if sys.argv[1] == "sealed":
    with socket.create_server(("127.0.0.1", 0)) as door:
        mine = socket.create_connection(door.getsockname())
        theirs, _ = door.accept()
else:
    mine, theirs = socket.socketpair()
theirs.settimeout(20)
kind, keys = sys.argv[1], (b"1" * 32, b"2" * 32)
link = Records(mine, keys, "") if kind == "records" else mine
seals = (1, 2) if kind == "sealed" else None
asker = Asker(Opened(link, "/job:ps/replica:0/task:0", 1, seals), reactor)
held = threading.Thread(target=asker.wire._writing.acquire)  # as by one that sends
held.start()
held.join()
watch = reactor._watch
child = os.fork()
if not child:
    try:
        asker.wire.send(frames.pack(Kind.CREDIT, 1))
    except UnavailableError as error:
        good = "is the parent's" in str(error) and reactor._watch is None and not asker.is_open
    else:
        good = False
    asker.close()
    os._exit(7 if good else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
asker.wire._writing.release()
assert reactor._watch is watch and asker.is_open
asker.wire.send(frames.pack(Kind.CREDIT, 1))
data = theirs.recv(1000)
assert data, "the child ended the channel of its parent"
if kind == "records":
    target = memoryview(bytearray(1000))
    theirs.close()
    one, two = socket.socketpair()
    one.send(data)
    assert Records(two, keys[::-1], "").recv_into(target) == frames.HEADER.size
asker.close()
sys.exit(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kind", ["plain", "sealed", "records"])
def test_a_forked_child_leaves_the_channels_to_its_parent(kind: str) -> None:
    """Both would send records with the same keys and numbers."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}  # for forks of processes with threads
    command = [sys.executable, "-c", FORKS, kind]
    assert subprocess.run(command, timeout=60, check=False, env=environment).returncode == 7


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_is_noticed_that_comes_before_the_wait_has_begun(
    ends: tuple[Wire, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then Python has already noted the signal, and `poll` does not return for it."""
    wire, _ = ends
    poll = select.poll()

    class Late:
        def poll(self, timeout_ms: float | None) -> list[Any]:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                os.kill(os.getpid(), signal.SIGINT)
                assert timeout_ms is not None, "it would wait for ever"
                return poll.poll(timeout_ms)
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    monkeypatch.setattr(wire_module, "_SIGNALS_MS", 1)
    monkeypatch.setitem(wire._polls, -1, Late())
    with pytest.raises(KeyboardInterrupt):
        wire.wait(None)
