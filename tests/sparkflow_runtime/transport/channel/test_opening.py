"""Both sides of a dialogue in one thread: each continues as far as its socket allows."""

import selectors
import socket
from collections.abc import Generator
from typing import Any

import pytest

from sparkflow_runtime.errors import UnauthenticatedError
from sparkflow_runtime.transport.channel import handshake, opening
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.channel.opening import Opened, open_channel

PS = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:1"
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture(params=["tcp", "unix"])
def pair(request: pytest.FixtureRequest) -> Generator[Pair, None, None]:
    if request.param == "unix":
        one, two = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as door:
            one = socket.create_connection(door.getsockname())
            two, _ = door.accept()
    with one, two:
        yield one, two


def both(*steps: Generator[int, None, Any]) -> list[Any]:
    """Returns the results of the generators, advanced in turn until all have ended."""
    found: dict[int, Any] = {}
    while len(found) < len(steps):
        for number, each in enumerate(steps):
            if number not in found:
                try:
                    assert next(each) in (selectors.EVENT_READ, selectors.EVENT_WRITE)
                except StopIteration as end:
                    found[number] = end.value
    return [found[number] for number in range(len(steps))]


def test_each_side_learns_who_the_other_is_and_how_the_channel_goes(pair: Pair) -> None:
    said = list[str]()
    here, there = both(
        open_channel(pair[0], handshake.dialler(Self(WORKER, 11, "token"), PS)),
        open_channel(
            pair[1], handshake.listener(Self(PS, 22, "token")), lambda: said.append("something")
        ),
    )
    assert (here.task, here.incarnation) == (PS, 22)
    assert (there.task, there.incarnation) == (WORKER, 11)
    assert len(said) == 3  # preamble, challenge, welcome
    is_unix = pair[0].family is socket.AF_UNIX
    for each in (here, there):
        assert each.transport == ("unix" if is_unix else "tcp")
        assert not each.is_encrypted
        assert each.socket.gettimeout() is None
    if is_unix:
        assert here.seals is there.seals is None
    else:
        assert here.seals == there.seals[::-1]


def test_what_one_side_refuses_the_other_is_told(pair: Pair) -> None:
    listening = open_channel(pair[1], handshake.listener(Self(PS, 22, "token")))
    dialling = open_channel(pair[0], handshake.dialler(Self(WORKER, 11, "guess"), PS))
    with pytest.raises(UnauthenticatedError, match="token is wrong"):
        both(dialling, listening)
    with pytest.raises(UnauthenticatedError, match="refuses the channel: The job's token is wrong"):
        both(dialling)


def test_who_goes_away_meanwhile(pair: Pair) -> None:
    steps = open_channel(pair[1], handshake.listener(Self(PS, 22)))
    next(steps)
    pair[0].sendall(handshake.preamble()[:5])
    next(steps)
    pair[0].close()
    with pytest.raises(ConnectionResetError, match="closed the connection while"):
        both(steps)


def test_many_bytes_go_in_pieces(pair: Pair) -> None:
    data = bytes(range(256)) * 20_000
    for each in pair:
        each.setblocking(False)
    sent, received = both(opening.send(pair[0], data), opening.receive(pair[1], len(data)))
    assert (sent, received) == (None, data)


def test_what_who_closes_has_said_can_be_read(pair: Pair) -> None:
    for each in pair:
        each.setblocking(False)
    both(opening.send(pair[1], b"no"))
    pair[1].shutdown(socket.SHUT_RDWR)
    pair[0].shutdown(socket.SHUT_WR)  # and so sending fails
    assert both(opening.send(pair[0], b"words"), opening.receive(pair[0], 2)) == [None, b"no"]


def test_a_plain_socket_is_not_encrypted() -> None:
    with socket.socket() as link:
        assert not Opened(link, PS, 1).is_encrypted
        assert not opening.is_unix(link)
