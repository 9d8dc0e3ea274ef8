"""A channel over TCP uses nothing but what was sent, whatever becomes of its bytes on the way."""

import random
import socket
import threading
from collections.abc import Callable

import numpy as np
import pytest

from sparkflow_runtime.transport.channel import frames
from sparkflow_runtime.transport.channel.frames import Header, Kind
from sparkflow_runtime.transport.channel.handshake import Opened, Peer
from sparkflow_runtime.transport.channel.seals import CHUNK_BYTES, SEAL_BYTES, SUM_BYTES, SealBroken
from sparkflow_runtime.transport.channel.wire import ChannelClosed, Wire

PEER = Peer("/job:ps/replica:0/task:0", 1, "tcp", encrypted=False)
NUMBER = 0x1234ABCD
WAIT_S = 20
Frame = tuple[tuple[int, ...], bytes, bytes]


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        mine = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    mine.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return mine, theirs


class Collected:
    """A handler that keeps what arrives."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def buffer(self, header: Header, head: bytes) -> np.ndarray:
        return np.full(header.body_bytes, 0xEE, np.uint8)

    def handle(self, header: Header, head: bytes, body: np.ndarray | None) -> None:
        self.frames.append((tuple(header), head, b"" if body is None else body.tobytes()))


def message(number: int, body: np.ndarray) -> tuple[bytes, list[np.ndarray], int]:
    text, layout = b"text" * (number % 3), b"layout" * (number % 5)
    head = frames.pack(
        Kind.BUNDLE, number, number + 7, text=text, layout=layout, body_bytes=body.nbytes
    )
    return head, [body] if body.nbytes else [], body.nbytes


def conversation(number: int = NUMBER) -> tuple[list[bytes], list[Frame]]:
    """The bytes of each piece that an end sends, and the frames that the other is to see."""
    random_state = np.random.RandomState(3)
    mine, theirs = tcp_pair()
    pieces = []
    with mine, theirs:
        sending = Wire(Opened(mine, PEER, number))
        theirs.settimeout(WAIT_S)
        for index in range(6):
            body = random_state.randint(0, 255, index * 31, np.uint8)
            head, buffers, size = message(index, body)
            sending.send(head, buffers, size)
            expected = SEAL_BYTES + len(head) + size + (SUM_BYTES if size else 0)
            pieces.append(theirs.recv(expected, socket.MSG_WAITALL))
        batch = b"".join(frames.pack(Kind.CREDIT, each, each) for each in range(3))
        sending.send(batch)
        pieces.append(theirs.recv(SEAL_BYTES + len(batch), socket.MSG_WAITALL))
        sending.release()
    seen, error = received(pieces, number)
    assert error is None
    assert len(seen) == 9
    return pieces, seen


def received(pieces: list[bytes], number: int = NUMBER) -> tuple[list[Frame], SealBroken | None]:
    """What an end makes of bytes, and what it ends with."""
    mine, theirs = tcp_pair()
    with mine, theirs:
        wire = Wire(Opened(theirs, PEER, number))
        collected = Collected()
        mine.sendall(b"".join(pieces))
        mine.shutdown(socket.SHUT_WR)
        try:
            while wire.closed is None:
                wire.wait(WAIT_S * 1000)
                wire.read(collected)
        except SealBroken as error:
            return collected.frames, error
        except ChannelClosed as error:
            gone = error
        finally:
            wire.release()
        assert "closed by the other end" in str(gone)
        return collected.frames, None


def flipped(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    data = bytearray(b"".join(pieces))
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return [bytes(data)]


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
    start = rng.randrange(len(data) - SEAL_BYTES)  # fewer bytes are the begin of something, so far
    end = rng.randrange(start + SEAL_BYTES, len(data))
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


FAULTS: list[Callable[[random.Random, list[bytes]], list[bytes]]] = [
    flipped,
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
def test_nothing_else_is_used(
    said: tuple[list[bytes], list[Frame]],
    fault: Callable[[random.Random, list[bytes]], list[bytes]],
) -> None:
    pieces, whole = said
    rng = random.Random(11)
    broken = 0
    for _ in range(150):
        damaged = fault(rng, pieces)
        if b"".join(damaged) == b"".join(pieces):
            continue
        seen, error = received(damaged)
        assert seen == whole[: len(seen)]
        assert error is not None or len(seen) < len(whole)
        broken += error is not None
    assert broken > 75  # where bytes are missing at the end it waits for them


def test_every_single_flip_is_told(said: tuple[list[bytes], list[Frame]]) -> None:
    pieces, whole = said
    data = b"".join(pieces)
    for place in range(0, len(data), 3):
        damaged = data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]
        seen, error = received([damaged])
        assert error is not None, place
        assert seen == whole[: len(seen)]
        assert "Task /job:ps/replica:0/task:0 is not what was sent" in str(error)


def test_pieces_of_another_channel_are_told(said: tuple[list[bytes], list[Frame]]) -> None:
    pieces, whole = said
    others, _ = conversation(NUMBER + 1)
    for place in range(len(pieces)):
        seen, error = received([*pieces[:place], others[place], *pieces[place + 1 :]])
        assert error is not None
        assert seen == whole[: len(seen)]


@pytest.mark.parametrize("size", [CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3_000_000])
@pytest.mark.parametrize("parts", [1, 3, 500])
def test_large_tensors_are_held_to_their_seal(size: int, parts: int) -> None:
    mine, theirs = tcp_pair()
    body = np.random.RandomState(5).randint(0, 255, size, np.uint8)
    with mine, theirs:
        sending, receiving = (Wire(Opened(end, PEER, NUMBER)) for end in (mine, theirs))
        collected = Collected()

        def read() -> None:
            receiving.wait(100)
            receiving.read(collected)

        head, _, _ = message(1, body)
        for _ in range(2):
            # Nobody else reads what the sockets do not hold.
            sending.send(head, np.array_split(body, parts), size, read)
        while len(collected.frames) < 2:
            read()
        assert [each[2] for each in collected.frames] == 2 * [body.tobytes()]
        sending.release()
        receiving.release()


def test_a_variable_may_change_while_it_is_sent() -> None:
    mine, theirs = tcp_pair()
    variable = np.zeros(1_000_000, np.float32)
    stopped = threading.Event()

    def update() -> None:
        while not stopped.is_set():
            np.add(variable, 1, out=variable)

    updating = threading.Thread(target=update)
    with mine, theirs:
        sending, receiving = (Wire(Opened(end, PEER, NUMBER)) for end in (mine, theirs))
        collected = Collected()

        def read() -> None:
            receiving.wait(100)
            receiving.read(collected)

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


def test_sockets_of_one_machine_have_no_seals() -> None:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        wire = Wire(Opened(mine, Peer(PEER.task, 1, "unix", encrypted=False), NUMBER))
        head = frames.pack(Kind.CREDIT, 1, 2)
        wire.send(head)
        assert theirs.recv(1000) == head
        wire.release()
