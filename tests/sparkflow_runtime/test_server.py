import itertools
import socket
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from sparkflow_runtime import security
from sparkflow_runtime.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    PermissionDeniedError,
    UnavailableError,
)
from sparkflow_runtime.master import waiting
from sparkflow_runtime.master.client import open_session
from sparkflow_runtime.master.service import SERVICE, TENSORFLOW_SERVICE, MasterService
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.protos.config_pb2 import ConfigProto
from sparkflow_runtime.server import Server
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.transport import rpc
from sparkflow_runtime.transport.channel.reactor import available
from sparkflow_runtime.transport.peers import WORKER_SERVICE
from sparkflow_runtime.worker import service as worker_service
from sparkflow_runtime.worker.worker import Worker
from support.graphs import const, graph_def, node, variable
from support.listening import listening


def cluster_of(*addresses: str) -> ClusterDef:
    cluster = ClusterDef()
    job = cluster.job.add(name="worker")
    for index, address in enumerate(addresses):
        job.tasks[index] = address
    return cluster


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(None, "worker", 0, port=0, token="right")
    made.start()
    yield made
    made.stop()


def every_rpc() -> list[Any]:
    worker = worker_service.methods(Worker())
    master = MasterService(
        lambda config, is_wanted: pytest.fail("reached"), lambda filters: pytest.fail("reached")
    ).methods()
    tables = [(WORKER_SERVICE, worker), (SERVICE, master), (TENSORFLOW_SERVICE, master)]
    return [
        pytest.param(service, name, method, token, id=f"{service.split('.')[0]}-{name}-{token}")
        for (service, table), token in itertools.product(tables, (None, "wrong"))
        for name, method in table.items()
    ]


@pytest.mark.parametrize(("service", "name", "method", "token"), every_rpc())
def test_no_rpc_without_the_token(
    server: Server, service: str, name: str, method: rpc.Method, token: str | None
) -> None:
    with grpc.insecure_channel(server.address) as channel:
        path = f"/{service}/{name}"
        call = channel.unary_stream(path) if method.streams else channel.unary_unary(path)
        with pytest.raises(grpc.RpcError) as info:
            list(call(b"", metadata=security.metadata(token), timeout=20))
        assert info.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert "right" not in info.value.details()


def test_the_right_token_opens_every_service(server: Server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        for service, name in (
            (WORKER_SERVICE, "GetStatus"),
            (SERVICE, "ListDevices"),
            (TENSORFLOW_SERVICE, "ListDevices"),
        ):
            call = channel.unary_unary(f"/{service}/{name}")
            assert call(b"", metadata=security.metadata("right"), timeout=20)


def test_a_server_others_can_reach_needs_a_token() -> None:
    with pytest.raises(PermissionDeniedError, match="pass a token"):
        Server(None, "worker", 0, port=0, host="0.0.0.0")
    for options in ({"token": "t"}, {"insecure": True}):
        made = Server(
            None, "worker", 0, port=0, host="0.0.0.0", advertised_host="127.0.0.1", **options
        )
        assert made.target == f"grpc://127.0.0.1:{made.port}"
        made.stop()


def test_a_port_in_use_is_explained(server: Server) -> None:
    with pytest.raises(UnavailableError, match="Is the port in use"):
        Server(cluster_of(server.address), "worker", 0)


def test_wrong_clusters_are_refused(server: Server) -> None:
    with pytest.raises(InvalidArgumentError, match="Task 3 of job 'worker' is not in the cluster"):
        Server(cluster_of("127.0.0.1:0"), "worker", 3)
    for address in ("nowhere", "127.0.0.1:x", "127.0.0.1:99999"):
        with pytest.raises(InvalidArgumentError, match="is not an address"):
            Server(cluster_of(address), "worker", 0)
    ps = ClusterDef()
    ps.job.add(name="ps").tasks[0] = "127.0.0.1:1"
    with pytest.raises(InvalidArgumentError, match="task:0 is not in the cluster of /job:ps"):
        server.set_cluster(ps)


def test_join_ends_with_stop_and_a_stopped_server_stays_stopped() -> None:
    server = Server(None, "worker", 0, port=0)
    server.start()
    assert not server.join(0.01)
    joiner = threading.Thread(target=server.join)
    joiner.start()
    stoppers = [threading.Thread(target=server.stop) for _ in range(4)]
    for thread in stoppers:
        thread.start()
    for thread in (joiner, *stoppers):
        thread.join(20)
        assert not thread.is_alive()
    with pytest.raises(FailedPreconditionError, match="cannot be started again"):
        server.start()


def test_a_server_that_never_started_leaves_nothing_that_listens() -> None:
    before = listening()
    server = Server(None, "worker", 0, port=0)
    assert listening() > before
    server.stop()
    server.stop()
    assert listening() == before


def test_a_server_that_cannot_have_its_second_port_leaves_its_first_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        before = listening()
        for port in (taken.getsockname()[1], -1, 1 << 16):
            with pytest.raises(UnavailableError, match=f"tensor channels on .* port {port}: "):
                Server(None, "worker", 0, port=0, channel_port=port)
        assert listening() == before


@pytest.mark.skipif(not available(), reason="tensors come by gRPC here")
def test_whatever_fails_after_the_ports_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no more memory")

    before = listening()
    for name in ("Peers", "trust", "Listener"):
        with monkeypatch.context() as patch:
            patch.setattr(f"sparkflow_runtime.server.{name}", fail)
            with pytest.raises(OSError, match="no more memory"):
                Server(None, "worker", 0, port=0)
    assert listening() == before


def test_a_session_waits_for_tasks_that_start_later() -> None:
    first, second = (Server(None, "worker", index, port=0) for index in (0, 1))
    cluster = cluster_of(first.address, second.address)
    for server in (first, second):
        server.set_cluster(cluster)
    opened: list[str] = []

    def use() -> None:
        session = open_session(first.target)
        opened.extend(device.name for device in session.list_devices())
        session.close()

    # A bound port that is not served yet accepts connections and does not answer.
    client = threading.Thread(target=use)
    client.start()
    first.start()
    second.start()
    client.join(60)
    assert not client.is_alive()
    assert len(opened) == 2
    first.stop()
    second.stop()


def test_tasks_that_are_missing_are_told_again_and_again_and_when_time_is_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting, "TELL_INTERVAL_S", 0.1)
    gone = Server(None, "worker", 1, port=0)
    gone.stop()
    server = Server(None, "worker", 0, port=0)
    server.set_cluster(cluster_of(server.address, gone.address))
    server.start()
    try:
        name = "no response from /job:worker/replica:0/task:1$"
        with pytest.raises(DeadlineExceededError, match=name):
            open_session(server.target, create_timeout_s=1.0)
        config = ConfigProto(operation_timeout_in_ms=500)
        with pytest.raises(DeadlineExceededError, match=name):
            open_session(server.target, config=config)
        only_this = ConfigProto(device_filters=["/job:ps"])
        open_session(server.target, config=only_this, create_timeout_s=10.0).close()
    finally:
        server.stop()
    line = "CreateSession still waiting for response from worker: /job:worker/replica:0/task:1"
    assert [record.getMessage() for record in caplog.records].count(line) > 1


