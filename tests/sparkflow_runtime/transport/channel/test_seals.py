"""A channel over TCP uses nothing but what was sent, whatever happens to its bytes in transit."""

import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from sparkflow_runtime.codegen.cpu import sealed_pieces
from sparkflow_runtime.errors import DataLossError, UnavailableError
from sparkflow_runtime.transport.channel import frames, wire
from sparkflow_runtime.transport.channel.frames import Header, Kind
from sparkflow_runtime.transport.channel.opening import Opened
from sparkflow_runtime.transport.channel.seals import SEALED_HEADER_BYTES, Seals
from sparkflow_runtime.transport.channel.wire import Wire

TASK = "/job:ps/replica:0/task:0"
NUMBER = 0x1234ABCD
WAIT_S = 20
Frame = tuple[tuple[int, ...], bytes, bytes]
Fault = Callable[[random.Random, list[bytes]], list[bytes]]


@pytest.fixture(params=["machine code", "python"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(sealed_pieces, "available", lambda: False)
    elif not sealed_pieces.available():
        pytest.skip("this machine has no such instruction")


@contextmanager
def tcp_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        mine = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    mine.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with mine, theirs:
        yield mine, theirs


class Collected:
    """A handler that stores what arrives."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def buffer(self, header: Header, size_bytes: int) -> np.ndarray:
        return np.full(size_bytes, 0xEE, np.uint8)

    def handle(self, header: Header, head: bytes, body: np.ndarray | None) -> None:
        self.frames.append((tuple(header), head, b"" if body is None else body.tobytes()))


def message(number: int, body: np.ndarray) -> tuple[bytes, list[np.ndarray], int]:
    text, layout = b"text" * (number % 3), b"layout" * (number % 5)
    head = frames.pack(
        Kind.BUNDLE, number, number + 7, text=text, layout=layout, body_bytes=body.nbytes
    )
    return head, [body] if body.nbytes else [], body.nbytes


SIZES = (0, 31, 5000, 70, 20_000, 155)


def conversation(number: int = NUMBER) -> tuple[list[bytes], list[Frame]]:
    """Returns the bytes of each frame sent by one end, and the frames that the other should see."""
    random_state = np.random.RandomState(3)
    pieces = []
    with tcp_pair() as (mine, theirs):
        sending = Wire(Opened(mine, TASK, 1, (number, 5)))
        theirs.settimeout(WAIT_S)

        def take(size: int) -> None:
            pieces.append(theirs.recv(size, socket.MSG_WAITALL))

        for index, size in enumerate(SIZES):
            head, buffers, size_bytes = message(index, random_state.randint(0, 255, size, np.uint8))
            sending.send(head, buffers, size_bytes)
            take(4 + len(head) + size_bytes + (4 if len(head) + size_bytes > 40 else 0))
        sending.send([frames.pack(Kind.CREDIT, each, each) for each in range(3)])
        for _ in range(3):
            take(SEALED_HEADER_BYTES)
        sending.release()
    seen, error = received(pieces, number)
    assert error is None
    assert len(seen) == len(SIZES) + 3
    return pieces, seen


def received(pieces: list[bytes], number: int = NUMBER) -> tuple[list[Frame], DataLossError | None]:
    """Returns the frames and the final error that an end gets from bytes."""
    with tcp_pair() as (mine, theirs):
        end = Wire(Opened(theirs, TASK, 1, (5, number)))
        collected = Collected()
        mine.sendall(b"".join(pieces))
        mine.shutdown(socket.SHUT_WR)
        error: DataLossError | None = None
        try:
            while end.closed is None:
                end.wait(WAIT_S * 1000)
                end.read(collected.buffer, collected.handle)
        except DataLossError as damage:
            error = damage
        except UnavailableError as closed:
            gone = closed
        end.release()
    assert isinstance(end.closed, UnavailableError)
    assert error is not None or "closed by the other end" in str(gone)
    return collected.frames, error


def flipped(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    data = bytearray(b"".join(pieces))
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return [bytes(data)]


def flipped_in_a_header(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    found = list(pieces)
    index = rng.randrange(len(pieces))
    data = bytearray(pieces[index])
    data[rng.randrange(SEALED_HEADER_BYTES)] ^= 1 << rng.randrange(8)
    found[index] = bytes(data)
    return found


def garbled(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    data = bytearray(b"".join(pieces))
    start = rng.randrange(len(data))
    for place in range(start, min(start + rng.randrange(1, 80), len(data))):
        data[place] ^= rng.randrange(1, 256)
    return [bytes(data)]


def cut(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    data = b"".join(pieces)
    start = rng.randrange(len(data) - 1)
    return [data[:start], data[rng.randrange(start + 1, len(data)) :]]


def repeated(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    data = b"".join(pieces)
    start = rng.randrange(len(data) - SEALED_HEADER_BYTES)
    end = rng.randrange(start + SEALED_HEADER_BYTES, len(data))
    return [data[:end], data[start:]]


def replayed(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    index = rng.randrange(len(pieces))
    place = rng.randrange(index + 1, len(pieces) + 1)
    return [*pieces[:place], pieces[index], *pieces[place:]]


def dropped(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    index = rng.randrange(len(pieces) - 1)
    return pieces[:index] + pieces[index + 1 :]


def swapped(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    first, second = rng.sample(range(len(pieces)), 2)
    found = list(pieces)
    found[first], found[second] = found[second], found[first]
    return found


def inserted(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    data = b"".join(pieces)
    start = rng.randrange(len(data))
    return [data[:start], rng.randbytes(rng.randrange(1, 100)), data[start:]]


FAULTS: list[Fault] = [
    flipped,
    flipped_in_a_header,
    garbled,
    cut,
    repeated,
    replayed,
    dropped,
    swapped,
    inserted,
]


@pytest.fixture(scope="module")
def said() -> tuple[list[bytes], list[Frame]]:
    return conversation()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.usefixtures("_way")
def test_nothing_but_what_was_sent_is_used(
    said: tuple[list[bytes], list[Frame]], fault: Fault
) -> None:
    _damage(said, fault, 12)


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.usefixtures("_way")
def test_2000_times_nothing_but_what_was_sent_is_used(
    said: tuple[list[bytes], list[Frame]], fault: Fault
) -> None:
    _damage(said, fault, 230)


def _damage(said: tuple[list[bytes], list[Frame]], fault: Fault, times: int) -> None:
    pieces, whole = said
    rng = random.Random(11)
    told = 0
    for _ in range(times):
        damaged = fault(rng, pieces)
        if b"".join(damaged) == b"".join(pieces):
            continue
        seen, error = received(damaged)
        assert seen == whole[: len(seen)]
        assert error is not None or len(seen) < len(whole)
        told += error is not None
    assert told  # if bytes are missing at the end it waits for them


@pytest.mark.usefixtures("_way")
def test_every_flip_is_told_with_peer_and_frame(said: tuple[list[bytes], list[Frame]]) -> None:
    pieces, whole = said
    for number, piece in enumerate(pieces):
        for place in sorted({*range(0, min(len(piece), 60), 5), len(piece) - 5, len(piece) - 1}):
            damaged = piece[:place] + bytes([piece[place] ^ 0x10]) + piece[place + 1 :]
            seen, error = received([*pieces[:number], damaged, *pieces[number + 1 :]])
            assert error is not None, (number, place)
            assert seen == whole[:number]
            assert f"Task {TASK}: frame {number} of this channel is not what was" in str(error)


def test_frames_of_another_channel_are_told(said: tuple[list[bytes], list[Frame]]) -> None:
    pieces, whole = said
    others, _ = conversation(NUMBER + 1)
    for place in range(len(pieces)):
        seen, error = received([*pieces[:place], others[place], *pieces[place + 1 :]])
        assert error is not None
        assert seen == whole[:place]


def test_a_frame_that_goes_back_to_its_sender_is_told() -> None:
    with tcp_pair() as (mine, theirs):
        sending = Wire(Opened(mine, TASK, 1, (NUMBER, 77)))
        sending.send(frames.pack(Kind.CREDIT, 1, 2))
        theirs.sendall(theirs.recv(1000))
        sending.wait(WAIT_S * 1000)
        with pytest.raises(DataLossError):
            sending.read(Collected().buffer, Collected().handle)
        sending.release()


def test_a_frame_that_comes_again_has_another_sum_for_certain() -> None:
    head = frames.pack(Kind.CREDIT, 1, 2)
    sealing = Seals(NUMBER)
    assert len({sealing.sealed(head) for _ in range(10_000)}) == 10_000


ROOM = wire._ROOM_BYTES


@pytest.mark.parametrize("size", [ROOM - 4, ROOM, ROOM + 1, 3_000_000])
@pytest.mark.parametrize("parts", [1, 3, 500])
@pytest.mark.usefixtures("_way")
def test_large_bodies(size: int, parts: int) -> None:
    body = np.random.RandomState(5).randint(0, 255, size, np.uint8)
    with tcp_pair() as (mine, theirs):
        sending = Wire(Opened(mine, TASK, 1, (1, 2)))
        receiving = Wire(Opened(theirs, TASK, 1, (2, 1)))
        collected = Collected()

        def read() -> None:
            receiving.wait(100)
            receiving.read(collected.buffer, collected.handle)

        head, _, _ = message(1, body)
        for _ in range(2):
            # Nobody else reads what exceeds the sockets' buffers.
            sending.send(head, np.array_split(body, parts), size, read)
        while len(collected.frames) < 2:
            read()
        assert [each[2] for each in collected.frames] == 2 * [body.tobytes()]
        sending.release()
        receiving.release()


@pytest.mark.usefixtures("_way")
def test_a_head_larger_than_the_copies() -> None:
    body = np.arange(30_000, dtype=np.uint8)
    with tcp_pair() as (mine, theirs):
        sending = Wire(Opened(mine, TASK, 1, (1, 2)))
        receiving = Wire(Opened(theirs, TASK, 1, (2, 1)))
        collected = Collected()

        def read() -> None:
            receiving.wait(100)
            receiving.read(collected.buffer, collected.handle)

        layout = bytes(range(256)) * 1000
        sending.send(
            frames.pack(Kind.CALL, 1, layout=layout, body_bytes=len(body)), [body], len(body), read
        )
        while not collected.frames:
            read()
        assert collected.frames[0][1:] == (layout, body.tobytes())
        sending.release()
        receiving.release()


@pytest.mark.usefixtures("_way")
def test_a_variable_may_change_while_it_is_sent() -> None:
    variable = np.zeros(1_000_000, np.float32)
    stopped = threading.Event()

    def update() -> None:
        while not stopped.is_set():
            np.add(variable, 1, out=variable)

    updating = threading.Thread(target=update)
    with tcp_pair() as (mine, theirs):
        sending = Wire(Opened(mine, TASK, 1, (1, 2)))
        receiving = Wire(Opened(theirs, TASK, 1, (2, 1)))
        collected = Collected()

        def read() -> None:
            receiving.wait(100)
            receiving.read(collected.buffer, collected.handle)

        updating.start()
        try:
            for _ in range(20):
                sending.send(*message(1, variable), read)
            while len(collected.frames) < 20:
                read()
        finally:
            stopped.set()
            updating.join(WAIT_S)
        sending.release()
        receiving.release()


def test_sockets_of_one_machine_have_no_sums() -> None:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        end = Wire(Opened(mine, TASK, 1))
        head = frames.pack(Kind.CREDIT, 1, 2)
        end.send(head)
        assert theirs.recv(1000) == head
        end.release()
