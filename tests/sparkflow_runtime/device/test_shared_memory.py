import errno
import gc
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from sparkflow_runtime.device import memory_file, shared_memory
from sparkflow_runtime.device.host_memory import ALIGNMENT_BYTES
from sparkflow_runtime.device.shared_memory import (
    FIRST_SEGMENT_BYTES,
    HUGE_BYTES,
    LEFT_S,
    MappedSegments,
    Place,
    SharedArena,
)
from sparkflow_runtime.errors import InvalidArgumentError, ResourceExhaustedError
from sparkflow_runtime.testing.leaks import assert_nothing_left
from support.clocks import give_time

needs_memory_files = pytest.mark.skipif(
    not SharedArena.available(), reason="needs memfd_create: Linux"
)


@pytest.fixture
def arena():
    made = SharedArena()
    yield made
    made.close()


def mapped(arena: SharedArena) -> MappedSegments:
    """All segments of an arena as a peer maps them."""
    peer = MappedSegments()
    for number in arena.numbers:
        segment = arena.segment(number)
        peer.attach(number, os.dup(segment.fd), segment.size_bytes)
    return peer


def count_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


@needs_memory_files
class TestAllocate:
    @pytest.mark.parametrize(
        "dtype", [np.float32, np.int64, np.bool_, np.complex128, ml_dtypes.bfloat16, "i1,i2"]
    )
    def test_arrays_are_aligned_and_a_peer_sees_them(self, arena, dtype):
        array = arena.allocate((3, 5), dtype)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert (array.shape, array.dtype) == ((3, 5), np.dtype(dtype))
        assert array.ctypes.data % ALIGNMENT_BYTES == 0
        array.view(np.uint8)[...] = np.arange(array.nbytes).reshape(3, -1) % 2
        place = arena.locate(array)
        assert place is not None
        view = mapped(arena).view(place, dtype, (3, 5))
        assert view.tobytes() == array.tobytes()
        assert view.dtype == array.dtype
        assert not view.flags.writeable

    def test_arrays_do_not_overlap(self, arena):
        arrays = [arena.allocate((1 + number * 7,), np.int64) for number in range(200)]
        for number, array in enumerate(arrays):
            array[...] = number
        for number, array in enumerate(arrays):
            assert (array == number).all()

    @pytest.mark.parametrize("shape", [(0,), (3, 0)])
    def test_empty_arrays_need_no_segment(self, arena, shape):
        assert arena.allocate(shape, np.float32).shape == shape
        assert arena.numbers == ()

    def test_python_objects_are_not_shared(self, arena):
        array = arena.allocate((1000,), object)
        assert array.dtype == object
        assert arena.locate(array) is None

    def test_segments_are_few_however_much_is_allocated(self, arena, monkeypatch):
        monkeypatch.setattr(shared_memory, "FIRST_SEGMENT_BYTES", 1 << 16)
        monkeypatch.setattr(shared_memory, "HUGE_BYTES", 1 << 21)
        arrays = [arena.allocate((1 << 14,), np.uint8) for _ in range(4000)]
        arrays += [arena.allocate((1 << 21,), np.uint8) for _ in range(40)]
        assert len(arena.numbers) < 40
        assert arena.size_bytes < 2 * sum(array.nbytes for array in arrays)

    def test_a_segment_takes_no_memory_before_it_is_used(self, arena):
        array = arena.allocate((5000,), np.uint8)
        assert os.fstat(arena.segment(0).fd).st_blocks * 512 == 2 * memory_file.PAGE_BYTES
        assert array.size == 5000