def test_a_server_that_stops_ends_the_wait_for_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()
    monkeypatch.setattr(waiting, "TELL_INTERVAL_S", 0.05)
    monkeypatch.setattr(waiting._log, "warning", lambda *arguments: told.set())
    gone = Server(None, "worker", 1, port=0)
    gone.stop()
    server = Server(None, "worker", 0, port=0)
    server.set_cluster(cluster_of(server.address, gone.address))
    server.start()
    ends: list[OpError] = []

    def use() -> None:
        try:
            open_session(server.target)
        except OpError as error:
            ends.append(error)

    client = threading.Thread(target=use)
    client.start()
    assert told.wait(20)
    server.stop()
    client.join(20)
    assert [type(error) for error in ends] in ([UnavailableError], [CancelledError])


def test_two_tasks_with_one_address_are_found_out() -> None:
    server = Server(None, "worker", 0, port=0)
    server.set_cluster(cluster_of(server.address, server.address))
    server.start()
    try:
        with pytest.raises(FailedPreconditionError, match=r"task:1 at .* is /job:worker/.*task:0"):
            open_session(server.target, create_timeout_s=20.0)
    finally:
        server.stop()


def test_ten_tasks_share_variables() -> None:
    before = set(threading.enumerate())
    with LocalCluster(2, 8, token="t") as cluster:
        nodes = [
            *(variable(f"v{ps}", (4,), device=f"/job:ps/task:{ps}") for ps in (0, 1)),
            const("zero", [0.0] * 4),
            node("init0", "Assign", "v0", "zero"),
            node("init1", "Assign", "v1", "zero"),
        ]
        for worker in range(8):
            one = const(f"one{worker}", [float(worker)] * 4)
            step = node(
                f"step{worker}",
                "AddV2",
                one.name,
                f"one{worker}",
                device=f"/job:worker/task:{worker}",
            )
            adds = [
                node(f"add{worker}/{ps}", "AssignAdd", f"v{ps}", step.name, use_locking=True)
                for ps in (0, 1)
            ]
            nodes += [one, step, *adds]
        first = open_session(cluster.target("worker", 0), credentials="t")
        first.extend(graph_def(*nodes))
        first.run([], {}, ["init0", "init1"])
        first.run([], {}, [f"add{worker}/{ps}" for worker in range(8) for ps in (0, 1)])
        errors: list[BaseException] = []

        def work(worker: int) -> None:
            try:
                session = open_session(cluster.target("worker", worker), credentials="t")
                session.extend(graph_def(*nodes))
                for _ in range(5):
                    session.run([], {}, [f"add{worker}/0", f"add{worker}/1"])
                session.close()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert errors == []
        values, _ = first.run(["v0:0", "v1:0"], {}, [])
        np.testing.assert_array_equal(values, np.full((2, 4), 6 * 2 * sum(range(8))))
        first.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
        assert not thread.is_alive(), thread
