"""What comes from other processes: frames and layouts of tensor channels, handshakes, tensors."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from oracle import Target

from sparkflow.spark.data.feed_plan import FeedPlan
from sparkflow.spark.data.hosted.hosted_rows import HostedSource
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import OpError, UnavailableError
from sparkflow_runtime.ir.node import parse_endpoint
from sparkflow_runtime.master.repeated_runs.server_side import pack_call, unpack_call
from sparkflow_runtime.transport import codec
from sparkflow_runtime.transport.channel import frames, handshake, layout, records
from sparkflow_runtime.worker.answering import Run, pack_run, unpack_run

_TASKS = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:1"


def _frame(data: bytes) -> None:
    if len(data) < frames.HEADER.size:
        return
    header = frames.unpack(data)
    rest = data[frames.HEADER.size :]
    text, described = rest[: header.text_bytes], rest[header.text_bytes : header.head_bytes]
    if header.kind is frames.Kind.REQUEST:
        frames.unpack_request(text)
    elif header.kind is frames.Kind.BUNDLE and text:
        frames.unpack_places(text, 1 + header.tensors)
    elif header.kind in (frames.Kind.FAIL, frames.Kind.REFUSAL):
        frames.unpack_status(text)
    found = layout.parse(described, header.tensors)
    body = np.frombuffer(rest[header.head_bytes :], np.uint8)
    if found.body_bytes <= len(body):
        found.read(body)


def _frame_seeds() -> Sequence[bytes]:
    values = [np.arange(6, dtype=np.float32), np.array([b"a"], object)]
    message = layout.Describer().describe(values)
    body = b"".join(bytes(memoryview(each).cast("B")) for each in message.buffers)
    return [
        frames.pack(
            frames.Kind.BUNDLE, 1, 2, layout=message.layout, tensors=2, body_bytes=len(body)
        )
        + body,
        frames.pack(frames.Kind.BUNDLE, 1, text=frames.pack_places([(0, 64)])),
        frames.pack(frames.Kind.REQUEST, 1, text=frames.pack_request(1, 2, "key")),
        frames.pack(frames.Kind.FAIL, 1, text=frames.pack_status(UnavailableError(message="no"))),
    ]


def _listen(data: bytes) -> None:
    _talk(handshake.listener(handshake.Self(_TASKS[0], 7, "token")), data)


def _dial(data: bytes) -> None:
    _talk(handshake.dialler(handshake.Self(_TASKS[1], 8, "token"), _TASKS[0]), data)


def _talk(words: Generator[Any, bytes, Any], data: bytes) -> bytes:
    """Feeds one side; returns what it has said."""
    said, place = b"", 0
    try:
        wish = next(words)
        while True:
            if isinstance(wish, bytes):
                said += wish
                wish = next(words)
            elif place + wish > len(data):
                return said
            else:
                piece, place = data[place : place + wish], place + wish
                wish = words.send(piece)
    except StopIteration:
        return said


def _hello() -> bytes:
    return _talk(handshake.dialler(handshake.Self(_TASKS[1], 8, "token"), _TASKS[0]), b"")


def _answer() -> bytes:
    return _talk(handshake.listener(handshake.Self(_TASKS[0], 7, "token")), _hello())


def _decode(data: bytes) -> None:
    codec.decode(data)


def _decode_seeds() -> Sequence[bytes]:
    return [codec.encode([np.arange(4, dtype=np.float32), np.array([b"a", b"bc"], object)])]


def _calls(data: bytes) -> None:
    """What a channel's request says about the step that it asks for."""
    with contextlib.suppress(OpError):
        unpack_run(data)
    unpack_call(data)


def _calls_seeds() -> Sequence[bytes]:
    run = Run("session", "session/1", False, "0-1-1-0", ("1-0-0-0",), "1-0-2-1")
    return [pack_call("session", 3), pack_run(run)]


def _tensor_name(data: bytes) -> None:
    parse_endpoint(data.decode("utf-8", "surrogateescape"))


def _device_name(data: bytes) -> None:
    DeviceSpec.from_string(data.decode("utf-8", "surrogateescape"))


def _hosted(data: bytes) -> None:
    HostedSource.from_text(data.decode("utf-8", "replace"))


def _hosted_seeds() -> Sequence[bytes]:
    rows = RowFormat((Input("x", DENSE, "float32", (2,)),), None, None, False)
    return [HostedSource("d", 0, FeedPlan(rows, 4), None).to_text().encode()]


_KEYS = bytes(32), bytes(range(32))


def _record(data: bytes) -> None:
    """What comes over an encrypted channel, from who has its keys or has not."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(data[:_MOST_SENT])
        there.shutdown(socket.SHUT_WR)
        channel = records.Records(here, (_KEYS[1], _KEYS[0]), "The peer")
        target = memoryview(bytearray(4096))
        while channel.recv_into(target):
            pass


def _record_seeds() -> Sequence[bytes]:
    here, there = socket.socketpair()
    with here, there:
        channel = records.Records(here, _KEYS, "The peer")
        for text in (b"a", b"bc" * 50):
            channel.send(text)
        return [there.recv(_MOST_SENT)]


_MOST_SENT = 16_384
"""A pair of sockets holds so much while nobody reads."""

TARGETS = [
    Target("record", _record, _record_seeds, (ConnectionResetError,)),
    Target("channel_frame", _frame, _frame_seeds),
    Target("handshake_listener", _listen, lambda: [_hello()]),
    Target("handshake_dialler", _dial, lambda: [_answer()]),
    Target("calls", _calls, _calls_seeds),
    Target("tensor_message", _decode, _decode_seeds),
    Target("tensor_name", _tensor_name, lambda: [b"a/b:2"]),
    Target("device_name", _device_name, lambda: [b"/job:ps/task:0/device:GPU:1", b"/gpu:0"]),
    Target("hosted_rows", _hosted, _hosted_seeds),
]
