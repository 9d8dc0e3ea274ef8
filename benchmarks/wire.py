"""Lower bounds: processes that only exchange as many bytes as a training step.

A client sends bytes and receives bytes (gradients and parameters), over a raw TCP or unix socket
into an existing buffer, or as the message of one unary gRPC call.
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

KINDS = {"tcp": "raw TCP", "unix": "raw unix socket", "grpc": "gRPC unary"}
"""The kinds of exchanges, with their names in tables."""

Exchange = Callable[[int, int], None]
"""Sends and receives a number of bytes."""
_METHOD = "/wire/Exchange"
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_SIZES = struct.Struct("<QQ")  # of the data that follow and of the expected answer
_LARGEST = 128 << 20
_SOCKET_BUFFER = 256 << 10  # over TCP faster than 4 MiB
_context = multiprocessing.get_context("spawn")


@contextmanager
def connected(kind: str) -> Iterator[Exchange]:
    """Yields a client, in this process, of a server process."""
    with _server(kind) as address:
        yield _connect(kind, address)


def exchanges_per_second(kind: str, size_bytes: int, clients: int, count: int) -> float:
    """Measures the rate of `clients` processes with one server, `count` exchanges each.

    Args:
        kind: See `KINDS`.
        size_bytes: The bytes in each direction.
        clients: The number of processes.
        count: The number of exchanges of each.
    """
    with _server(kind) as address:
        ready = _context.Barrier(clients)
        times: Any = _context.SimpleQueue()
        arguments = (kind, address, size_bytes, count, ready, times)
        processes = [_context.Process(target=_client, args=arguments) for _ in range(clients)]
        for process in processes:
            process.start()
        spans = [times.get() for _ in processes]
        for process in processes:
            process.join()
    begin, end = min(span[0] for span in spans), max(span[1] for span in spans)
    return float(clients * count / (end - begin))


@contextmanager
def _server(kind: str) -> Iterator[Any]:
    """Runs a server in a separate process and yields its address."""
    mine, theirs = _context.Pipe()
    target = _serve_grpc if kind == "grpc" else _serve_socket
    process = _context.Process(target=target, args=(kind, theirs), daemon=True)
    process.start()
    try:
        yield mine.recv()
    finally:
        process.terminate()
        process.join()


def _client(kind: str, address: Any, size_bytes: int, count: int, ready: Any, times: Any) -> None:
    exchange = _connect(kind, address)
    for _ in range(10):
        exchange(size_bytes, size_bytes)
    ready.wait()
    begin = time.monotonic()  # the same clock in all processes
    for _ in range(count):
        exchange(size_bytes, size_bytes)
    times.put((begin, time.monotonic()))


def _connect(kind: str, address: Any) -> Exchange:
    return _connect_grpc(address) if kind == "grpc" else _connect_socket(kind, address)


def _serve_socket(kind: str, report: Connection) -> None:
    if kind == "tcp":
        listener = socket.create_server(("127.0.0.1", 0))
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("")  # an unused name
        listener.listen()
    report.send(listener.getsockname())
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=(kind, connection), daemon=True).start()


def _answer(kind: str, connection: socket.socket) -> None:
    _set_options(kind, connection)
    header = memoryview(bytearray(_SIZES.size))
    buffer = memoryview(bytearray(_LARGEST))
    while _receive(connection, header):
        size, wanted = _SIZES.unpack(header)
        _receive(connection, buffer[:size])
        connection.sendall(buffer[:wanted])


def _connect_socket(kind: str, address: Any) -> Exchange:
    connection = socket.socket(socket.AF_INET if kind == "tcp" else socket.AF_UNIX)
    connection.connect(address)
    _set_options(kind, connection)
    buffer = memoryview(bytearray(_LARGEST))

    def exchange(size_bytes: int, wanted_bytes: int) -> None:
        header = _SIZES.pack(size_bytes, wanted_bytes)
        sent = connection.sendmsg([header, buffer[:size_bytes]])
        connection.sendall(buffer[max(0, sent - _SIZES.size) : size_bytes])
        _receive(connection, buffer[:wanted_bytes])

    return exchange


def _set_options(kind: str, connection: socket.socket) -> None:
    if kind == "tcp":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)


def _receive(connection: socket.socket, into: memoryview) -> bool:
    """Fills the buffer; returns False if the peer is gone."""
    filled = 0
    while filled < len(into):
        count = connection.recv_into(into[filled:])
        if not count:
            return False
        filled += count
    return True


def _serve_grpc(_: str, report: Connection) -> None:
    import grpc

    answers: dict[int, bytes] = {}

    def exchange(request: bytes, _: Any) -> bytes:
        _, wanted = _SIZES.unpack_from(request)
        return answers.setdefault(wanted, bytes(wanted))

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
    messages: dict[tuple[int, int], bytes] = {}

    def exchange(size_bytes: int, wanted_bytes: int) -> None:
        sizes = size_bytes, wanted_bytes
        message = messages.get(sizes)
        if message is None:
            message = messages[sizes] = _SIZES.pack(*sizes) + bytes(size_bytes)
        call(message)

    return exchange
