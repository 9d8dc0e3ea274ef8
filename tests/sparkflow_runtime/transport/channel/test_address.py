import sys

import pytest

from sparkflow_runtime.protos import worker_pb2
from sparkflow_runtime.transport.channel import address
from sparkflow_runtime.transport.channel.address import ChannelAddress


def test_an_address_survives_its_message() -> None:
    given = ChannelAddress("::1", 4000, "sparkflow-x", "host")
    assert ChannelAddress.from_proto(given.export()) == given


def test_a_message_without_a_place_is_no_address() -> None:
    assert ChannelAddress.from_proto(worker_pb2.ChannelAddress()) is None
    for port in (-1, 0, 65536):
        message = worker_pb2.ChannelAddress(host="127.0.0.1", port=port)
        assert ChannelAddress.from_proto(message) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_task_that_listens_everywhere_is_dialled_where_it_was_asked(host: str) -> None:
    message = worker_pb2.ChannelAddress(host=host, port=4000)
    for asked_at, expected in (("ps0:2222", "ps0"), ("[::1]:2222", "::1"), ("", host)):
        found = ChannelAddress.from_proto(message, asked_at)
        assert found is not None
        assert found.host == expected
    named = worker_pb2.ChannelAddress(host="10.0.0.1", port=4000)
    assert ChannelAddress.from_proto(named, "ps0:2222") == ChannelAddress("10.0.0.1", 4000)


@pytest.mark.parametrize("name", ["x" * 101, "é" * 51, "a\0b"])
def test_a_unix_name_that_the_kernel_does_not_take_is_left_out(name: str) -> None:
    message = worker_pb2.ChannelAddress(host="127.0.0.1", port=1, unix_name=name, host_id="h")
    found = ChannelAddress.from_proto(message)
    assert found == ChannelAddress("127.0.0.1", 1, "", "h")


def test_ipv6_hosts_are_written_in_brackets() -> None:
    assert str(ChannelAddress("::1", 80)) == "[::1]:80"
    assert str(ChannelAddress("example.org", 80)) == "example.org:80"


def test_here_is_where_the_host_is_the_same_and_has_a_unix_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(address, "own_host_id", lambda: "ours")
    assert ChannelAddress("h", 1, "name", "ours").is_here
    assert not ChannelAddress("h", 1, "name", "theirs").is_here
    assert not ChannelAddress("h", 1, "", "ours").is_here
    monkeypatch.setattr(address, "own_host_id", lambda: "")
    assert not ChannelAddress("h", 1, "name", "").is_here


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has abstract unix sockets")
def test_names_of_unix_sockets_are_never_the_same_and_the_host_is() -> None:
    assert len({address.new_unix_name() for _ in range(100)}) == 100
    assert address.own_host_id() == address.own_host_id() != ""


def test_other_systems_have_no_unix_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert address.new_unix_name() == ""
