import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from sparkflow_runtime.device import memory_file
from sparkflow_runtime.device.memory_file import PAGE_BYTES, MemoryFile, Segment
from sparkflow_runtime.device.shared_slots import MAX_SLOTS, SlotReader, SlotRing
from sparkflow_runtime.errors import InvalidArgumentError

pytestmark = pytest.mark.skipif(not memory_file.available(), reason="needs memfd_create: Linux")

SIZE = 16 * PAGE_BYTES


@pytest.fixture
def ring():
    made = SlotRing(SIZE)
    yield made
    made.close()


def passed(segment: Segment) -> Segment:
    """Returns the segment as received by a peer."""
    return Segment(os.dup(segment.fd), segment.size_bytes)


@pytest.fixture
def reader(ring):
    return SlotReader(passed(ring.memory), passed(ring.table))


def view_of(reader, slot):
    return reader.view(slot.number, slot.use, slot.offset, slot.array.size)


def test_the_reader_sees_what_the_sender_wrote_and_cannot_change_it(ring, reader):
    slot = ring.take(1000)
    slot.array[...] = np.arange(1000) % 251
    view = view_of(reader, slot)
    np.testing.assert_array_equal(view, np.arange(1000) % 251)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True


def test_a_slot_is_held_until_the_last_view_is_collected(ring, reader):
    slot = ring.take(1000)
    view = view_of(reader, slot)
    first, second = view[:400].view(np.float32), view[400:].view(np.int8)
    del view
    assert ring.held_bytes == 1024
    del first
    assert ring.held_bytes == 1024
    del second
    assert ring.held_bytes == 0


def test_memory_is_bounded_and_comes_around(ring, reader):
    held = []
    while slot := ring.take(PAGE_BYTES):
        held.append(view_of(reader, slot))
    assert len(held) == 16
    assert ring.take(1) is None
    for turn in range(100):
        held.pop(turn % 16)
        slot = ring.take(PAGE_BYTES)
        slot.array[...] = turn
        held.insert(turn % 16, view_of(reader, slot))
        assert ring.take(1) is None
    assert sorted(int(view[5]) for view in held) == list(range(84, 100))


def test_a_slot_that_is_held_long_does_not_hold_up_others(ring, reader):
    long = view_of(reader, ring.take(1000))
    for _ in range(1000):
        slot = ring.take(SIZE // 2)
        assert slot is not None
        view = view_of(reader, slot)
        del view
    assert long.size == 1000


def test_what_is_too_large_never_fits(ring):
    assert ring.take(SIZE + 1) is None
    assert ring.take(SIZE).array.size == SIZE


def test_there_are_so_many_slots(ring, reader):
    held = [view_of(reader, ring.take(0)) for _ in range(MAX_SLOTS)]
    assert ring.take(0) is None
    held.pop()
    assert ring.take(0) is not None


def test_letting_go_late_does_not_free_a_later_use(ring, reader):
    """A reader that requests a slot twice harms only itself."""
    slot = ring.take(100)
    twice = [view_of(reader, slot), view_of(reader, slot)]
    twice.pop()
    assert ring.held_bytes == 0
    again = ring.take(100)
    assert again.number == slot.number
    twice.pop()
    assert ring.held_bytes == 128


@pytest.mark.parametrize("number", [0, 1, (1 << 64) - 1])
def test_wrong_numbers_in_the_table_do_no_more_than_free(ring, number):
    slots = [ring.take(64) for _ in range(3)]
    ring._table.bytes.view(np.uint64)[...] = number
    assert ring.held_bytes == (0 if number == 1 else 192)
    fresh = ring.take(SIZE // 2)
    assert fresh is not None
    assert all(slot.array.size == 64 for slot in slots)


@pytest.mark.parametrize(
    ("number", "use", "offset", "nbytes"),
    [
        (-1, 1, 0, 1),
        (MAX_SLOTS, 1, 0, 1),
        (0, 0, 0, 1),
        (0, 1 << 64, 0, 1),
        (0, 1, -1, 1),
        (0, 1, SIZE, 1),
        (0, 1, 1, SIZE),
        (0, 1, 0, -1),
        (0, 1, 1 << 64, 1),
        (0, 1, 0, 1 << 64),
    ],
)
def test_slots_that_cannot_be_are_refused(ring, reader, number, use, offset, nbytes):
    with pytest.raises(InvalidArgumentError, match="Slot"):
        reader.view(number, use, offset, nbytes)


def test_the_reader_can_write_nothing_but_the_table(ring):
    writable = memory_file.map_segment(os.dup(ring.table.fd), PAGE_BYTES, writable=True)
    writable[0] = 1
    with pytest.raises(PermissionError):
        memory_file.map_segment(os.dup(ring.memory.fd), SIZE, writable=True)


def test_descriptors_are_closed_where_something_is_wrong(ring):
    before = len(os.listdir("/proc/self/fd"))
    small = MemoryFile(1, readers_write=True)
    with pytest.raises(InvalidArgumentError, match="announced"):
        SlotReader(Segment(os.dup(ring.memory.fd), SIZE + 1), passed(ring.table))
    with pytest.raises(InvalidArgumentError, match="table of slots has 64 bytes, expected 4096"):
        SlotReader(passed(ring.memory), Segment(os.dup(small.segment.fd), 64))
    small.close()
    del small
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_full_machine_means_no_slot(ring, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    assert ring.take(100) is None
    assert ring.held_bytes == 0
    with pytest.raises(OSError, match="full"):
        SlotRing(SIZE)


def test_what_is_held_outlives_both_ends():
    ring = SlotRing(SIZE)
    reader = SlotReader(passed(ring.memory), passed(ring.table))
    slot = ring.take(100)
    slot.array[...] = 6
    view = view_of(reader, slot)
    ring.close()
    ring.close()
    assert ring.take(1) is None
    del ring, slot, reader
    assert (view == 6).all()
    del view


READER = """
import json, sys
from sparkflow_runtime.device.memory_file import Segment
from sparkflow_runtime.device.shared_slots import SlotReader
reader = SlotReader(*[Segment(*each) for each in json.loads(sys.stdin.readline())])
held = []
for line in sys.stdin:
    view = reader.view(*json.loads(line))
    print(json.dumps(int(view.sum(dtype="int64"))), flush=True)
    held.append(view)
    del view
    if len(held) > 3:
        del held[len(held) * 7 % 3]
"""


def test_two_processes():
    ring = SlotRing(SIZE)
    fds = ring.memory.fd, ring.table.fd
    with subprocess.Popen(
        [sys.executable, "-c", READER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=fds,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as peer:
        segments = [(each.fd, each.size_bytes) for each in (ring.memory, ring.table)]
        print(json.dumps(segments), file=peer.stdin, flush=True)
        generator = np.random.default_rng(1)
        for turn in range(500):
            # The reader has released all but three before it answers the next turn.
            slot = ring.take(int(generator.integers(1, SIZE // 8)))
            assert slot is not None, f"no memory left in turn {turn}"
            slot.array[...] = generator.integers(0, 256, slot.array.size)
            told = slot.number, slot.use, slot.offset, slot.array.size
            print(json.dumps(told), file=peer.stdin, flush=True)
            assert json.loads(peer.stdout.readline()) == slot.array.sum(dtype=np.int64)
        peer.stdin.close()
        assert peer.wait(30) == 0
    ring.close()
