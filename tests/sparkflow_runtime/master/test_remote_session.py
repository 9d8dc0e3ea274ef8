import pytest

from sparkflow_runtime.errors import DeadlineExceededError, UnavailableError
from sparkflow_runtime.master import remote_session
from sparkflow_runtime.master.client import open_session
from sparkflow_runtime.master.remote_session import InProcessSession
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.server import Server
from sparkflow_runtime.testing.leaks import assert_idle
from sparkflow_runtime.testing.local_cluster import LocalCluster


def test_a_master_of_this_process_is_called_and_others_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = ClusterDef()
    cluster.job.add(name="local").tasks[0] = "127.0.0.1:0"
    server = Server(cluster, "local", 0)
    server.start()
    try:
        target = f"grpc://{server.address}"
        called = open_session(target)
        monkeypatch.setattr(remote_session, "masters_here", {})
        asked = open_session(target)
        assert isinstance(called, InProcessSession)
        assert not isinstance(asked, InProcessSession)
        assert [d.name for d in called.list_devices()] == [d.name for d in asked.list_devices()]
        called.close()
        asked.close()
    finally:
        server.stop()


def test_a_master_that_is_not_there_is_given_up_in_time() -> None:
    with pytest.raises(DeadlineExceededError, match=r"nothing answered for 0\.3 s"):
        open_session("grpc://127.0.0.1:1", create_timeout_s=0.3)


def test_a_session_ends_on_all_tasks_although_the_connection_broke() -> None:
    with LocalCluster(1, 1, faulty=True) as cluster:
        for _ in range(3):
            session = open_session(cluster.target("worker", 0), credentials=cluster.credentials)
            cluster.link("worker", 0).cut()
            session.close()
        assert_idle(cluster.servers)


def test_closing_says_that_the_master_is_gone() -> None:
    with LocalCluster(0, 1, token="t") as cluster:
        session = open_session(cluster.target("worker", 0), credentials=cluster.credentials)
        cluster.servers[0].stop()
        with pytest.raises(UnavailableError):
            session.close()
        session.close()
