"""Thousands of connections of strangers do not lock anybody out, and cost a bounded amount."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import sparkflow as tf
from sparkflow_runtime.security import Credentials, Tls, new_token
from sparkflow_runtime.security.certificates import Authority
from sparkflow_runtime.transport.channel import handshake
from sparkflow_runtime.transport.channel.address import ChannelAddress
from sparkflow_runtime.transport.channel.dialling import dial
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.channel.reactor import available
from support.crowds import crowd

pytestmark = [
    pytest.mark.skipif(not available(), reason="channels need Linux"),
    pytest.mark.timeout(300),
]

DESCRIPTORS = 1024
REACHED_S = 5.0
"""On a busy machine; measurements are in docs/reliability.md."""
MEMORY_MIB = 200
TASK = "/job:local/replica:0/task:0"
SAY = {
    "silent": b"",
    "half": b"PRI * HT",
    "http": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "tls": b"\x16\x03\x01\x02\x00\x01",
    "channel": handshake.preamble(),
    "hello": next(handshake.dialler(Self("/job:worker/replica:0/task:1", 1, "guessed"), TASK)),
}
"""What strangers send when they are connected, by name."""


@dataclass(frozen=True)
class Guarded:
    """A server in a process with few descriptors.

    Attributes:
        process: The server's process.
        target: The target for sessions.
        channel_port: The port of its tensor channels.
        credentials: The credentials of its peers.
    """

    process: subprocess.Popen[str]
    target: str
    channel_port: int
    credentials: Credentials

    @property
    def grpc_port(self) -> int:
        return int(self.target.rpartition(":")[2])

    def costs(self) -> tuple[int, int, int, int]:
        """Resident memory, its peak (MiB), descriptors and threads."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        resident, peak, descriptors, threads = map(int, self.process.stdout.readline().split())
        return resident, peak, descriptors, threads

    def session(self) -> float:
        """Returns the duration of a new session and its first step, in seconds."""
        started = time.monotonic()
        with tf.Graph().as_default():
            two = tf.constant(1.0) + 1.0
            with tf.Session(self.target, credentials=self.credentials) as session:
                assert session.run(two) == 2.0
        return time.monotonic() - started

    def channel(self) -> float:
        """Returns the duration of opening a new tensor channel over TCP."""
        me = Self(
            "/job:worker/replica:0/task:0",
            incarnation=1,
            token=self.credentials.token,
            tls=self.credentials.tls,
            transport="tcp",
        )
        started = time.monotonic()
        while True:
            try:
                opened = dial(
                    ChannelAddress("127.0.0.1", self.channel_port, "", ""),
                    me,
                    expected_task=TASK,
                    timeout_s=60.0,
                )
                break
            except tf.errors.UnavailableError:  # cut off before its first message
                assert time.monotonic() - started < REACHED_S
        opened.socket.close()
        return time.monotonic() - started


@contextmanager
def guarded(folder: Path | None = None) -> Iterator[Guarded]:
    token = new_token()
    tls: Tls | None = None
    if folder is not None:
        authority = Authority.create()
        authority.issue("server").save(folder)
        tls = authority.issue("client")
    program = str(Path(__file__).with_name("files") / "guarded_server.py")
    command = [sys.executable, program, token, str(DESCRIPTORS)]
    with subprocess.Popen(
        [*command, str(folder)] if folder else command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            target, port = process.stdout.readline().split()
            yield Guarded(process, target, int(port), Credentials(token, tls))
        finally:
            process.kill()


def measured(
    server: Guarded, port: int, count: int, said: bytes, comes_back: bool = False
) -> dict[str, float]:
    """Measures the durations for peers next to a crowd, and the server's costs."""
    resident, *_ = server.costs()
    found: dict[str, float] = {}
    with crowd(("127.0.0.1", port), count, said, comes_back):
        for _ in range(3):
            for name, reach in (("session", server.session), ("channel", server.channel)):
                found[name] = max(found.get(name, 0.0), reach())
            time.sleep(0.3)
        now, peak, descriptors, threads = server.costs()
    assert descriptors < DESCRIPTORS
    found |= {"MiB": now - resident, "peak MiB": peak - resident, "descriptors": descriptors}
    found["threads"] = threads
    return found


def check(server: Guarded, count: int, how: str, where: str, comes_back: bool = False) -> None:
    port = server.grpc_port if where == "grpc" else server.channel_port
    found = measured(server, port, count, SAY[how], comes_back)
    print(where, how, count, {key: round(value, 2) for key, value in found.items()})
    assert found["session"] < REACHED_S
    assert found["channel"] < REACHED_S
    assert found["peak MiB"] < MEMORY_MIB
    assert found["threads"] < 100


@pytest.fixture(scope="module")
def server() -> Iterator[Guarded]:
    with guarded() as made:
        made.session()
        yield made


@pytest.mark.parametrize(("where", "how"), [("grpc", "http"), ("channel", "silent")])
def test_more_strangers_than_places_keep_nobody_out(server: Guarded, where: str, how: str) -> None:
    check(server, 900, how, where)


@pytest.mark.nightly
@pytest.mark.parametrize("where", ["grpc", "channel"])
@pytest.mark.parametrize("how", list(SAY))
def test_ten_thousand_strangers(server: Guarded, where: str, how: str) -> None:
    check(server, 10_000, how, where)


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["silent", "tls", "http"])
def test_ten_thousand_strangers_at_ports_with_tls(tmp_path: Path, how: str) -> None:
    with guarded(tmp_path) as server:
        server.session()
        for where in ("grpc", "channel"):
            check(server, 10_000, how, where)


@pytest.mark.nightly
@pytest.mark.parametrize("where", ["grpc", "channel"])
def test_strangers_who_come_back_at_once(server: Guarded, where: str) -> None:
    """If channels are besieged, tensors of new peers use gRPC: so sessions are measured."""
    port = server.grpc_port if where == "grpc" else server.channel_port
    with crowd(("127.0.0.1", port), 2000, SAY["http"], comes_back=True):
        took = [server.session() for _ in range(5)]
        _, _, descriptors, threads = server.costs()
    print(where, [round(each, 2) for each in took], descriptors, threads)
    assert max(took) < 2 * REACHED_S
    assert descriptors < DESCRIPTORS
    assert threads < 100
