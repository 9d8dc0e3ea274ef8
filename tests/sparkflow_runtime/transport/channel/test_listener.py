"""A listener and its callers: valid ones, strangers, and silent ones."""

import contextlib
import errno
import logging
import os
import random
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sparkflow_runtime.errors import (
    FailedPreconditionError,
    OpError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
)
from sparkflow_runtime.transport.channel import handshake, listener as listener_module, sockets
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.channel.listener import Listener
from sparkflow_runtime.transport.channel.opening import Opened

PS = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:1"
TOKEN = "t" * 64
WAIT_S = 30.0

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


OpenDoor = Callable[..., Any]
"""Makes a `Door`: see conftest.py."""


def exchange(one: socket.socket, two: socket.socket) -> None:
    for speaker, hearer in ((one, two), (two, one)):
        speaker.sendall(b"hello")
        assert hearer.recv(5, socket.MSG_WAITALL) == b"hello"


def described(opened: Opened) -> tuple[str, int, str, bool]:
    return opened.task, opened.incarnation, opened.transport, opened.is_encrypted


def test_a_channel_opens_over_tcp(open_door: OpenDoor) -> None:
    door = open_door()
    here = door.dial(transport="tcp")
    there = door.taken()
    assert described(here) == (PS, 22, "tcp", False)
    assert described(there) == (WORKER, 11, "tcp", False)
    exchange(here.socket, there.socket)
    for each in (here.socket, there.socket):
        assert each.gettimeout() is None
        assert each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@linux
def test_a_peer_that_vanishes_is_noticed_within_20_seconds(open_door: OpenDoor) -> None:
    door = open_door()
    for each in (door.dial(transport="tcp").socket, door.taken().socket):
        idle, interval, count, unacknowledged = (
            each.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        )
        assert idle + interval * count == sockets.NOTICE_S == 20
        assert unacknowledged == 20_000


@linux
@pytest.mark.parametrize("transport", ["unix", "auto"])
def test_on_one_host_a_channel_opens_over_a_unix_socket(
    open_door: OpenDoor, transport: str
) -> None:
    door = open_door()
    here = door.dial(transport=transport)
    there = door.taken()
    assert described(here) == (PS, 22, "unix", False)
    assert described(there) == (WORKER, 11, "unix", False)
    exchange(here.socket, there.socket)
    one, two = socket.socketpair()
    with one, two:  # The system's limit, which may be less than the request.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sockets.UNIX_BUFFER_BYTES // 2)
        size = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    for each in (here.socket, there.socket):
        assert each.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == size


@pytest.mark.parametrize("host", ["::1", "[::1]", "::"])
def test_ipv6(open_door: OpenDoor, host: str) -> None:
    if not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    door = open_door(host=host, advertised_host="[::1]")
    assert door.address.host == "::1"
    here = door.dial(transport="tcp")
    assert here.socket.family is socket.AF_INET6
    exchange(here.socket, door.taken().socket)


def test_all_interfaces_of_ipv6_are_those_of_ipv4_too(open_door: OpenDoor) -> None:
    if not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    door = open_door(host="::", advertised_host="127.0.0.1")
    assert door.dial(transport="tcp").socket.family is socket.AF_INET
    assert door.taken().task == WORKER


def _has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


def test_a_fixed_port_is_taken_and_free_again_at_once(open_door: OpenDoor) -> None:
    first = open_door()
    port = first.address.port
    with pytest.raises(UnavailableError, match=rf"'127\.0\.0\.1', port {port}: .*in use.*Port 0"):
        open_door(port=port)
    here = first.dial(transport="tcp").socket
    first.taken().socket.close()  # Whoever closes first normally occupies the port for a minute.
    assert here.recv(1) == b""
    first.close()
    second = open_door(port=port)
    assert second.address.port == port
    second.dial(transport="tcp")


def test_off_loopback_a_token_is_needed(open_door: OpenDoor) -> None:
    with pytest.raises(PermissionDeniedError, match="has no credentials"):
        open_door(host="0.0.0.0", token=None)
    door = open_door(host="0.0.0.0", advertised_host="127.0.0.1", token=None, insecure=True)
    assert door.dial(token=None).task == PS


def test_on_loopback_no_token_is_needed(open_door: OpenDoor) -> None:
    door = open_door(token=None)
    for transport in ("auto", "tcp"):
        exchange(door.dial(token=None, transport=transport).socket, door.taken().socket)


