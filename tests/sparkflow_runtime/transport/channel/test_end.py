"""What both ends of a channel do alike, seen at the asking one."""

import socket
from collections.abc import Iterator

import numpy as np
import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.transport.channel import frames
from sparkflow_runtime.transport.channel.asking import Asker
from sparkflow_runtime.transport.channel.end import End
from sparkflow_runtime.transport.channel.frames import HEADER, Kind
from sparkflow_runtime.transport.channel.layout import parse
from sparkflow_runtime.transport.channel.opening import Opened
from sparkflow_runtime.transport.channel.reactor import Reactor, available

pytestmark = pytest.mark.skipif(not available(), reason="channels need Linux")
TASK = "/job:ps/replica:0/task:0"
WAIT_S = 20


@pytest.fixture
def ends() -> Iterator[tuple[End, socket.socket]]:
    mine, theirs = socket.socketpair()
    theirs.settimeout(WAIT_S)
    end = Asker(Opened(mine, TASK, 1), Reactor())
    with theirs:
        yield end, theirs
        end.close()


def test_tensors_travel_with_their_description(ends: tuple[End, socket.socket]) -> None:
    end, theirs = ends
    values = [np.arange(5.0), np.float32(3)]
    end.send(Kind.CALL, 7, 8, b"text", end.describe(values))
    header = frames.unpack(theirs.recv(HEADER.size, socket.MSG_WAITALL))
    assert (header.kind, header.number, header.place) == (Kind.CALL, 7, 8)
    head = theirs.recv(header.head_bytes, socket.MSG_WAITALL)
    assert head[: header.text_bytes] == b"text"
    body = np.frombuffer(theirs.recv(header.body_bytes, socket.MSG_WAITALL), np.uint8)
    found = parse(head[header.text_bytes :], header.tensors).read(body)
    for was, came in zip(values, found, strict=True):
        np.testing.assert_array_equal(was, came)


def test_the_layout_of_the_last_frame_is_not_sent_again(ends: tuple[End, socket.socket]) -> None:
    end, theirs = ends
    message = end.describe([np.ones(3, np.float32)])
    end.send(Kind.BUNDLE, 1, 0, b"", message, same_layout=True)
    header = frames.unpack(theirs.recv(HEADER.size, socket.MSG_WAITALL))
    assert (header.flags, header.layout_bytes, header.tensors) == (frames.SAME_LAYOUT, 0, 0)
    assert header.body_bytes == 12


@pytest.mark.parametrize("kind", [Kind.CALL, Kind.REQUEST, Kind.FINISH, Kind.CREDIT])
def test_frames_for_the_other_end_close_the_channel(
    ends: tuple[End, socket.socket], kind: Kind
) -> None:
    end, theirs = ends
    theirs.sendall(frames.pack(kind, 1))
    end.wire.wait(WAIT_S * 1000)
    end.attend()
    assert not end.is_open
    assert isinstance(end.wire.closed, InvalidArgumentError)
    assert f"A {kind.name} frame arrived at the wrong end" in end.wire.closed.message
    end.post(frames.pack(Kind.CANCEL, 1))  # nobody hears it


def test_one_thread_reads_at_a_time(ends: tuple[End, socket.socket]) -> None:
    end, theirs = ends
    theirs.sendall(frames.pack(Kind.CALL, 1))
    end.wire.wait(WAIT_S * 1000)
    with end.wire.reading:
        end.attend()
    assert end.is_open
    end.attend()
    assert not end.is_open


def test_messages_without_tensors_come_between_others(ends: tuple[End, socket.socket]) -> None:
    end, _ = ends
    values = [np.ones(3, np.float32)]
    before = end.describe(values)
    empty = end.describe([])
    assert (empty.layout, [*empty.buffers], empty.body_bytes, empty.count) == (b"", [], 0, 0)
    assert end.describe(values).layout is before.layout
