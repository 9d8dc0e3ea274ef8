import errno
import fcntl
import os
import sys
import tempfile

import numpy as np
import pytest

from sparkflow_runtime.device.memory_file import PAGE_BYTES, MemoryFile, available, map_segment
from sparkflow_runtime.errors import InvalidArgumentError

pytestmark = pytest.mark.skipif(not available(), reason="needs memfd_create: Linux")


@pytest.fixture
def made():
    file = MemoryFile(3 * PAGE_BYTES)
    yield file
    file.close()


def open_fds() -> set[int]:
    return {fd for fd in map(int, os.listdir("/proc/self/fd")) if is_open(fd)}


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def memory_of(file: MemoryFile) -> int:
    """Returns the bytes that the system uses for it."""
    return os.fstat(file.segment.fd).st_blocks * 512


def test_a_reader_sees_what_is_written(made):
    mapping = map_segment(os.dup(made.segment.fd), made.segment.size_bytes)
    made.bytes[5000:5003] = 1, 2, 3
    assert mapping[5000:5003] == bytes([1, 2, 3])
    with pytest.raises(TypeError, match="readonly"):
        mapping[0] = 1


def test_a_reader_can_neither_map_it_for_writing_nor_write_to_the_descriptor(made):
    with pytest.raises(PermissionError):
        map_segment(os.dup(made.segment.fd), PAGE_BYTES, writable=True)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.write(made.segment.fd, b"x")


@pytest.mark.parametrize("size", [0, PAGE_BYTES, 100 * PAGE_BYTES])
def test_nobody_can_change_its_size(made, size):
    writable = os.open(f"/proc/self/fd/{made.segment.fd}", os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(writable, size)
    finally:
        os.close(writable)


def test_readers_may_write_where_they_are_allowed_to():
    made = MemoryFile(1, readers_write=True)
    assert made.segment.size_bytes == PAGE_BYTES
    mapping = map_segment(os.dup(made.segment.fd), PAGE_BYTES, writable=True)
    mapping[7] = 42
    assert made.bytes[7] == 42
    made.close()


def test_memory_is_used_when_it_is_reserved_and_given_back_when_it_is_discarded():
    made = MemoryFile(1 << 20)
    mapping = map_segment(os.dup(made.segment.fd), 1 << 20)
    assert memory_of(made) == 0
    made.reserve(5 * PAGE_BYTES - 1)
    assert memory_of(made) == 5 * PAGE_BYTES
    made.reserve(PAGE_BYTES)
    assert memory_of(made) == 5 * PAGE_BYTES
    made.bytes[100] = 1
    kept = os.dup(made.segment.fd)
    made.discard()
    assert os.fstat(kept).st_blocks == 0
    os.close(kept)
    assert mapping[100] == 0  # still mapped, no SIGBUS


def test_a_machine_without_memory_says_so(made, monkeypatch):
    def full(fd, offset, size):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="full"):
        made.reserve(1)


@pytest.mark.parametrize("fails", ["ftruncate", "open"])
def test_no_descriptor_is_left_where_it_cannot_be_made(fails, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENFILE, "no more")

    before = open_fds()
    monkeypatch.setattr(os, fails, fail)
    with pytest.raises(OSError, match="no more"):
        MemoryFile(1)
    monkeypatch.undo()
    assert open_fds() == before


def test_a_forked_child_does_not_give_back_what_its_parent_uses(made, monkeypatch):
    made.bytes[0] = 9
    monkeypatch.setattr(os, "getpid", lambda: -1)
    monkeypatch.setattr(MemoryFile, "close", lambda self: None)
    made.discard()
    monkeypatch.undo()
    assert made.bytes[0] == 9


def test_a_file_that_is_smaller_than_announced_is_refused(made):
    with pytest.raises(InvalidArgumentError, match="announced, it has 12288"):
        map_segment(os.dup(made.segment.fd), 3 * PAGE_BYTES + 1)


@pytest.mark.parametrize("size", [0, -1])
def test_sizes_that_make_no_sense_are_refused(made, size):
    with pytest.raises(InvalidArgumentError, match="announced"):
        map_segment(os.dup(made.segment.fd), size)


def test_a_file_that_could_shrink_is_refused():
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, PAGE_BYTES)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    with pytest.raises(InvalidArgumentError, match="sealed against shrinking, has seals 0x4"):
        map_segment(fd, PAGE_BYTES)
    assert not is_open(fd)


def test_an_ordinary_file_or_a_pipe_is_refused():
    with tempfile.TemporaryFile() as file:
        file.truncate(PAGE_BYTES)
        with pytest.raises(InvalidArgumentError, match="memfd_create"):
            map_segment(os.dup(file.fileno()), PAGE_BYTES)
    first, second = os.pipe()
    os.close(second)
    with pytest.raises(InvalidArgumentError, match="announced"):
        map_segment(first, PAGE_BYTES)
    assert not is_open(first)


def test_elsewhere_it_says_that_there_is_none(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not available()


def test_the_memory_outlives_the_descriptors():
    file = MemoryFile(PAGE_BYTES)
    view = file.bytes[10:20]
    file.close()
    del file
    view[:] = 3
    np.testing.assert_array_equal(view, np.full(10, 3, np.uint8))
