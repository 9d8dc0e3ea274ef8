import socket
import threading
from collections.abc import Iterator

import grpc
import pytest

from sparkflow_runtime.errors import (
    DeadlineExceededError,
    OpError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from sparkflow_runtime.protos.attr_value_pb2 import AttrValue
from sparkflow_runtime.protos.config_pb2 import ConfigProto
from sparkflow_runtime.security import Tls
from sparkflow_runtime.security.certificates import Authority
from sparkflow_runtime.transport import rpc

SERVICE = "test.Service"


class Recorder:
    """What handlers saw."""

    def __init__(self) -> None:
        self.calls = 0
        self.release = threading.Event()

    def echo(self, request: ConfigProto) -> ConfigProto:
        self.calls += 1
        return request

    def count(self, request: ConfigProto, _: object) -> Iterator[ConfigProto]:
        self.calls += 1
        for number in range(request.intra_op_parallelism_threads):
            yield ConfigProto(intra_op_parallelism_threads=number)

    def block(self, _: object) -> ConfigProto:
        assert self.release.wait(20)
        return ConfigProto()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    yield made
    made.release.set()


@pytest.fixture
def server(recorder: Recorder) -> Iterator[rpc.RpcServer]:
    table = {
        "Echo": rpc.Method(recorder.echo, ConfigProto),
        "Count": rpc.Method(recorder.count, ConfigProto, streams=True, wants_context=True),
        "Block": rpc.Method(recorder.block, ConfigProto),
    }
    made = rpc.RpcServer([rpc.handlers(SERVICE, table)], host="127.0.0.1", port=0, token=RIGHT)
    made.start()
    yield made
    recorder.release.set()
    made.stop()


RIGHT = "right"


def stub(server: rpc.RpcServer, token: str | None = RIGHT) -> rpc.Stub:
    return rpc.Stub(rpc.channel(f"127.0.0.1:{server.port}"), SERVICE, token, "The peer")


PING = ConfigProto(intra_op_parallelism_threads=3)


def test_calls_and_streams(server: rpc.RpcServer) -> None:
    client = stub(server)
    assert client.call("Echo", PING, ConfigProto.FromString, 20) == PING
    assert client.call("Echo", PING, None, 20) == PING.SerializeToString()
    assert client.future("Echo", PING, ConfigProto.FromString).result(20) == PING
    found = client.stream("Count", PING, ConfigProto.FromString)
    assert [item.intra_op_parallelism_threads for item in found] == [0, 1, 2]
    with pytest.raises(UnimplementedError):
        client.call("Nothing", PING, ConfigProto.FromString, 20)


@pytest.mark.parametrize("token", [None, "", "wrong", "right ", "righ"])
def test_without_the_token_no_handler_runs(
    server: rpc.RpcServer, recorder: Recorder, token: str | None
) -> None:
    client = stub(server, token)
    with pytest.raises(UnauthenticatedError, match="token is missing or wrong"):
        client.call("Echo", PING, ConfigProto.FromString, 20)
    with pytest.raises(grpc.RpcError) as info:
        list(client.stream("Count", PING, ConfigProto.FromString))
    assert info.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert recorder.calls == 0


def test_who_is_known_and_refuses_is_no_longer_reached(server: rpc.RpcServer) -> None:
    """A call whose header was changed in transit, or the port now belongs to somebody else."""
    client = stub(server, "wrong")
    client.is_known = True
    with pytest.raises(UnavailableError, match=r"it refuses .*token is missing or wrong"):
        client.call("Echo", PING, ConfigProto.FromString, 20)
    with pytest.raises(grpc.RpcError) as info:
        list(client.stream("Count", PING, ConfigProto.FromString))
    assert type(client.error_of(info.value)) is UnavailableError


def test_deadlines(server: rpc.RpcServer) -> None:
    with pytest.raises(DeadlineExceededError):
        stub(server).call("Block", PING, ConfigProto.FromString, 0.05)


def test_a_port_in_use_is_explained(server: rpc.RpcServer) -> None:
    with pytest.raises(UnavailableError, match=f"Cannot listen on 127.0.0.1:{server.port}"):
        rpc.RpcServer([], host="127.0.0.1", port=server.port, token=None)


def test_off_loopback_credentials_are_needed() -> None:
    with pytest.raises(PermissionDeniedError, match=r"0\.0\.0\.0"):
        rpc.RpcServer([], host="0.0.0.0", port=0, token=None)
    for server in (
        rpc.RpcServer([], host="0.0.0.0", port=0, token="t"),
        rpc.RpcServer([], host="0.0.0.0", port=0, token=None, insecure=True),
    ):
        server.stop()


def test_stop_frees_the_port_and_can_be_repeated(server: rpc.RpcServer) -> None:
    assert not server.wait(0.01)
    server.stop()
    server.stop()
    assert server.wait(0.01)
    rpc.RpcServer([], host="127.0.0.1", port=server.port, token=None).stop()


def test_stop_does_not_wait_for_blocked_handlers(server: rpc.RpcServer) -> None:
    blocked = stub(server).future("Block", PING, ConfigProto.FromString)
    stub(server).call("Echo", PING, ConfigProto.FromString, 20)
    server.stop(grace_s=0.05)
    assert isinstance(blocked.exception(20), grpc.RpcError)


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
"""The first bytes of an HTTP/2 client: its preface, and that it has no settings."""


def strangers(server: rpc.RpcServer, said: bytes, count: int) -> list[socket.socket]:
    made = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
    for each in made:
        each.settimeout(20)
        each.sendall(said)
    return made


def is_cut_off(stranger: socket.socket) -> bool:
    """Waits until the server ends the connection; returns whether it does."""
    try:
        while stranger.recv(4096):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    finally:
        stranger.close()
    return True


@pytest.mark.parametrize("tls", [None, Authority.create().issue("server")], ids=["plain", "tls"])
@pytest.mark.parametrize("said", [b"", PREFACE[:10], b"\x16\x03\x01\x02\x00\x01"])
def test_who_does_not_say_what_it_should_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, said: bytes, tls: Tls | None
) -> None:
    monkeypatch.setattr(rpc, "HANDSHAKE_TIMEOUT_S", 0.5)
    server = rpc.RpcServer([], host="127.0.0.1", port=0, token=RIGHT, tls=tls)
    server.start()
    assert False not in [is_cut_off(each) for each in strangers(server, said, 20)]
    server.stop()


