"""Leases and incarnations between the masters and the tasks of a cluster, over the wire."""

import threading
from collections.abc import Iterator

import pytest

from sparkflow_runtime.errors import AbortedError
from sparkflow_runtime.master.client import open_session
from sparkflow_runtime.master.links import LEASE_S
from sparkflow_runtime.testing.leaks import assert_idle
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.worker.sessions import MasterId
from support.graphs import const, graph_def, node, variable

GRAPH = graph_def(
    variable("v", (2,), device="/job:ps/task:0"),
    const("one", [1, 1]),
    node("init", "Assign", "v", "one"),
)
WAIT_S = 20


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, 2) as made:
        yield made


def test_sessions_elsewhere_are_leased_and_say_whose_they_are(cluster: LocalCluster) -> None:
    session = open_session(cluster.target("worker", 0))
    ps, own = (cluster.server(job, 0).worker.sessions for job in ("ps", "worker"))
    (handle,) = ps.handles()
    master = cluster.server("worker", 0)
    assert ps.find(handle).lease_s == LEASE_S
    assert ps.find(handle).master == MasterId(master.task, master.worker.incarnation)
    assert own.find(handle).lease_s is None  # It lives in the master's process.
    session.close()
    assert_idle(cluster.servers)


def test_a_kept_session_lives_and_one_that_ran_out_is_refused(cluster: LocalCluster) -> None:
    session = open_session(cluster.target("worker", 0))
    session.extend(GRAPH)
    session.run([], {}, ["init"])
    sessions = cluster.server("ps", 0).worker.sessions
    (handle,) = sessions.handles()
    pause = threading.Event()
    leased = sessions.find(handle)
    before = leased.expires
    leased.expires = before - LEASE_S / 2
    link = cluster.server("worker", 0)._remote["/job:ps/replica:0/task:0"]
    link.keep_session(handle)  # Once: a late message would renew what should expire.
    for _ in range(400):
        if leased.expires >= before or pause.wait(WAIT_S / 400):
            break
    assert leased.expires >= before
    with sessions._changed:
        leased.expires = 0.0  # as after a minute without a message
        sessions._changed.notify_all()
    assert_idle([cluster.server("ps", 0)])
    with pytest.raises(AbortedError, match=f"{handle}.*possibly this task was restarted"):
        session.run(["v:0"], {}, [])
    session.close()
    again = open_session(cluster.target("worker", 1))
    again.extend(GRAPH)
    assert again.run(["v:0"], {}, [])[0][0].tolist() == [1, 1]  # What is shared stays.
    again.close()


def test_what_a_master_left_behind_before_its_restart_is_refused(cluster: LocalCluster) -> None:
    task = cluster.server("worker", 0).task
    sessions = cluster.server("ps", 0).worker.sessions
    for handle, master in (
        ("stale", MasterId(task, 1)),
        ("other", MasterId("/job:worker/replica:0/task:1", 1)),
    ):
        sessions.create(handle, master=master)
    session = open_session(cluster.target("worker", 0))
    assert "stale" not in sessions.handles()
    assert "other" in sessions.handles()
    link = cluster.server("worker", 1)._remote["/job:ps/replica:0/task:0"]
    with pytest.raises(AbortedError, match="'stale' does not exist on /job:ps"):
        link.register("stale", [], {})
    session.close()
