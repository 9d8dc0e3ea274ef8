import threading
from collections.abc import Iterator

import grpc
import pytest

from sparkflow_runtime.errors import (
    DeadlineExceededError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from sparkflow_runtime.protos.config_pb2 import ConfigProto
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
