"""Encrypted records: what was sent arrives, and nothing else does."""

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.transport.channel import records
from sparkflow_runtime.transport.channel.records import RECORD_BYTES, Records

pytestmark = pytest.mark.skipif(not records.available(), reason="needs cryptography")

KEYS = (b"1" * 32, b"2" * 32)
PEER = "Task /job:ps/replica:0/task:0"
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    mine, theirs = socket.socketpair()
    for each in (mine, theirs):
        each.setblocking(False)
    with mine, theirs:
        yield mine, theirs


def ends(pair: Pair) -> tuple[Records, Records]:
    return Records(pair[0], KEYS, PEER), Records(pair[1], KEYS[::-1], PEER)


def received(end: Records, most: int = 1 << 20) -> bytes:
    found = b""
    target = memoryview(bytearray(most))
    with suppress(BlockingIOError):
        while count := end.recv_into(target):
            found += target[:count]
    return found


@pytest.mark.parametrize("size", [1, 100, RECORD_BYTES, RECORD_BYTES + 1, 3 * RECORD_BYTES + 7])
@pytest.mark.parametrize("most", [7000, 1 << 20])
def test_both_ways(pair: Pair, size: int, most: int) -> None:
    one, two = ends(pair)
    for sending, receiving in ((one, two), (two, one), (one, two)):
        data = random.Random(size).randbytes(size)
        found, sent = b"", 0
        while sent < size:
            with suppress(BlockingIOError):
                sent += sending.send(data[sent:])
            found += received(receiving, most)
        assert found == data
        assert not receiving.pending()


def test_what_is_left_of_a_record_is_pending(pair: Pair) -> None:
    one, two = ends(pair)
    one.send(b"abc")
    one.send(b"def")
    target = memoryview(bytearray(2))
    for wanted in (b"ab", b"c", b"de", b"f"):
        assert two.recv_into(target) == len(wanted)
        assert target[: len(wanted)] == wanted
        assert two.pending() == (wanted != b"f")


def test_keys_change_on_both_sides(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "RECORDS_PER_KEY", 3)
    one, two = ends(pair)
    keys = set()
    for number in range(10):
        assert one.send(bytes([number])) == 1
        keys.add(one._sealing._key)
        assert received(two) == bytes([number])
    assert len(keys) == 4


def test_equal_data_differ_on_the_way(pair: Pair) -> None:
    one, two = ends(pair)
    seen = set()
    for sending, link in ((one, pair[1]), (one, pair[1]), (two, pair[0])):
        sending.send(b"the same words")
        seen.add(link.recv(1000))
    assert len(seen) == 3
    assert not any(b"same" in each for each in seen)


def sent(count: int) -> list[bytes]:
    """The bytes of records with the numbers from 0 on."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        end = Records(mine, KEYS, PEER)
        found = []
        for number in range(count):
            end.send(bytes([number]) * 50)
            found.append(theirs.recv(1000))
        return found


def flipped(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    data = bytearray(b"".join(pieces))
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return [bytes(data)]


def replayed(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    place = rng.randrange(1, len(pieces) + 1)
    return [*pieces[:place], pieces[rng.randrange(place)], *pieces[place:]]


def dropped(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    place = rng.randrange(len(pieces) - 1)
    return pieces[:place] + pieces[place + 1 :]


def swapped(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    found = list(pieces)
    one, two = rng.sample(range(len(pieces)), 2)
    found[one], found[two] = found[two], found[one]
    return found


def cut(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    data = b"".join(pieces)
    return [data[: rng.randrange(1, len(data))]]


def inserted(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    place = rng.randrange(len(pieces))
    return [*pieces[:place], rng.randbytes(rng.randrange(1, 100)), *pieces[place:]]


Fault = Callable[[random.Random, list[bytes]], list[bytes]]


@pytest.mark.parametrize("fault", [flipped, replayed, dropped, swapped, cut, inserted])
def test_nothing_else_is_opened(fault: Fault) -> None:
    rng = random.Random(7)
    pieces = sent(5)
    whole = b"".join(bytes([number]) * 50 for number in range(5))
    errors = []
    for _ in range(60):
        mine, theirs = socket.socketpair()
        with mine, theirs:
            mine.sendall(b"".join(fault(rng, pieces)))
            mine.shutdown(socket.SHUT_WR)
            end = Records(theirs, KEYS[::-1], PEER)
            found = b""
            target = memoryview(bytearray(1000))
            try:
                while count := end.recv_into(target):
                    found += target[:count]
            except DataLossError as error:
                errors.append(str(error))
            except ConnectionResetError as error:  # like that of a killed peer
                assert fault is cut
                errors.append(f"{PEER}: encrypted record: {error}")
        assert whole.startswith(found)
        assert found != whole or fault in (replayed, inserted)
    assert len(errors) > 40
    assert all(each.startswith(f"{PEER}: encrypted record") for each in errors)


@pytest.mark.parametrize("keys", [KEYS, (b"3" * 32, KEYS[1])])
def test_records_of_another_direction_or_channel_are_not_opened(
    pair: Pair, keys: tuple[bytes, bytes]
) -> None:
    Records(pair[0], keys, PEER).send(b"words")
    with pytest.raises(DataLossError):
        Records(pair[1], (KEYS[0], KEYS[1]), PEER).recv_into(memoryview(bytearray(10)))


def test_no_memory_is_taken_for_a_length_that_cannot_be(pair: Pair) -> None:
    pair[0].send(b"\xff\xff\xff\x7f" + bytes(100))
    end = Records(pair[1], KEYS, PEER)
    with pytest.raises(DataLossError, match="would have 2147483647 bytes"):
        end.recv_into(memoryview(bytearray(10)))
    assert end.pending()