@needs_memory_files
class TestGivingBack:
    def test_memory_is_used_again_when_the_array_is_collected(self, arena):
        array = arena.allocate((1000,), np.float32)
        place = arena.locate(array)
        del array
        assert arena.locate(arena.allocate((1000,), np.float32)) == place

    def test_a_view_of_a_view_keeps_the_memory(self, arena):
        array = arena.allocate((100, 10), np.float32)
        array[...] = 5
        view = array.T[3:5].view(np.int32)[:, ::2]
        del array
        other = arena.allocate((100, 10), np.float32)
        other[...] = 0
        assert (view.view(np.float32) == 5).all()

    def test_steps_that_make_and_drop_arrays_do_not_grow_it(self, arena):
        kept = [arena.allocate((100,), np.float32)]
        generator = np.random.default_rng(0)
        for _ in range(3000):
            kept.append(arena.allocate((int(generator.integers(1, 3000)),), np.float32))
            if len(kept) > 20:
                kept.pop(int(generator.integers(0, 20)))
        assert arena.size_bytes <= 2 * FIRST_SEGMENT_BYTES

    def test_huge_arrays_go_back_to_the_system_at_once_even_if_a_peer_has_them(self, arena):
        small = arena.allocate((10,), np.uint8)
        before = count_fds()
        array = arena.allocate((HUGE_BYTES,), np.uint8)
        array[...] = 7
        place = arena.locate(array)
        assert place == Place(1, 0)
        peer = mapped(arena)
        view = peer.view(place, np.uint8, (HUGE_BYTES,))
        fd = os.dup(arena.segment(1).fd)
        del array
        assert os.fstat(fd).st_blocks == 0
        os.close(fd)
        assert arena.numbers == (0,)
        assert not view.any()
        peer.close()
        del view
        assert count_fds() == before
        with pytest.raises(InvalidArgumentError, match=r"no segment 1, there are \[0\]"):
            arena.segment(1)
        again = arena.allocate((HUGE_BYTES,), np.uint8)
        assert arena.locate(again) == Place(2, 0)  # numbers are never reused
        assert arena.locate(small) == Place(0, 0)

    def test_arrays_may_be_collected_while_the_lock_is_held(self, arena):
        """As the garbage collector does it, in the middle of an allocation."""
        arrays = [arena.allocate((1000,), np.uint8) for _ in range(10)]
        last = arena.allocate((1000,), np.uint8)
        with arena._lock:
            arrays.clear()
        del last
        again = arena.allocate((11 * 1024,), np.uint8)
        assert arena.locate(again) == Place(0, 0)

    def test_threads(self, arena):
        failures = []

        def work(number):
            generator = np.random.default_rng(number)
            kept = []
            for _ in range(600):
                array = arena.allocate((int(generator.integers(1, 5000)),), np.int32)
                array[...] = number
                kept.append(array)
                if len(kept) > 10:
                    dropped = kept.pop(int(generator.integers(0, 10)))
                    if not (dropped == number).all():
                        failures.append(number)
                    del dropped

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        assert failures == []
        whole = arena.allocate((FIRST_SEGMENT_BYTES,), np.uint8)  # all of the first is free again
        assert whole is not None
        assert sum(part.free.used_bytes for part in arena._parts.values()) == FIRST_SEGMENT_BYTES


@needs_memory_files
class TestLocate:
    def test_parts_of_an_array_are_found(self, arena):
        arena.allocate((3,), np.int8)
        array = arena.allocate((10, 8), np.float32)
        begin = arena.locate(array)
        assert begin == arena.locate(array.reshape(-1)) == arena.locate(array.view(np.int32))
        assert arena.locate(array[2:]) == Place(begin.segment, begin.offset + 2 * 32)
        assert arena.locate(array[3, 1:5]) == Place(begin.segment, begin.offset + 3 * 32 + 4)
        assert arena.locate(array[:, :1][4]) == Place(begin.segment, begin.offset + 4 * 32)

    def test_arrays_with_gaps_are_not(self, arena):
        array = arena.allocate((10, 8), np.float32)
        assert arena.locate(array[::2]) is None
        assert arena.locate(array[::-1]) is None
        assert arena.locate(array.T) is None

    def test_other_arrays_are_not(self, arena):
        other = SharedArena()
        elsewhere = other.allocate((5,), np.float32)
        assert arena.locate(elsewhere) is None
        assert arena.locate(np.zeros(3)) is None
        assert arena.locate(np.zeros((3, 3))[1:]) is None
        assert arena.locate(np.frombuffer(b"1234", np.uint8)) is None
        assert arena.locate(arena.allocate((5,), np.float32).copy()) is None
        other.close()


