"""Dialling: which transport it uses, and whoever may answer."""

import contextlib
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from sparkflow_runtime.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
)
from sparkflow_runtime.transport.channel import dialling, handshake, sockets
from sparkflow_runtime.transport.channel.address import (
    ChannelAddress,
    Transport,
    own_host_id,
)
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.channel.opening import Opened

OpenDoor = Callable[..., Any]
"""Makes a `Door`: see conftest.py."""
PS = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:1"
TOKEN = "t" * 64
WAIT_S = 30.0

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def dial(address: ChannelAddress, transport: Transport = "auto", **options: Any) -> Opened:
    options = {"expected_task": PS, "timeout_s": WAIT_S, **options}
    return dialling.dial(address, Self(WORKER, 11, TOKEN, transport=transport), **options)


Answer = Callable[[socket.socket], None]


@pytest.fixture
def answering() -> Iterator[Callable[[Answer], ChannelAddress]]:
    """Serves callers one after another with a function that gets the connection."""
    doors: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def serve(answer: Answer) -> ChannelAddress:
        door = socket.create_server(("127.0.0.1", 0))
        doors.append(door)

        def work() -> None:
            while True:
                try:
                    link, _ = door.accept()
                except OSError:
                    return  # closed
                with link, contextlib.suppress(ConnectionError):
                    link.settimeout(WAIT_S)
                    answer(link)

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        return ChannelAddress("127.0.0.1", door.getsockname()[1])

    yield serve
    for door in doors:
        door.shutdown(socket.SHUT_RDWR)
        door.close()
    for thread in threads:
        thread.join()


def hang_up(link: socket.socket) -> None:
    """Ends the connection properly, after reading everything."""
    with contextlib.suppress(OSError):  # The dialler may be quicker.
        link.shutdown(socket.SHUT_WR)
        while link.recv(4096):
            continue


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        address = ChannelAddress("127.0.0.1", door.getsockname()[1])
    with pytest.raises(UnavailableError) as caught:
        dial(address)
    assert str(caught.value) == f"Task {PS} at {address} cannot be reached: " + str(
        caught.value.__cause__
    )
    assert "refused" in str(caught.value)