@pytest.mark.parametrize("transport", ["auto", "tcp"])
@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"token": "wrong"}, UnauthenticatedError, "The job's token is wrong"),
        ({"token": None}, UnauthenticatedError, "The job's token is missing"),
        ({"expected_task": WORKER}, FailedPreconditionError, f"This is {PS}, not {WORKER}: two"),
        ({"expected_incarnation": 21}, OpError, "was restarted: incarnation 21 was expected, 22"),
    ],
)
def test_refusals_arrive_with_class_and_text(
    open_door: OpenDoor,
    caplog: pytest.LogCaptureFixture,
    transport: str,
    options: dict[str, Any],
    kind: type[OpError],
    text: str,
) -> None:
    caplog.set_level(logging.INFO, listener_module.__name__)
    door = open_door()
    with pytest.raises(kind) as caught:
        door.dial(transport=transport, **options)
    assert text in str(caught.value)
    assert str(caught.value).startswith(f"Task {options.get('expected_task', PS)} at ")
    door.listener.stop()  # afterwards nothing more is logged
    assert text in caplog.text
    assert door.opened.empty()


def test_a_stranger_is_sent_away_at_once_and_others_are_not_held_up(open_door: OpenDoor) -> None:
    door = open_door()
    for words in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes(4096), b"\x93sparkfX" + bytes(9)):
        stranger = door.connect()
        stranger.sendall(words)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(100) == b""
    assert door.dial(transport="tcp").task == PS


def test_random_bytes_open_no_channel_and_harm_nobody(open_door: OpenDoor) -> None:
    door = open_door()
    draw = random.Random(5)
    for turn in range(200):
        stranger = door.connect()
        begin = handshake.preamble() if turn % 2 else b""
        with contextlib.suppress(ConnectionError):
            stranger.sendall(begin + draw.randbytes(draw.randrange(100)))
        stranger.close()
    assert door.dial(transport="tcp").task == PS
    door.taken()
    assert door.opened.empty()


def test_a_caller_who_goes_away_after_any_byte_is_forgotten(open_door: OpenDoor) -> None:
    door = open_door()
    words = handshake.dialler(Self(WORKER, 11, TOKEN), PS)
    hello = next(words)
    assert isinstance(hello, bytes)
    for size in range(len(hello)):
        stranger = door.connect()
        stranger.sendall(hello[:size])
        stranger.close()
    door.dial(transport="tcp")
    door.taken()
    assert door.opened.empty()


def test_200_idle_callers_keep_nobody_waiting(open_door: OpenDoor) -> None:
    door = open_door()
    idle = [door.connect() for _ in range(200)]
    for number, each in enumerate(idle):
        each.sendall(handshake.preamble()[: number % 12])
    exchange(door.dial(transport="tcp").socket, door.taken().socket)


def test_who_is_too_slow_is_cut_off(open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "HANDSHAKE_TIMEOUT_S", 0.05)
    door = open_door()
    idle = [door.connect() for _ in range(3)]
    idle[1].sendall(handshake.preamble()[:5])
    for each in idle:
        assert each.recv(1) == b""


def test_with_all_places_taken_the_first_idle_callers_make_room(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "MAX_CALLERS", 4)
    monkeypatch.setattr(listener_module, "PATIENCE_S", 0.05)
    monkeypatch.setattr(listener_module, "HANDSHAKE_TIMEOUT_S", 10 * WAIT_S)
    door = open_door()
    idle = [door.connect() for _ in range(9)]
    exchange(door.dial(transport="tcp").socket, door.taken().socket)
    assert idle[0].recv(1) == b""


def test_with_all_places_taken_who_says_nothing_stays_while_nobody_waits(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "MAX_CALLERS", 1)
    door = open_door()
    first = door.connect()
    first.settimeout(0.2)
    with pytest.raises(TimeoutError):
        first.recv(1)
    first.settimeout(WAIT_S)
    door.dial(transport="tcp")
    assert first.recv(1) == b""


