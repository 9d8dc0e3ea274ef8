"""A cluster with TLS: sessions, steps over two tasks, and who is not admitted."""

from collections.abc import Iterator

import numpy as np
import pytest

from sparkflow_runtime import security
from sparkflow_runtime.errors import DeadlineExceededError, UnauthenticatedError, UnavailableError
from sparkflow_runtime.master.client import open_session
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.security.certificates import Authority
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.transport import rpc
from sparkflow_runtime.transport.channel.address import Transport
from sparkflow_runtime.transport.task_names import task_name
from support.graphs import const, graph_def, node, placeholder, variable

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
GRAPH = graph_def(
    variable("v", (2,), device=PS),
    const("one", [1, 1], device=WORKER),
    node("init", "Assign", "v", "one", device=PS),
    placeholder("x", (2,), device=WORKER),
    node("sum", "AddV2", "v", "x", device=WORKER),
)
TOKEN = security.new_token()


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, 1, token=TOKEN, tls=True) as made:
        yield made


def run_a_step(cluster: LocalCluster) -> None:
    session = open_session(cluster.target("worker", 0), credentials=cluster.credentials)
    try:
        session.extend(GRAPH)
        session.run([], {}, ["init"])
        (result,), _ = session.run(["sum:0"], {"x:0": np.float32([2, 3])}, [])
        np.testing.assert_array_equal(result, [3, 4])
    finally:
        session.close()


def test_a_step_over_two_tasks(cluster: LocalCluster) -> None:
    run_a_step(cluster)


@pytest.mark.parametrize("transport", ["tcp", "grpc"])
def test_tensors_travel_encrypted(transport: Transport) -> None:
    size = 1_000_000  # many TLS records
    graph = graph_def(
        variable("v", (size,), device=PS),
        placeholder("x", (size,), device=WORKER),
        node("init", "Assign", "v", "x", device=PS),
        node("negated", "Neg", "v", device=WORKER),
    )
    value = np.arange(size, dtype=np.float32)
    with LocalCluster(1, 1, token=TOKEN, tls=True, transport=transport) as cluster:
        session = open_session(cluster.target("worker", 0), credentials=cluster.credentials)
        session.extend(graph)
        session.run([], {"x:0": value}, ["init"])
        (result,), _ = session.run(["negated:0"], {}, [])
        channel = cluster.server("worker", 0).worker.peers.open_channel(task_name("ps", 0))
        session.close()
    np.testing.assert_array_equal(result, -value)
    if transport == "grpc":
        assert channel is None
    else:
        assert channel is not None
        assert channel.wire.is_encrypted


def test_tasks_in_processes_of_their_own() -> None:
    with LocalCluster(1, 1, token=TOKEN, tls=True, processes=True) as cluster:
        run_a_step(cluster)


def test_a_token_is_needed_within_tls_too(cluster: LocalCluster) -> None:
    credentials = Credentials("wrong", cluster.credentials.tls)
    with pytest.raises(UnauthenticatedError, match="The job's token is missing or wrong"):
        open_session(cluster.target("worker", 0), credentials=credentials, create_timeout_s=20)


@pytest.mark.parametrize("authority", ["none", "another"])
def test_sessions_without_a_certificate_of_the_cluster(
    cluster: LocalCluster, authority: str
) -> None:
    tls = None if authority == "none" else Authority.create().issue("client")
    with pytest.raises(DeadlineExceededError) as caught:
        open_session(
            cluster.target("worker", 0),
            credentials=Credentials(TOKEN, tls),
            create_timeout_s=0.5,
        )
    assert "Do both sides have tls=..., with certificates of one authority?" in str(caught.value)


def test_tls_where_there_is_none() -> None:
    tls = Authority.create().issue("client")
    with LocalCluster(0, 1) as plain:
        link = rpc.channel(plain.address("worker", 0), tls)
        with pytest.raises(UnavailableError, match=r"Do both sides have tls=\.\.\."):
            rpc.await_ready(link, "The peer", 0.5)
        link.close()


def test_where_nobody_is_tls_is_not_blamed() -> None:
    with LocalCluster(0, 1) as gone:
        address = gone.address("worker", 0)
    link = rpc.channel(address)
    with pytest.raises(UnavailableError, match=r"nothing answered for 0\.3 s$"):
        rpc.await_ready(link, "The peer", 0.3)
    link.close()
    assert rpc.tls_trouble(link) == ""


def test_credentials_are_not_shown() -> None:
    assert TOKEN not in repr(Credentials(TOKEN, Authority.create().issue("client")))
    assert Credentials.of(None) == Credentials()
    assert Credentials.of(TOKEN) == Credentials(TOKEN)
    assert Credentials.of(Credentials(TOKEN)) == Credentials(TOKEN)
