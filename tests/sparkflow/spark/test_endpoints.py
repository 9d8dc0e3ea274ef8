"""Where processes listen: ports, ranges of them, interfaces."""

import contextlib
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sparkflow.spark import endpoints
from sparkflow.spark.endpoints import Ports, joined, network_of, require_interface
from sparkflow_runtime.errors import ResourceExhaustedError, UnavailableError


@pytest.mark.parametrize(
    ("value", "first", "last", "text"),
    [
        ("", 0, 0, ""),
        ("40000-40100", 40000, 40100, "40000-40100"),
        (" 40000 - 40100 ", 40000, 40100, "40000-40100"),
        ("40000", 40000, 40000, "40000"),
        (40000, 40000, 40000, "40000"),
        ("1-65535", 1, 65535, "1-65535"),
        ("7-7", 7, 7, "7"),
    ],
)
def test_ports(value: object, first: int, last: int, text: str) -> None:
    found = Ports.of(value)
    assert (found.first, found.last, str(found)) == (first, last, text)


@pytest.mark.parametrize(
    "value", ["0", 0, "40100-40000", "1-65536", "x", "40000-", "-1", -1, "\u0661"]
)
def test_what_are_no_ports(value: object) -> None:
    with pytest.raises(ValueError, match="use one port or a range from 1 to 65535"):
        Ports.of(value)


@pytest.mark.parametrize("value", [True, 40000.0, None, [40000]])
def test_ports_of_a_wrong_type(value: object) -> None:
    with pytest.raises(TypeError, match="ports must be a string such as"):
        Ports.of(value)


@pytest.fixture
def three() -> Iterator[tuple[Ports, list[socket.socket]]]:
    """Three consecutive ports, on each of which somebody listens."""
    for _ in range(100):
        with contextlib.ExitStack() as stack:
            taken = [stack.enter_context(socket.socket()) for _ in range(3)]
            taken[0].bind(("127.0.0.1", 0))
            first = taken[0].getsockname()[1]
            try:
                for offset, each in enumerate(taken[1:], 1):
                    each.bind(("127.0.0.1", first + offset))
            except (OSError, OverflowError):
                continue
            for each in taken:
                each.listen()
            yield Ports(first, first + 2), taken
            return
    pytest.fail("no three ports in a row are free")


def test_a_port_in_use_moves_to_the_next(three: tuple[Ports, list[socket.socket]]) -> None:
    ports, taken = three
    taken[1].close()
    taken[2].close()
    assert ports.listen("127.0.0.1", 1, list) == [ports.first + 1]
    assert ports.listen("127.0.0.1", 2, list) == [ports.first + 1, ports.first + 2]


def test_a_port_that_is_taken_meanwhile_moves_on(
    three: tuple[Ports, list[socket.socket]],
) -> None:
    ports, taken = three
    for each in taken[1:]:
        each.close()

    def make(found: Sequence[int]) -> int:
        if found[0] == ports.first + 1:
            raise UnavailableError(message="somebody was faster")
        return found[0]

    assert ports.listen("127.0.0.1", 1, make) == ports.first + 2


def test_an_exhausted_range_is_named_with_the_host(
    three: tuple[Ports, list[socket.socket]],
) -> None:
    ports, taken = three
    taken[2].close()
    with pytest.raises(ResourceExhaustedError) as caught:
        ports.listen("127.0.0.1", 2, list)
    expected = (
        f"ports={ports} on {socket.gethostname()} (127.0.0.1): 2 of these 3 ports must be free"
    )
    assert expected in caught.value.message


def bind(port: int) -> int:
    with socket.socket() as held:
        try:
            held.bind(("127.0.0.1", port))
        except OSError as error:
            raise UnavailableError(message=str(error)) from error
        return int(held.getsockname()[1])


def test_a_port_for_later_is_none_that_a_client_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    least = endpoints._least_of_clients()
    assert least == int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = {Ports().listen_later("127.0.0.1", bind) for _ in range(20)}
    assert len(found) > 1
    if least > 20_000:
        assert all(15_000 <= port < least for port in found)
    monkeypatch.setattr(endpoints, "_least_of_clients", lambda: 1024)  # there are no others
    assert Ports().listen_later("127.0.0.1", bind) >= 1024


def test_a_port_for_later_that_is_taken_meanwhile() -> None:
    asked = []

    def hold(port: int) -> int:
        asked.append(port)
        if len(asked) < 3:
            raise UnavailableError(message="somebody was faster")
        return port

    assert Ports().listen_later("127.0.0.1", hold) == asked[-1]
    assert len(set(asked)) == 3


def test_a_port_for_later_of_a_range(three: tuple[Ports, list[socket.socket]]) -> None:
    ports, taken = three
    taken[1].close()
    assert ports.listen_later("127.0.0.1", bind) == ports.first + 1


def test_any_ports_are_the_systems_choice() -> None:
    assert Ports().listen("127.0.0.1", 2, list) == [0, 0]


def test_interfaces() -> None:
    assert require_interface(" eth0 ") == "eth0"
    assert require_interface("10.1.2.3/16") == "10.1.2.3/16"
    assert str(network_of("10.1.2.3/16")) == "10.1.0.0/16"
    assert str(network_of("[::1]")) == "::1/128"
    assert network_of("eth0") is None
    with pytest.raises(ValueError, match="is not a network"):
        require_interface("eth0/7")
    with pytest.raises(TypeError, match="a string such as 'eth0'"):
        require_interface(7)


def test_addresses_with_ports() -> None:
    assert joined("10.0.0.1", 7) == "10.0.0.1:7"
    assert joined("::1", 7) == joined("[::1]", 7) == "[::1]:7"