def test_connections_have_a_bound_and_those_within_it_go_on(
    monkeypatch: pytest.MonkeyPatch, recorder: Recorder
) -> None:
    monkeypatch.setattr(rpc, "max_connections", lambda: 8)
    table = rpc.handlers(SERVICE, {"Echo": rpc.Method(recorder.echo, ConfigProto)})
    server = rpc.RpcServer([table], host="127.0.0.1", port=0, token=RIGHT)
    server.start()
    client = stub(server)
    assert client.call("Echo", PING, ConfigProto.FromString, 20) == PING
    crowd = strangers(server, b"", 30)
    for each in crowd:
        each.settimeout(0.3)
    held = [each for each in crowd if not is_cut_off_now(each)]
    assert 0 < len(held) <= 7
    assert client.call("Echo", PING, ConfigProto.FromString, 20) == PING
    for each in crowd:
        each.close()
    # There is room again; gRPC retries until it is admitted.
    other = stub(server)
    rpc.await_ready(other._channel, "The peer", 20)
    assert other.call("Echo", PING, ConfigProto.FromString, 20) == PING
    server.stop()


def is_cut_off_now(stranger: socket.socket) -> bool:
    try:
        while stranger.recv(4096):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def test_messages_within_messages_have_a_bound() -> None:
    seen = []
    method = rpc.Method(lambda request: seen.append(request) or ConfigProto(), AttrValue)
    server = rpc.RpcServer(
        [rpc.handlers(SERVICE, {"Take": method})], host="127.0.0.1", port=0, token=RIGHT
    )
    server.start()
    client = stub(server)
    nested = b""
    for _ in range(5000):  # an AttrValue within a NameAttrList's map within an AttrValue ...
        entry = b"\x12" + _varint(len(nested)) + nested
        named = b"\x12" + _varint(len(entry)) + entry
        nested = b"\x52" + _varint(len(named)) + named
    with pytest.raises(OpError):
        client.call("Take", nested, ConfigProto.FromString, 20)
    assert seen == []
    assert client.call("Take", AttrValue(i=3), ConfigProto.FromString, 20) == ConfigProto()
    assert seen == [AttrValue(i=3)]
    server.stop()


def _varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def test_connections_leave_descriptors_to_the_rest_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import resource

    found = {}
    for soft in (100, 1024, 1 << 20, resource.RLIM_INFINITY):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        found[soft] = rpc.max_connections()
    assert list(found.values()) == [64, 768, 1 << 16, 1 << 16]
