"""Which connections are closed to make room, tested on sockets of the test."""

import errno
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from sparkflow_runtime.security import strangers as module
from sparkflow_runtime.security.strangers import Strangers

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")

WAIT_S = 20.0


class Port:
    """A listening socket and the connections to it, ours and those that were accepted."""

    def __init__(self, family: socket.AddressFamily = socket.AF_INET) -> None:
        host = "127.0.0.1" if family == socket.AF_INET else "::1"
        self.door = socket.create_server((host, 0), family=family, backlog=64)
        self.accepted: list[socket.socket] = []
        self.callers: list[socket.socket] = []

    @property
    def number(self) -> int:
        return int(self.door.getsockname()[1])

    def call(self, count: int) -> None:
        for _ in range(count):
            self.callers.append(socket.create_connection(self.door.getsockname()[:2], WAIT_S))
            self.accepted.append(self.door.accept()[0])

    def open(self) -> list[bool]:
        """Returns which callers have not been cut off, in the order of arrival."""
        found = []
        for each in self.callers:
            each.setblocking(False)
            try:
                found.append(each.recv(1) != b"")
            except BlockingIOError:
                found.append(True)
        return found

    def close(self) -> None:
        for each in (self.door, *self.accepted, *self.callers):
            each.close()


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6], ids=["ipv4", "ipv6"])
def port(request: pytest.FixtureRequest) -> Iterator[Port]:
    try:
        made = Port(request.param)
    except OSError:
        pytest.skip("this machine has no IPv6")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", -1.0)
    monkeypatch.setattr(module, "HURRIED_S", -1.0)
    monkeypatch.setattr(module, "_is_below", lambda count: False)


def peer(link: socket.socket) -> str:
    """Returns the other end's address as written by gRPC."""
    host, number = link.getpeername()[:2]
    return f"ipv6:%5B{host}%5D:{number}" if ":" in host else f"ipv4:{host}:{number}"


def test_those_that_came_first_and_made_no_call_go(port: Port) -> None:
    made = Strangers()
    other = Port()
    other.call(5)
    for _ in range(3):  # three times three arrive
        port.call(3)
        made._look({port.number: 100})
    made.admit(peer(port.accepted[0]))
    made.admit(peer(port.accepted[4]))
    assert made._look({port.number: 3})
    first = port.open()
    assert first[0]
    assert first[4]
    assert first[6:] == [True] * 3
    assert first.count(True) == 5
    assert other.open() == [True] * 5
    other.close()
    assert not made._look({port.number: 100})


def test_a_connection_stays_for_a_moment_whatever_happens(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 1000.0)
    monkeypatch.setattr(module, "HURRIED_S", 1000.0)
    port.call(4)
    assert Strangers()._look({port.number: 1})
    assert port.open() == [True] * 4
    monkeypatch.setattr(module, "HURRIED_S", -1.0)
    Strangers()._look({port.number: 3})  # fewer than half as many again
    assert port.open() == [True] * 4
    Strangers()._look({port.number: 1})
    assert port.open().count(True) == 1


def test_a_descriptor_that_is_something_else_by_now_is_left_alone(port: Port) -> None:
    port.call(1)
    seen = module._look_at(port.accepted[0].fileno(), {port.number: 1}, 0.0)
    assert seen is not None
    other = Port()
    other.call(1)
    os.dup2(other.accepted[0].fileno(), seen.descriptor)
    module._shut(seen)
    assert other.open() == [True]
    other.close()


def test_names_of_peers_that_are_gone_are_forgotten(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_is_below", lambda count: True)
    made = Strangers()
    port.call(1)
    made.admit(peer(port.accepted[0]))
    for number in range(module._MANY_NAMES):
        made.admit(f"ipv4:10.0.0.1:{number}")
    made._look({port.number: 1})
    assert made._admitted == {peer(port.accepted[0])}


def test_what_could_not_be_looked_at_is_not_taken_for_gone(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no descriptor is left, a peer may still be one later, and so may a stranger."""

    def exhausted(descriptor: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    made = Strangers()
    port.call(3)
    made.admit(peer(port.accepted[0]))
    with monkeypatch.context() as patch:
        patch.setattr(os, "dup", exhausted)
        with pytest.raises(OSError, match="Too many"):
            made._look({port.number: 1})
    assert made._admitted == {peer(port.accepted[0])}
    made._look({port.number: 1})
    assert port.open() == [True, False, True]


def test_the_thread_goes_on_where_there_is_no_descriptor_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = threading.Semaphore(0)

    def exhausted(count: int) -> bool:
        looked.release()
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(module, "_is_below", exhausted)
    made = Strangers()
    made.watch(1, 10)
    for _ in range(2):
        assert looked.acquire(timeout=WAIT_S)
    thread = made._thread
    made.forget(1)
    assert thread is not None
    thread.join(WAIT_S)


def test_peers_within_one_link_are_known_without_its_name() -> None:
    assert module._place("ipv6:%5Bfe80::1%252%5D:4711") == "fe80::1:4711"


def test_there_is_a_thread_while_there_is_a_port() -> None:
    def working() -> int:
        return sum(each.name == "strangers" for each in threading.enumerate())

    before = working()
    made = Strangers()
    made.watch(1, 10)
    made.watch(2, 10)
    made.watch(2, 10)
    assert working() == before + 1
    made.forget(1)
    assert working() == before + 1
    made.forget(2)
    made.forget(2)
    deadline = time.monotonic() + WAIT_S
    while working() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert working() == before
    made.watch(3, 10)
    assert working() == before + 1
    made.forget(3)
