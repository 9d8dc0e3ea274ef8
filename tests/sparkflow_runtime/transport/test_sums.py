"""gRPC messages changed by a network are detected, and those of TensorFlow pass."""

import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import grpc
import numpy as np
import pytest

from sparkflow_runtime.errors import DataLossError, OpError, UnavailableError
from sparkflow_runtime.protos.tensor_pb2 import TensorProto
from sparkflow_runtime.tensor_proto import export_tensor, import_tensor
from sparkflow_runtime.transport import codec, rpc
from sparkflow_runtime.transport.sums import checked, with_sum

SERVICE = "Echo"
WAIT_S = 20
ARRAY = np.random.RandomState(1).randn(300).astype(np.float32)


@pytest.mark.parametrize("message", [b"", b"\x08\x01", bytes(1000)])
def test_a_change_is_told(message: bytes) -> None:
    whole = with_sum(message)
    assert checked(whole) == message
    assert checked(message) == message
    for place in range(len(message)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x20
        with pytest.raises(DataLossError):
            checked(bytes(damaged))


def test_the_sum_is_a_field_that_others_pass_over() -> None:
    proto = export_tensor(ARRAY)
    assert list(import_tensor(TensorProto.FromString(with_sum(proto.SerializeToString())))) == list(
        ARRAY
    )
    (decoded,) = codec.decode(with_sum(codec.encode([ARRAY]))) or ()
    np.testing.assert_array_equal(decoded, ARRAY)
    assert codec.decode(with_sum(codec.DEAD)) is None


def negated(request: TensorProto) -> TensorProto:
    return export_tensor(-import_tensor(request))


def thrice(request: TensorProto) -> Iterator[TensorProto]:
    for _ in range(3):
        yield request


@pytest.fixture
def server() -> Iterator[rpc.RpcServer]:
    methods = {
        "Negate": rpc.Method(negated, TensorProto),
        "Encoded": rpc.Method(lambda request: codec.encode([import_tensor(request)]), TensorProto),
        "Thrice": rpc.Method(thrice, TensorProto, streams=True),
    }
    handlers = [rpc.handlers(SERVICE, methods)]
    made = rpc.RpcServer(handlers, host="127.0.0.1", port=0, token=None)
    made.start()
    yield made
    made.stop()


@contextmanager
def stub(port: int) -> Iterator[rpc.Stub]:
    link = rpc.channel(f"127.0.0.1:{port}")
    with link:
        yield rpc.Stub(link, SERVICE, None, "The server")


def test_messages_without_a_sum_are_read(server: rpc.RpcServer) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as link:
        method = link.unary_unary(
            f"/{SERVICE}/Negate", lambda r: r.SerializeToString(), TensorProto.FromString
        )
        np.testing.assert_array_equal(import_tensor(method(export_tensor(ARRAY))), -ARRAY)


@contextmanager
def proxy(port: int, change: Callable[[bytes], bytes], answers: bool) -> Iterator[int]:
    """A port that leads to another one; requests, or answers, are changed in transit."""
    listening = socket.create_server(("127.0.0.1", 0))
    ends: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def pump(source: socket.socket, target: socket.socket, changes: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(change(data) if changes else data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", port))
            ends.extend((client, there))
            for source, target, changes in ((client, there, not answers), (there, client, answers)):
                thread = threading.Thread(target=pump, args=(source, target, changes))
                thread.start()
                threads.append(thread)

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join(WAIT_S)
        for thread in threads:
            thread.join(WAIT_S)
        for end in ends:
            end.close()


@pytest.mark.parametrize("answers", [False, True], ids=["asked", "answered"])
def test_no_changed_number_is_used(server: rpc.RpcServer, answers: bool) -> None:
    rng = random.Random(5)
    place = ARRAY.tobytes()[100:140] if not answers else (-ARRAY).tobytes()[100:140]
    told = 0

    def change(data: bytes) -> bytes:
        start = data.find(place)
        if start < 0:
            return data
        damaged = bytearray(data)
        damaged[start + rng.randrange(40)] ^= 1 << rng.randrange(8)
        return bytes(damaged)

    with proxy(server.port, change, answers) as port, stub(port) as link:
        for _ in range(20):
            with pytest.raises(
                UnavailableError, match=r"(request to|response of) The server was corrupted"
            ):
                link.call("Negate", export_tensor(ARRAY), TensorProto.FromString, WAIT_S)
            told += 1
            if answers:
                continue
            with pytest.raises(OpError):
                link.call("Encoded", export_tensor(ARRAY), None, WAIT_S)
    assert told == 20


def test_streams_are_held_to_their_sums(server: rpc.RpcServer) -> None:
    place = ARRAY.tobytes()[100:140]

    def change(data: bytes) -> bytes:
        return data.replace(place, place[::-1])

    with proxy(server.port, change, answers=True) as port, stub(port) as link:
        answers = link.stream("Thrice", export_tensor(ARRAY), TensorProto.FromString)
        with pytest.raises(grpc.RpcError):
            next(answers)