@needs_memory_files
class TestMoves:
    def test_moves_are_counted_where_a_peer_sees_them(self, arena):
        arena.note_moved(None)  # before any request: no place is known yet
        moves = arena.moves()
        assert moves.tolist() == [0]
        seen = mapped(arena).view(arena.locate(moves), np.int64, (1,))
        arena.note_moved(None)
        arena.note_moved(None)
        assert seen.tolist() == [2]
        assert arena.moves() is moves

    def test_no_move_of_several_threads_is_lost(self, arena):
        moves = arena.moves()
        with ThreadPoolExecutor(4) as pool:
            for _ in range(400):
                pool.submit(arena.note_moved, None)
        assert moves.tolist() == [400]

    @pytest.mark.parametrize("peers_know", [True, False])
    def test_what_a_value_left_is_given_to_nobody_for_a_while(self, arena, monkeypatch, peers_know):
        """A peer's step may have begun to read there."""
        if peers_know:
            arena.moves()
        clock = [1000.0]
        give_time(monkeypatch, shared_memory, monotonic=lambda: clock[0])
        array = arena.allocate((1000,), np.float32)
        place = arena.locate(array)
        arena.note_moved(array)
        del array
        others = [arena.allocate((1000,), np.float32) for _ in range(20)]
        assert (place in map(arena.locate, others)) is not peers_know
        clock[0] += LEFT_S + 1
        arena.allocate((1,), np.float32)  # an allocation discovers what is free again
        others += [arena.allocate((1000,), np.float32) for _ in range(20)]
        assert place in map(arena.locate, others)

    def test_of_what_values_left_not_too_much_is_kept(self, arena, monkeypatch):
        monkeypatch.setattr(shared_memory, "LEFT_BYTES", 10_000)
        arena.moves()
        places = []
        for _ in range(3):
            array = arena.allocate((1000,), np.float32)
            places.append(arena.locate(array))
            arena.note_moved(array)
        del array
        others = [arena.allocate((1000,), np.float32) for _ in range(20)]
        assert [place in map(arena.locate, others) for place in places] == [True, False, False]


@needs_memory_files
class TestClose:
    def test_arrays_outlive_the_arena(self):
        before = count_fds()
        arena = SharedArena()
        array = arena.allocate((1000,), np.float32)
        array[...] = 3
        peer = mapped(arena)
        view = peer.view(arena.locate(array), np.float32, (1000,))
        arena.close()
        arena.close()
        assert arena.locate(array) is None
        assert (view == 3).all()
        peer.close()
        array += 1
        assert (view == 4).all()
        del array, arena
        assert (view == 4).all()
        del view
        assert count_fds() == before

    def test_afterwards_arrays_are_ordinary_ones(self):
        arena = SharedArena()
        arena.close()
        assert arena.allocate((4000,), np.float32).base is None


class TestWithoutSharedMemory:
    def test_where_there_is_none(self, monkeypatch):
        monkeypatch.setattr(sys, "platform", "darwin")
        arena = SharedArena()
        assert not SharedArena.available()
        array = arena.allocate((5, 2), np.float64)
        assert (array.shape, array.dtype) == ((5, 2), np.float64)
        assert arena.locate(array) is None
        arena.close()

    @needs_memory_files
    @pytest.mark.parametrize("fails", ["memfd_create", "ftruncate", "posix_fallocate"])
    @pytest.mark.parametrize("code", [errno.ENOMEM, errno.ENOSPC, errno.EMFILE])
    def test_where_there_is_no_more(self, arena, fails, code, monkeypatch):
        def fail(*_):
            raise OSError(code, os.strerror(code))

        kept = arena.allocate((1000,), np.uint8)
        before = count_fds()
        monkeypatch.setattr(os, fails, fail)
        array = arena.allocate((2 * FIRST_SEGMENT_BYTES,), np.uint8)
        monkeypatch.undo()
        assert arena.locate(array) is None
        assert count_fds() == before
        assert sum(part.free.used_bytes for part in arena._parts.values()) == 1024
        again = arena.allocate((2 * FIRST_SEGMENT_BYTES,), np.uint8)
        assert arena.locate(again) is not None
        assert arena.locate(kept) == Place(0, 0)


