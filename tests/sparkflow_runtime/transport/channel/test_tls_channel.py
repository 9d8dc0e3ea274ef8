"""Channels with TLS: certificates of one job, of two jobs, and of only one side."""

import contextlib
import socket
import ssl
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.errors import (
    FailedPreconditionError,
    UnauthenticatedError,
    UnavailableError,
)
from sparkflow_runtime.security import Tls
from sparkflow_runtime.security.certificates import Authority
from sparkflow_runtime.transport.channel import caller, dialling, handshake, listener
from sparkflow_runtime.transport.channel.opening import Opened
from sparkflow_runtime.transport.channel.records import Records
from sparkflow_runtime.transport.channel.sockets import joined

OpenDoor = Callable[..., Any]
"""Makes a `Door`: see conftest.py."""
PS = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:1"


@pytest.fixture(scope="module")
def tls() -> tuple[Tls, Tls]:
    authority = Authority.create()
    return authority.issue(PS), authority.issue(WORKER)


@pytest.fixture(scope="module")
def other() -> Tls:
    return Authority.create().issue(WORKER)


def described(opened: Opened) -> tuple[str, int, str, bool]:
    return opened.task, opened.incarnation, opened.transport, opened.is_encrypted


@pytest.mark.parametrize("lacks", ["dialler", "listener"])
def test_a_channel_over_tcp_is_within_tls_where_one_side_lacks_cryptography(
    open_door: OpenDoor, tls: tuple[Tls, Tls], lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = dialling if lacks == "dialler" else caller
    monkeypatch.setattr(place, "records", SimpleNamespace(available=lambda: False))
    door = open_door(tls=tls[0])
    here = door.dial(tls=tls[1], transport="tcp")
    there = door.taken()
    assert described(here) == (PS, 22, "tcp", True)
    assert described(there) == (WORKER, 11, "tcp", True)
    for one, two in ((here.socket, there.socket), (there.socket, here.socket)):
        assert isinstance(one, ssl.SSLSocket)
        assert one.version() == "TLSv1.3"
        assert one.gettimeout() is None
        one.sendall(b"hello")
        assert two.recv(5) == b"hello"


def test_a_channel_over_tcp_has_encrypted_records(
    open_door: OpenDoor, tls: tuple[Tls, Tls]
) -> None:
    door = open_door(tls=tls[0])
    here = door.dial(tls=tls[1], transport="tcp")
    there = door.taken()
    assert described(here) == (PS, 22, "tcp", True)
    assert described(there) == (WORKER, 11, "tcp", True)
    for one, two in ((here.socket, there.socket), (there.socket, here.socket)):
        assert isinstance(one, Records)
        assert one.send(b"hello") == 5
        target = memoryview(bytearray(10))
        assert two.recv_into(target) == 5
        assert target[:5] == b"hello"


@pytest.mark.parametrize("has_token", [True, False])
def test_no_two_channels_have_the_same_keys(
    open_door: OpenDoor, tls: tuple[Tls, Tls], has_token: bool
) -> None:
    options = {} if has_token else {"token": None}
    door = open_door(tls=tls[0], insecure=True, **options)
    seen = set()
    for _ in range(3):
        link = door.dial(tls=tls[1], transport="tcp", **options).socket
        link.send(b"the same words")
        raw = door.taken().socket._link.recv(100)
        assert b"the same words" not in raw
        seen.add(raw)
    assert len(seen) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has abstract unix sockets")
def test_a_unix_socket_needs_no_tls(open_door: OpenDoor, tls: tuple[Tls, Tls]) -> None:
    door = open_door(tls=tls[0])
    assert described(door.dial(tls=tls[1])) == (PS, 22, "unix", False)


def test_a_token_is_needed_within_tls_as_well(open_door: OpenDoor, tls: tuple[Tls, Tls]) -> None:
    with pytest.raises(UnauthenticatedError, match="The job's token is wrong"):
        open_door(tls=tls[0]).dial(tls=tls[1], token="wrong", transport="tcp")


def test_a_listener_of_another_authority(
    open_door: OpenDoor, tls: tuple[Tls, Tls], other: Tls
) -> None:
    door = open_door(tls=tls[0])
    with pytest.raises(UnauthenticatedError, match=r"presents an invalid certificate: .*chain"):
        door.dial(tls=other, transport="tcp")
    with pytest.raises(UnauthenticatedError, match=r"presents an invalid certificate: .*mismatch"):
        door.dial(tls=replace(tls[1], server_name="example.org"), transport="tcp")
    with pytest.raises(UnauthenticatedError, match=r"presents an invalid certificate: .*mismatch"):
        door.dial(tls=replace(tls[1], server_name=""), transport="tcp")


def test_a_dialler_of_another_authority(
    open_door: OpenDoor, tls: tuple[Tls, Tls], other: Tls
) -> None:
    trusting = Tls(tls[1].ca, other.certificate, other.key, tls[1].server_name)
    with pytest.raises(
        UnauthenticatedError, match="rejects this task's certificate or TLS version"
    ):
        open_door(tls=tls[0]).dial(tls=trusting, transport="tcp")


def test_a_dialler_without_a_certificate(open_door: OpenDoor, tls: tuple[Tls, Tls]) -> None:
    door = open_door(tls=tls[0])
    context = ssl.create_default_context(cadata=tls[1].ca.decode())
    with context.wrap_socket(door.connect(), server_hostname=tls[1].server_name) as link:
        link.sendall(handshake.preamble())
        with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
            link.recv(1)


def test_tls_on_one_side_only(open_door: OpenDoor, tls: tuple[Tls, Tls]) -> None:
    with pytest.raises(
        FailedPreconditionError, match=r"This task requires TLS: pass tls=\.\.\. to all"
    ):
        open_door(tls=tls[0]).dial(transport="tcp")
    with pytest.raises(
        FailedPreconditionError, match=r"cannot set up TLS with this task: .* tls=\.\.\."
    ):
        open_door().dial(tls=tls[1], transport="tcp")


def test_old_versions_of_tls_are_refused(open_door: OpenDoor, tls: tuple[Tls, Tls]) -> None:
    door = open_door(tls=tls[0])
    context = tls[1].client_context()
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    link = door.connect()
    with pytest.raises(ssl.SSLError, match=r"(?i)version"):
        context.wrap_socket(link, server_hostname=tls[1].server_name)


def test_garbage_and_idle_callers_within_tls_harm_nobody(
    open_door: OpenDoor, tls: tuple[Tls, Tls]
) -> None:
    door = open_door(tls=tls[0])
    idle = [door.connect() for _ in range(20)]
    for number, each in enumerate(idle):
        each.sendall(b"\x16\x03\x01\x00\xfc"[: number % 6])
    for begin in (b"", b"\x16\x03\x01\x00\x10", handshake.preamble()):
        stranger = door.connect()
        stranger.sendall(begin + bytes(100))
        with contextlib.suppress(ConnectionResetError):
            while stranger.recv(100):
                continue
    assert door.dial(tls=tls[1], transport="tcp").is_encrypted


def test_a_dialler_within_tls_who_says_nothing_is_cut_off(
    open_door: OpenDoor, tls: tuple[Tls, Tls], monkeypatch: pytest.MonkeyPatch
) -> None:
    door = open_door(tls=tls[0])
    monkeypatch.setattr(listener, "HANDSHAKE_TIMEOUT_S", 0.3)
    link = (
        tls[1]
        .client_context()
        .wrap_socket(door.connect(), server_hostname=tls[1].server_name, suppress_ragged_eofs=True)
    )
    with link:
        assert link.recv(1) == b""


def test_stop_while_tls_is_being_agreed_on(open_door: OpenDoor, tls: tuple[Tls, Tls]) -> None:
    door = open_door(tls=tls[0])
    link = door.connect()
    bio_in, bio_out = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = tls[1].client_context().wrap_bio(bio_in, bio_out, server_hostname=tls[1].server_name)
    with pytest.raises(ssl.SSLWantReadError):
        talk.do_handshake()
    link.sendall(bio_out.read())
    assert link.recv(1)  # The listener has begun to answer.
    door.listener.stop()
    link.settimeout(30)
    with contextlib.suppress(ConnectionResetError):
        while link.recv(4096):
            continue


def test_a_listener_that_goes_away_during_tls(tls: tuple[Tls, Tls], open_door: OpenDoor) -> None:
    door = open_door()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = replace(door.address, port=silent.getsockname()[1])
        door.address = address
        with pytest.raises(UnavailableError, match="did not answer in time"):
            door.dial(tls=tls[1], transport="tcp", timeout_s=0.2)


@pytest.mark.parametrize(
    "sizes",
    [[10], [0, 5], [100_000], [3, 100_000], [40] * 5000, [65_535, 1, 1], [65_536, 2], [1, 0, 0]],
)
def test_small_pieces_go_to_tls_together_and_none_is_lost(sizes: list[int]) -> None:
    pieces = [np.full(size, number % 251, np.uint8) for number, size in enumerate(sizes)]
    everything = b"".join(pieces)
    rest = [memoryview(piece) for piece in pieces if len(piece)]
    sent, calls = b"", 0
    while rest:
        taken = bytes(joined(rest))
        assert taken == bytes(joined(rest))  # a repeated call has the same
        sent += taken
        calls += 1
        count = len(taken)
        while rest and count >= len(rest[0]):
            count -= len(rest.pop(0))
        if count:
            rest[0] = rest[0][count:]
    assert sent == everything
    assert calls <= 2 + len(everything) // 65_536