@pytest.mark.parametrize("held", [0, 1100], ids=["few descriptors", "many"])
def test_with_all_places_taken_one_who_dawdles_makes_room(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(listener_module, "MAX_CALLERS", 1)
    monkeypatch.setattr(listener_module, "PATIENCE_S", 0.0)
    with contextlib.ExitStack() as stack:
        for _ in range(held):
            stack.callback(os.close, os.dup(0))
        door = open_door()
        first = door.connect()
        first.sendall(next(handshake.dialler(Self(WORKER, 11, TOKEN), PS)))
        assert first.recv(12, socket.MSG_WAITALL) == handshake.preamble()
        door.dial(transport="tcp")
        while first.recv(100):
            continue
        exchange(door.dial(transport="tcp").socket, [door.taken(), door.taken()][1].socket)


def test_with_all_places_taken_the_next_one_waits_for_the_first_that_is_free(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "MAX_CALLERS", 1)
    monkeypatch.setattr(listener_module, "PATIENCE_S", WAIT_S)
    monkeypatch.setattr(listener_module, "HANDSHAKE_TIMEOUT_S", WAIT_S)
    door = open_door()
    first = door.connect()
    first.sendall(next(handshake.dialler(Self(WORKER, 11, TOKEN), PS)))
    assert first.recv(12, socket.MSG_WAITALL) == handshake.preamble()
    assert first.recv(1)  # and a challenge: it was admitted
    second = threading.Thread(target=door.dial, kwargs={"transport": "tcp"})
    second.start()
    second.join(0.05)
    assert second.is_alive()
    assert door.opened.empty()
    first.close()
    assert door.taken().task == WORKER
    second.join()


def test_a_fault_of_ours_costs_one_caller_its_channel(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    door = open_door()

    def fail(me: Self, records: bool) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(handshake, "listener", fail)
        assert door.connect().recv(1) == b""
    assert "ZeroDivisionError" in caplog.text
    exchange(door.dial(transport="tcp").socket, door.taken().socket)


def test_without_descriptors_nobody_is_let_in_for_a_while(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    door = open_door()
    accept, failures = socket.socket.accept, iter([errno.EMFILE, errno.ECONNABORTED])

    def fail(self: socket.socket) -> Any:
        number = next(failures, None)
        if number is not None:
            raise OSError(number, os.strerror(number))
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", fail)
    exchange(door.dial(transport="tcp").socket, door.taken().socket)
    assert "No caller is admitted for a while" in caplog.text


@linux
def test_another_user_is_refused_at_the_unix_socket(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = open_door()

    def is_ours(_: socket.socket) -> bool:
        return threading.current_thread().name != "channel-listener"

    monkeypatch.setattr(sockets, "is_same_user", is_ours)
    with pytest.raises(PermissionDeniedError, match="accepts only processes of its own user"):
        door.dial(transport="unix")


@linux
def test_the_user_at_the_other_end_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = socket.socketpair()
    with one, two:
        assert sockets.is_same_user(one)
        monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
        assert not sockets.is_same_user(one)


def test_where_unix_sockets_are_forbidden_there_is_tcp(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbid(_: str) -> socket.socket:
        raise PermissionError("a sandbox")

    monkeypatch.setattr(listener_module, "_listen_unix", forbid)
    door = open_door()
    assert door.address.unix_name == ""
    assert door.dial().transport == "tcp"


def test_a_channel_that_nobody_takes_is_closed(
    open_door: OpenDoor, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(opened: Opened) -> None:
        raise ValueError("no room")

    door = open_door(on_opened=refuse)
    assert door.dial(transport="tcp").socket.recv(1) == b""
    assert door.dial(transport="tcp").socket.recv(1) == b""
    assert f"The channel to {WORKER} could not be served" in caplog.text


def test_stop_cuts_off_who_has_no_channel_and_may_be_called_again(open_door: OpenDoor) -> None:
    door = open_door()
    idle = door.connect()
    idle.sendall(handshake.preamble())
    assert idle.recv(12, socket.MSG_WAITALL) == handshake.preamble()  # the dialogue has begun
    opened = door.dial(transport="tcp").socket
    stoppers = [threading.Thread(target=door.listener.stop) for _ in range(4)]
    for each in stoppers:
        each.start()
    for each in stoppers:
        each.join()
    door.listener.stop()
    assert idle.recv(1) == b""
    exchange(opened, door.taken().socket)  # open channels do not belong to the listener any more
    for transport in ("auto", "tcp"):
        with pytest.raises(UnavailableError, match="cannot be reached"):
            door.dial(transport=transport)
    with pytest.raises(FailedPreconditionError, match="A stopped listener cannot start again"):
        door.listener.start()


def test_stop_before_start_and_from_within(open_door: OpenDoor) -> None:
    Listener(PS, 1, host="127.0.0.1", token=TOKEN, on_opened=lambda _: None).stop()
    stopped = threading.Event()
    door: list[Any] = []

    def stop(opened: Opened) -> None:
        door[0].opened.put(opened)
        door[0].listener.stop()
        stopped.set()

    door.append(open_door(on_opened=stop))
    exchange(door[0].dial(transport="tcp").socket, door[0].taken().socket)
    assert stopped.wait(WAIT_S)


def test_many_dial_at_once(open_door: OpenDoor) -> None:
    door = open_door()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for transport in ("auto", "tcp"):
                door.dial(transport=transport)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(50)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures
    assert [door.taken().task for _ in range(100)] == [WORKER] * 100
