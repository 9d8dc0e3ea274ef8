"""Listeners for tests of opening channels, and a check that they leave nothing behind."""

import contextlib
import dataclasses
import gc
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.transport.channel import dialling, wire
from sparkflow_runtime.transport.channel.address import ChannelAddress
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.channel.listener import Listener
from sparkflow_runtime.transport.channel.opening import Opened
from support.channels import Channel

PS = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:1"
TOKEN = "t" * 64
WAIT_S = 30.0


def dial_as(address: ChannelAddress, **options: Any) -> Opened:
    """Dials with the arguments of `dial`, and the fields of `Self` by name."""
    given = {"task": WORKER, "incarnation": 11, "token": TOKEN, **options}
    ways = {"expected_task": PS, "timeout_s": WAIT_S}
    fields = {each.name for each in dataclasses.fields(Self)}
    ways |= {name: given.pop(name) for name in [*given] if name not in fields}
    return dialling.dial(address, Self(**given), **ways)  # type: ignore[arg-type]


class Door:
    """A listener, and the channels that it opened."""

    def __init__(self, **options: Any) -> None:
        self.opened: queue.Queue[Opened] = queue.Queue()
        options = {"host": "127.0.0.1", "token": TOKEN, "on_opened": self.opened.put, **options}
        self.listener = Listener(PS, 22, **options)
        self.address = self.listener.address
        self.sockets: list[socket.socket] = []
        self.listener.start()

    def connect(self) -> socket.socket:
        """Returns a TCP connection without any messages."""
        made = socket.create_connection((self.address.host, self.address.port), WAIT_S)
        self.sockets.append(made)
        return made

    def dial(self, **options: Any) -> Opened:
        made = dial_as(self.address, **options)
        self.sockets.append(made.socket)
        return made

    def taken(self) -> Opened:
        """Returns the next channel that the listener opened."""
        found = self.opened.get(timeout=WAIT_S)
        self.sockets.append(found.socket)
        return found

    def close(self) -> None:
        self.listener.stop()
        while not self.opened.empty():
            self.opened.get().socket.close()
        for each in self.sockets:
            each.close()


OpenDoor = Callable[..., Door]


@pytest.fixture(autouse=True)
def wires_of_the_test() -> Iterator[None]:
    """Closes the sockets of wires that a test has created directly: ends release theirs."""
    before = dict(wire._SOCKETS)
    yield
    for fd, made in list(wire._SOCKETS.items()):
        if before.get(fd) is not made:
            del wire._SOCKETS[fd]
            made.close()


@pytest.fixture(scope="module")
def tidied() -> None:
    """Checks once that tests of other files have left nothing; this takes half a second."""
    gc.collect()


@pytest.fixture
def open_door(tidied: None) -> Iterator[OpenDoor]:
    """Creates listeners; afterwards everything of them must be gone."""
    threads, descriptors = set(threading.enumerate()), _descriptors()
    doors: list[Door] = []

    def make(**options: Any) -> Door:
        doors.append(Door(**options))
        return doors[-1]

    yield make
    for door in doors:
        door.close()
    assert set(threading.enumerate()) <= threads
    assert _descriptors() <= descriptors


@pytest.fixture(params=["tcp", "unix", "shm"])
def channel(request: pytest.FixtureRequest) -> Iterator[Channel]:
    if request.param == "shm" and not SharedArena.available():
        pytest.skip("no shared memory here")
    before = set(threading.enumerate())
    made = Channel(request.param)
    yield made
    made.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT_S)
    assert set(threading.enumerate()) <= before


def _descriptors() -> set[int]:
    if sys.platform != "linux":
        return set()
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith(("socket:", "anon_inode:")):
                found.add(int(name))
    return found