@needs_memory_files
class TestMappedSegments:
    @pytest.fixture
    def peer(self, arena):
        arena.allocate((1,), np.uint8)
        made = mapped(arena)
        yield made
        made.close()

    SIZE = FIRST_SEGMENT_BYTES

    @pytest.mark.parametrize(
        ("offset", "dtype", "shape"),
        [
            (-4, np.float32, (1,)),
            (SIZE, np.float32, (1,)),
            (SIZE - 4, np.float32, (2,)),
            (0, np.float32, (SIZE // 4 + 1,)),
            (1 << 63, np.uint8, (1,)),
            (1 << 64, np.uint8, (1,)),
            (0, np.float32, (-1,)),
            (8, np.float32, (-1, -1)),
            (0, np.float32, (1 << 62,)),
            (0, np.float32, (1 << 32, 1 << 32)),
            (0, np.float32, (0, 1 << 70)),
            (0, np.float32, (1 << 62, 1 << 62, 0)),
            (0, np.uint8, (1,) * 100),
            (2, np.float32, (1,)),
            (0, object, (1,)),
        ],
    )
    def test_hostile_places_are_refused(self, peer, offset, dtype, shape):
        with pytest.raises(InvalidArgumentError, match="cannot begin at byte"):
            peer.view(Place(0, offset), dtype, shape)

    def test_sizes_of_numpy_do_not_overflow(self, peer):
        shape = tuple(np.array([1 << 32, 1 << 32], np.int64))
        with pytest.raises(InvalidArgumentError, match="cannot begin"):
            peer.view(Place(0, 0), np.uint8, shape)

    def test_the_last_bytes_can_be_read(self, peer):
        assert peer.view(Place(0, self.SIZE - 8), np.float64, ()).shape == ()
        assert peer.view(Place(0, self.SIZE), np.float64, (0, 3)).shape == (0, 3)

    def test_unknown_segments_are_refused(self, peer):
        with pytest.raises(InvalidArgumentError, match=r"no segment 9, there are \[0\]"):
            peer.view(Place(9, 0), np.uint8, (1,))

    def test_a_segment_is_attached_once(self, arena, peer):
        before = count_fds()
        segment = arena.segment(0)
        with pytest.raises(InvalidArgumentError, match="attached already"):
            peer.attach(0, os.dup(segment.fd), segment.size_bytes)
        with pytest.raises(InvalidArgumentError, match="announced"):
            peer.attach(1, os.dup(segment.fd), segment.size_bytes + 1)
        assert count_fds() == before

    def test_it_lets_go_of_what_its_owner_gave_up(self, peer):
        view = peer.view(Place(0, 0), np.uint8, (1,))
        peer.detach(0)
        peer.detach(0)
        with pytest.raises(InvalidArgumentError, match="no segment 0"):
            peer.view(Place(0, 0), np.uint8, (1,))
        assert view.shape == (1,)

    def test_a_peer_cannot_exhaust_us(self, arena, peer, monkeypatch):
        monkeypatch.setattr(shared_memory, "MAX_ATTACHED", 1)
        segment = arena.segment(0)
        before = count_fds()
        with pytest.raises(ResourceExhaustedError, match="beside 1 others, at most 1"):
            peer.attach(1, os.dup(segment.fd), segment.size_bytes)
        assert count_fds() == before

    def test_no_room_to_map(self, arena, peer, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOMEM, "full")

        monkeypatch.setattr(shared_memory, "map_segment", full)
        with pytest.raises(
            ResourceExhaustedError, match="Segment 1 of 4096 bytes cannot be mapped"
        ):
            peer.attach(1, -1, 4096)


OWNER = """
import json, sys
import numpy as np
from sparkflow_runtime.device.shared_memory import SharedArena
arena = SharedArena()
array = arena.allocate((100_000,), np.float64)
array[...] = np.arange(100_000)
segment, place = arena.segment(0), arena.locate(array)
print(json.dumps([segment.fd, segment.size_bytes, place.segment, place.offset]), flush=True)
for line in sys.stdin:
    array += float(line)
    print(json.dumps("done"), flush=True)
"""


@needs_memory_files
def test_a_process_reads_in_place_what_another_writes_and_survives_its_end():
    shm = set(os.listdir("/dev/shm"))
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as owner:
        fd, size, segment, offset = json.loads(owner.stdout.readline())
        peer = MappedSegments()
        peer.attach(segment, os.open(f"/proc/{owner.pid}/fd/{fd}", os.O_RDONLY), size)
        view = peer.view(Place(segment, offset), np.float64, (100_000,))
        np.testing.assert_array_equal(view, np.arange(100_000))
        print(0.5, file=owner.stdin, flush=True)
        assert json.loads(owner.stdout.readline()) == "done"
        np.testing.assert_array_equal(view, np.arange(100_000) + 0.5)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    np.testing.assert_array_equal(view, np.arange(100_000) + 0.5)
    assert set(os.listdir("/dev/shm")) <= shm
    peer.close()


def test_an_arena_that_is_closed_holds_nothing():
    with assert_nothing_left():
        arena = SharedArena()
        assert arena.moves()[0] == 0
        arena.note_moved(arena.allocate((1000,), np.float32))
        arena.close()
    assert arena.size_bytes == 0
