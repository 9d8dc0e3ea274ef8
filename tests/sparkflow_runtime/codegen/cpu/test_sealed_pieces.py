"""The checksums of what machine code sends and receives are those of google-crc32c."""

import select
import socket
import threading
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from sparkflow_runtime.codegen.cpu import sealed_pieces
from sparkflow_runtime.codegen.cpu.sealed_pieces import SUM_BYTES, Receiving, Sending
from sparkflow_runtime.events.crc32c import crc32c

pytestmark = pytest.mark.skipif(
    not sealed_pieces.available(), reason="this machine has no such instruction"
)

Pair = tuple[socket.socket, socket.socket]
SIZES = [1, 7, 8, 9, 63, 255, 256, 257, 511, 512, 513, 520, 8191, 8192, 8193, 30_000, 123_457]


@pytest.fixture
def pair() -> Iterator[Pair]:
    mine, theirs = socket.socketpair()
    for each in (mine, theirs):
        each.setblocking(False)
    with mine, theirs:
        yield mine, theirs


class Outgoing:
    """Pieces being written to a socket."""

    def __init__(
        self, link: socket.socket, pieces: list[np.ndarray], room: int, lead: bytes
    ) -> None:
        self.pieces = pieces
        self.sizes = np.array([each.nbytes for each in pieces], np.int64)
        self.copies = np.zeros(room + SUM_BYTES + 8, np.uint8)
        self.copies[: len(lead)] = np.frombuffer(lead, np.uint8)
        self.copies[room + SUM_BYTES :] = 0xEE  # nothing may be written here
        self.record = np.array(
            [link.fileno(), len(pieces), room, 0, 0, len(lead), 0, 0x1234, 0], np.int64
        )

    def go_on(self) -> bool:
        """Continues to send; returns whether everything is sent."""
        assert sealed_pieces.sender(len(self.pieces))(
            self.sizes, self.copies, self.record, *self.pieces
        )
        assert (self.copies[-8:] == 0xEE).all()
        return bool(self.record[Sending.IS_WHOLE]) and not self.record[Sending.FILLED]


def taken(link: socket.socket) -> bytes:
    found = b""
    while True:
        try:
            found += link.recv(1 << 20)
        except BlockingIOError:
            return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("room", [64, 5000, 1 << 17])
@pytest.mark.parametrize("lead", [b"", b"lead"])
def test_sent(pair: Pair, size: int, room: int, lead: bytes) -> None:
    data = np.random.RandomState(size).randint(0, 256, size, np.uint8)
    cuts = sorted({0, size // 3, size // 2, size - 1, size})
    pieces = [data[a:b].copy() for a, b in pairwise(cuts)]
    outgoing = Outgoing(pair[0], pieces, room, lead)
    found = b""
    while not outgoing.go_on():
        found += taken(pair[1])
    found += taken(pair[1])
    wanted = crc32c(data, 0x1234).to_bytes(SUM_BYTES, "little")
    assert found == lead + data.tobytes() + wanted


def test_an_empty_piece_is_nothing(pair: Pair) -> None:
    pieces = [np.zeros(0, np.uint8), np.arange(5, dtype=np.uint8), np.zeros(0, np.uint8)]
    assert Outgoing(pair[0], pieces, 100, b"").go_on()
    assert taken(pair[1])[:-SUM_BYTES] == bytes(range(5))


def test_a_closed_socket_ends_it(pair: Pair) -> None:
    pair[1].close()
    assert not Outgoing(pair[0], [np.zeros(100, np.uint8)], 50, b"").go_on()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chunk", [1, 1000, 1 << 20])
def test_received(pair: Pair, size: int, chunk: int) -> None:
    chunk = max(chunk, size // 100)
    data = np.random.RandomState(size).randint(0, 256, size, np.uint8)
    target = np.full(size + SUM_BYTES + 8, 0xEE, np.uint8)
    record = np.array([pair[0].fileno(), size, 0, 0x1234, 0], np.int64)
    receive = sealed_pieces.receiver()
    assert receive(target, record)
    assert record[Receiving.STATUS] == -1
    sent = data.tobytes() + b"sum!" + b"what follows"
    pair[1].setblocking(True)

    def send() -> None:
        for start in range(0, len(sent), chunk):
            pair[1].sendall(sent[start : start + chunk])

    sender = threading.Thread(target=send)
    sender.start()
    while record[Receiving.FILLED] < size + SUM_BYTES:
        select.select([pair[0]], [], [])
        assert receive(target, record)
    sender.join()
    assert record[Receiving.SUM] == crc32c(data, 0x1234)
    assert target[: size + SUM_BYTES].tobytes() == sent[: size + SUM_BYTES]
    assert (target[size + SUM_BYTES :] == 0xEE).all()
    assert taken(pair[0]) == b"what follows"


def test_the_other_end_is_gone(pair: Pair) -> None:
    pair[1].close()
    record = np.array([pair[0].fileno(), 100, 0, 0, 7], np.int64)
    assert sealed_pieces.receiver()(np.zeros(104, np.uint8), record)
    assert record[Receiving.STATUS] == 0
    assert record[Receiving.FILLED] == 0
