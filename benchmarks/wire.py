"""Lower bounds: processes that exchange as many bytes as a training step does, and nothing else.

A client sends n bytes and gets n bytes back: gradients against parameters. Over a raw TCP socket
into a buffer that is there already, and as one unary gRPC call with the bytes as its message.
"""

from __future__ import annotations

import multiprocessing
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

KINDS = {"tcp": "raw TCP", "grpc": "gRPC unary"}
"""What can be measured, and how tables call it."""

Exchange = Callable[[int], None]
_METHOD = "/wire/Exchange"
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_SIZE = struct.Struct("<Q")
_LARGEST = 16 << 20
_context = multiprocessing.get_context("spawn")


@contextmanager
def connected(kind: str) -> Iterator[Exchange]:
    """A server process and, in this process, a client of it."""
    with _server(kind) as port:
        yield _connect(kind, port)


def exchanges_per_second(kind: str, size_bytes: int, clients: int, count: int) -> float:
    """The rate of `clients` processes at one server, each making `count` exchanges."""
    with _server(kind) as port:
        ready = _context.Barrier(clients)
        times: Any = _context.SimpleQueue()
        arguments = (kind, port, size_bytes, count, ready, times)
        processes = [_context.Process(target=_client, args=arguments) for _ in range(clients)]
        for process in processes:
            process.start()
        spans = [times.get() for _ in processes]
        for process in processes:
            process.join()
    begin, end = min(span[0] for span in spans), max(span[1] for span in spans)
    return float(clients * count / (end - begin))


@contextmanager
def _server(kind: str) -> Iterator[int]:
    """A server in a process of its own; yields its port."""
    mine, theirs = _context.Pipe()
    target = _serve_tcp if kind == "tcp" else _serve_grpc
    process = _context.Process(target=target, args=(theirs,), daemon=True)
    process.start()
    try:
        yield mine.recv()
    finally:
        process.terminate()
        process.join()


def _client(kind: str, port: int, size_bytes: int, count: int, ready: Any, times: Any) -> None:
    exchange = _connect(kind, port)
    for _ in range(10):
        exchange(size_bytes)
    ready.wait()
    begin = time.monotonic()  # the same clock in all processes
    for _ in range(count):
        exchange(size_bytes)
    times.put((begin, time.monotonic()))


def _connect(kind: str, port: int) -> Exchange:
    return _connect_tcp(port) if kind == "tcp" else _connect_grpc(port)


def _serve_tcp(report: Connection) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    report.send(listener.getsockname()[1])
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    header = memoryview(bytearray(_SIZE.size))
    buffer = memoryview(bytearray(_LARGEST))
    while _receive(connection, header):
        (size,) = _SIZE.unpack(header)
        _receive(connection, buffer[:size])
        connection.sendall(buffer[:size])


def _connect_tcp(port: int) -> Exchange:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = memoryview(bytearray(_LARGEST))

    def exchange(size_bytes: int) -> None:
        sent = connection.sendmsg([_SIZE.pack(size_bytes), buffer[:size_bytes]])
        connection.sendall(buffer[max(0, sent - _SIZE.size) : size_bytes])
        _receive(connection, buffer[:size_bytes])

    return exchange


def _receive(connection: socket.socket, into: memoryview) -> bool:
    """Fills the buffer; False when the peer has gone."""
    filled = 0
    while filled < len(into):
        count = connection.recv_into(into[filled:])
        if not count:
            return False
        filled += count
    return True


def _serve_grpc(report: Connection) -> None:
    import grpc

    def exchange(request: bytes, _: Any) -> bytes:
        return request

    handler = grpc.unary_unary_rpc_method_handler(exchange)
    server = grpc.server(ThreadPoolExecutor(4), options=_OPTIONS)
    service, method = _METHOD.strip("/").split("/")
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    report.send(port)
    server.wait_for_termination()


def _connect_grpc(port: int) -> Exchange:
    import grpc

    call = grpc.insecure_channel(f"127.0.0.1:{port}", options=_OPTIONS).unary_unary(
        _METHOD, None, None
    )
    messages: dict[int, bytes] = {}

    def exchange(size_bytes: int) -> None:
        message = messages.get(size_bytes)
        if message is None:
            message = messages[size_bytes] = bytes(size_bytes)
        call(message)

    return exchange