@pytest.mark.parametrize("host", ["nowhere.invalid", "x" * 70 + ".org", "a\0b"])
def test_a_host_without_an_address(host: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        dial(ChannelAddress(host, 1))
    assert str(caught.value).startswith(f"Task {PS} at {host}:1 cannot be reached: ")


def test_the_second_address_of_a_host_is_tried(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = open_door()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()
    good = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", door.address.port))
    bad = (socket.AF_INET, socket.SOCK_STREAM, 0, "", closed)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [bad, good])
    with dial(door.address, transport="tcp").socket:
        door.taken()


@pytest.mark.parametrize("timeout_s", [0.0, -1.0])
def test_without_any_time_nothing_is_tried(open_door: OpenDoor, timeout_s: float) -> None:
    for transport in ("auto", "tcp"):
        with pytest.raises(UnavailableError, match=r"did not answer in time|cannot be reached"):
            dial(open_door().address, transport=transport, timeout_s=timeout_s)


def test_who_says_nothing_or_a_byte_now_and_then_costs_the_deadline_only(
    answering: Callable[[Answer], ChannelAddress],
) -> None:
    done = threading.Event()

    def drip(link: socket.socket) -> None:
        for byte in handshake.preamble() * 100:
            try:
                link.sendall(bytes([byte]))
            except OSError:
                return
            if done.wait(0.01):
                return

    for answer in (drip, lambda _: bool(done.wait(WAIT_S))):
        address = answering(answer)
        began = time.monotonic()
        with pytest.raises((UnavailableError, InvalidArgumentError)) as caught:
            dial(address, timeout_s=0.2)
        assert time.monotonic() - began < WAIT_S / 2
        if answer is not drip:
            assert str(caught.value) == f"Task {PS} at {address} did not answer in time"
    done.set()


def test_who_hangs_up_after_any_byte(answering: Callable[[Answer], ChannelAddress]) -> None:
    """The listener's side of a valid dialogue, cut off after each of its bytes in turn."""
    cut = iter(range(1000))

    def answer(link: socket.socket) -> None:
        left = next(cut)
        words = handshake.listener(Self(PS, 22, TOKEN))
        wish: bytes | int = next(words)
        while True:
            heard = b""
            if isinstance(wish, bytes):
                link.sendall(wish[:left])
                left -= len(wish)
                if left < 0:
                    return hang_up(link)
            else:
                heard = link.recv(wish, socket.MSG_WAITALL)
            try:
                wish = words.send(heard)
            except StopIteration:
                return hang_up(link)

    address = answering(answer)
    # preamble, CHALLENGE, and WELCOME: mac, incarnation, name
    for _ in range(12 + (3 + 32) + (3 + 32 + 8 + 2 + len(PS))):
        with pytest.raises(UnavailableError, match="it closed the connection while the channel"):
            dial(address)
    dial(address).socket.close()


def test_garbage_is_an_error_of_ours(answering: Callable[[Answer], ChannelAddress]) -> None:
    draw = random.Random(7)

    def answer(link: socket.socket) -> None:
        begin = draw.choice([b"", handshake.preamble()])
        link.sendall(begin + draw.randbytes(draw.randrange(200)))
        hang_up(link)

    address = answering(answer)
    for _ in range(200):
        with pytest.raises(OpError) as caught:
            dial(address)
        assert str(caught.value).startswith(f"Task {PS} at {address} ")


def test_something_else_at_the_address(answering: Callable[[Answer], ChannelAddress]) -> None:
    def answer(link: socket.socket) -> None:
        link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        hang_up(link)

    with pytest.raises(FailedPreconditionError, match="does not speak the tensor channel's proto"):
        dial(answering(answer))


def test_an_impostor_without_the_token(answering: Callable[[Answer], ChannelAddress]) -> None:
    def answer(link: socket.socket) -> None:
        challenge = handshake._message(handshake._Kind.CHALLENGE, bytes(32))
        link.sendall(handshake.preamble() + challenge)
        name = struct.pack("!QH", 22, len(PS)) + PS.encode()
        link.sendall(handshake._message(handshake._Kind.WELCOME, bytes(32) + name))
        hang_up(link)

    with pytest.raises(UnauthenticatedError, match="does not know the job's token"):
        dial(answering(answer))


def test_a_refusal_arrives_as_its_class(answering: Callable[[Answer], ChannelAddress]) -> None:
    def answer(link: socket.socket) -> None:
        error = ResourceExhaustedError(message="No room")
        link.sendall(handshake.preamble() + handshake.refusal(error))
        hang_up(link)

    with pytest.raises(ResourceExhaustedError, match=r"refuses the channel: No room$"):
        dial(answering(answer))


def test_a_restarted_task(open_door: OpenDoor) -> None:
    door = open_door()
    assert dial_and_close(door, expected_incarnation=22) == (PS, 22)
    with pytest.raises(AbortedError, match="was restarted: incarnation 3 was expected, 22 answers"):
        dial(door.address, expected_incarnation=3)


def dial_and_close(door: Any, **options: Any) -> tuple[str, int]:
    opened = dial(door.address, **options)
    opened.socket.close()
    return opened.task, opened.incarnation


@linux
@pytest.mark.parametrize("unix_name", ["", "sparkflow-nobody-listens-here"])
def test_without_a_unix_socket_there_is_tcp(open_door: OpenDoor, unix_name: str) -> None:
    door = open_door()
    address = replace(door.address, unix_name=unix_name)
    opened = dial(address)
    opened.socket.close()
    assert opened.transport == "tcp"
    kind = UnavailableError if unix_name else FailedPreconditionError
    with pytest.raises(kind, match="cannot be reached"):
        dial(address, transport="unix")


@linux
def test_the_unix_socket_of_another_host_is_not_tried(open_door: OpenDoor) -> None:
    door = open_door()
    assert door.address.host_id == own_host_id()
    opened = dial(replace(door.address, host_id="another"))
    opened.socket.close()
    assert opened.transport == "tcp"


@linux
def test_another_users_unix_socket_is_not_spoken_to(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = open_door()
    monkeypatch.setattr(sockets, "is_same_user", lambda _: False)
    opened = dial(door.address)
    opened.socket.close()
    assert opened.transport == "tcp"
    with pytest.raises(PermissionDeniedError, match="runs as another user: use TCP"):
        dial(door.address, transport="unix")


@linux
def test_a_full_queue_of_a_unix_socket_is_waited_for(open_door: OpenDoor) -> None:
    """With Python's own deadlines, connecting would fail at once there."""
    with socket.socket(socket.AF_UNIX) as door:
        name = "sparkflow-test-" + TOKEN[:8] + str(id(door))
        door.bind("\0" + name)
        door.listen(0)
        waiting = []
        try:
            while True:
                waiting.append(socket.socket(socket.AF_UNIX))
                waiting[-1].setblocking(False)
                try:
                    waiting[-1].connect("\0" + name)
                except BlockingIOError:
                    break  # The queue is full.
            address = ChannelAddress("127.0.0.1", 1, name, own_host_id())
            began = time.monotonic()
            with pytest.raises(UnavailableError):
                dial(address, transport="unix", timeout_s=0.1)
            assert time.monotonic() - began >= 0.1
        finally:
            for each in waiting:
                each.close()
