"""What a channel reads of the other task's memory."""

import os

import pytest

from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.transport.channel.frames import Header, Kind
from sparkflow_runtime.transport.channel.memory import ChannelMemory

ARENA = 1


def segment_frame(number, size_bytes):
    return Header(Kind.SEGMENT, ARENA, 0, 0, 0, 0, number, size_bytes)


@pytest.fixture
def segment():
    arena = SharedArena()
    if not arena.available():
        pytest.skip("this system has no memory of this kind")
    kept = arena.allocate((1000,), "u1")
    yield arena.segment(arena.locate(kept).segment)
    arena.close()


def test_memory_that_is_gone_leaves_the_descriptor_to_the_memory_that_comes(segment):
    # Both frames may be read at once: then the descriptor is there before either is handled.
    came = [os.dup(segment.fd)]
    memory = ChannelMemory(None, None)
    memory.attach(segment_frame(4, 0), came.pop)
    assert len(came) == 1
    memory.attach(segment_frame(5, segment.size_bytes), came.pop)
    assert came == []
    assert memory.is_read


def test_memory_without_a_descriptor_is_refused():
    with pytest.raises(InvalidArgumentError, match="Memory 5 came without a descriptor"):
        ChannelMemory(None, None).attach(segment_frame(5, 4096), lambda: None)
