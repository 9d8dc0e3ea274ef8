"""What a channel reads of the other task's memory."""

import contextlib
import os
from collections.abc import Iterator

import numpy as np
import pytest

from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import InvalidArgumentError, OpError, UnavailableError
from sparkflow_runtime.testing.leaks import assert_nothing_left
from sparkflow_runtime.transport.channel import frames, memory as channel_memory
from sparkflow_runtime.transport.channel.frames import Header, Kind
from sparkflow_runtime.transport.channel.memory import ChannelMemory
from sparkflow_runtime.transport.channel.reactor import available
from support.channels import Channel

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
    # Both frames may be read at once: then the descriptor arrives before either is handled.
    came = [os.dup(segment.fd)]
    memory = ChannelMemory(None, None)
    memory.attach(segment_frame(4, 0), came.pop)
    assert len(came) == 1
    memory.attach(segment_frame(5, segment.size_bytes), came.pop)
    assert came == []
    assert memory.is_read


def test_memory_without_a_descriptor_is_refused():
    with pytest.raises(InvalidArgumentError, match="Memory 5 arrived without a descriptor"):
        ChannelMemory(None, None).attach(segment_frame(5, 4096), lambda: None)


SLOTS, TABLE = 2, 3


@pytest.mark.parametrize("kinds", [(TABLE,), (SLOTS,), (SLOTS, SLOTS), (SLOTS, TABLE, TABLE)])
@pytest.mark.parametrize("closes_after", [0, 1, 9])
def test_no_descriptor_stays_however_slots_come(segment, kinds, closes_after):
    with assert_nothing_left():
        memory = ChannelMemory(None, None)
        for number, kind in enumerate(kinds):
            if number == closes_after:
                memory.close()
            head = Header(Kind.SEGMENT, kind, 0, 0, 0, 0, 0, segment.size_bytes)
            with contextlib.suppress(InvalidArgumentError, OSError):
                memory.attach(head, lambda: os.dup(segment.fd))
        if closes_after >= len(kinds):
            memory.close()
        del memory


@pytest.mark.parametrize("told", [0, 1])
def test_slots_that_the_other_end_cannot_be_told_of_are_closed(told):
    class Wire:
        """The other end disappears after this many frames."""

        transport = "unix"
        left = told

        def send(self, head, descriptors):
            if not self.left:
                raise UnavailableError(message="is gone")
            self.left -= 1

    if not SharedArena.available():
        pytest.skip("this system has no memory of this kind")
    with assert_nothing_left():
        memory = ChannelMemory(Wire(), SharedArena())
        with pytest.raises(UnavailableError):
            memory.put([b"abc"], 3)
        memory.close()


@pytest.mark.skipif(not available(), reason="channels need Linux")
class TestSharedMemory:
    """What is sent as places instead of bytes."""

    @pytest.fixture
    def shared(self) -> Iterator[Channel]:
        if not SharedArena.available():
            pytest.skip("no shared memory here")
        made = Channel("shm")
        yield made
        made.close()

    def test_lent_arrays_are_read_in_place(self, shared: Channel) -> None:
        arena = shared.arenas[0]
        assert arena is not None
        variable = arena.allocate((channel_memory.LEAST_SHARED_BYTES // 4,), np.float32)
        small = arena.allocate((channel_memory.LEAST_SHARED_BYTES // 4 - 1,), np.float32)
        variable[:] = small[:] = 1
        [stream] = shared.asker.ask(1, ["a"], loops=True)
        sink = shared.task.sink("a")
        sink.send(0, [variable, small, np.ones(2)], [0, 1], lambda: None)
        bundle = stream.take(0, shared.waker(), more=True)
        assert bundle is not None
        variable[7] = small[7] = 5
        assert bundle[0][7] == 5
        assert bundle[1][7] == 1  # a snapshot: it is sent as fast as announced
        assert not bundle[0].flags.writeable
        assert shared.asker.transport == "shm"
        sink.send(1, [variable, np.ones(2)], [], lambda: None)  # a snapshot
        bundle = stream.take(1, shared.waker(), more=True)
        assert bundle is not None
        variable[7] = 6
        assert bundle[0][7] == 5

    def test_large_bodies_take_slots_that_come_back(self, shared: Channel) -> None:
        [stream] = shared.asker.ask(1, ["a"], loops=True)
        sink = shared.task.sink("a")
        value = np.arange(channel_memory.LEAST_BYTES, dtype=np.float32)
        for turn in range(2000):  # many times the number of slots
            sink.send(turn, [value], (), lambda: None)
            bundle = stream.take(turn, shared.waker(), more=True)
            assert bundle is not None
            assert bundle[0][-1] == value[-1]
        ring = shared.serving.memory._ring
        assert ring is not None
        del bundle
        assert ring.held_bytes == 0

    def test_a_reader_that_keeps_everything_is_served_through_the_socket(
        self, shared: Channel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(channel_memory, "RING_BYTES", 1 << 20)
        [stream] = shared.asker.ask(1, ["a"], loops=True)
        sink = shared.task.sink("a")
        kept = []
        for turn in range(12):
            value = np.full(50_000, turn, np.float32)
            sink.send(turn, [value], (), lambda: None)
            kept.append(stream.take(turn, shared.waker(), more=True))
        for turn, bundle in enumerate(kept):
            assert bundle is not None
            assert (bundle[0] == turn).all()

    def test_memory_that_was_never_shared_is_refused(self, shared: Channel) -> None:
        [stream] = shared.asker.ask(1, ["a"], loops=True)
        shared.task.sink("a")
        text = channel_memory._SLOT.pack(0, 1, 0)
        layout = shared.asker._describer.describe([np.ones(2)]).layout
        head = frames.pack(
            Kind.BUNDLE, stream._number, 0, flags=2, text=text, layout=layout, tensors=1
        )
        shared.serving.post(head)
        with pytest.raises(OpError, match="never shared"):
            stream.take(0, shared.waker(), more=True)
