import os
import select
import signal
import subprocess
import sys
import threading

import pytest

from sparkflow_runtime.errors import (
    AbortedError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from sparkflow_runtime.master.client import open_session
from sparkflow_runtime.security import Credentials, defaults
from sparkflow_runtime.testing import local_cluster
from sparkflow_runtime.testing.leaks import assert_nothing_left
from sparkflow_runtime.testing.local_cluster import LocalCluster
from support.graphs import const, graph_def, node, variable

GRAPH = graph_def(
    variable("v", (2,), device="/job:ps/task:0"),
    const("one", [1, 1]),
    node("init", "Assign", "v", "one"),
)
WORKER_1 = "/job:worker/replica:0/task:1/device:CPU:0"


def devices(target: str, token: str | None = None) -> list[str]:
    session = open_session(target, credentials=token, create_timeout_s=1.0)
    try:
        return sorted(device.name for device in session.list_devices())
    finally:
        session.close()


@pytest.mark.parametrize("processes", [False, True])
def test_every_task_knows_all_others(processes: bool) -> None:
    with LocalCluster(2, 2, token="t", processes=processes) as cluster:
        expected = [
            f"/job:{job}/replica:0/task:{index}/device:CPU:0"
            for job in ("ps", "worker")
            for index in (0, 1)
        ]
        for job in ("ps", "worker"):
            for index in (0, 1):
                assert devices(cluster.target(job, index), "t") == expected
        with pytest.raises(UnauthenticatedError):
            devices(cluster.target("ps", 0))


@pytest.mark.parametrize("processes", [False, True])
def test_its_credentials_are_good_where_the_process_has_those_of_a_job(
    processes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in functions of SparkCluster.run."""
    monkeypatch.setattr(defaults, "_given", None)
    monkeypatch.setattr(defaults, "_trusted", set())
    defaults.give_process(Credentials("a job's"), ["ps.example.com:1"])
    with LocalCluster(1, 1, processes=processes) as cluster:
        target = cluster.target("worker", 0)
        open_session(target, credentials=cluster.credentials, create_timeout_s=5.0).close()
        open_session(target, credentials=None, create_timeout_s=5.0).close()


def test_stop_leaves_no_thread_and_no_port() -> None:
    with assert_nothing_left():
        cluster = LocalCluster(1, 2)
        devices(cluster.target("worker", 1))
        cluster.stop()
        cluster.stop()
    with pytest.raises(DeadlineExceededError):
        devices(cluster.target("worker", 1))


def test_stop_leaves_no_process() -> None:
    cluster = LocalCluster(1, 1, processes=True)
    processes = list(cluster._processes.values())
    assert len(processes) == 2
    cluster.stop()
    cluster.stop()
    assert [process.returncode for process in processes] == [0, 0]


def test_killed_task_is_gone_and_others_stay() -> None:
    with LocalCluster(1, 2, processes=True) as cluster:
        process = cluster._process("worker", 1)
        cluster.kill("worker", 1)
        assert process.returncode == -signal.SIGKILL
        with pytest.raises(DeadlineExceededError):
            devices(cluster.target("worker", 1))


@pytest.mark.parametrize("processes", [False, True])
def test_a_task_starts_anew_at_its_old_port(processes: bool) -> None:
    with LocalCluster(1, 1, processes=processes) as cluster:
        address = cluster.address("ps", 0)
        first = open_session(cluster.target("worker", 0))
        first.extend(GRAPH)
        first.run([], {}, ["init"])
        cluster.restart("ps", 0)
        assert cluster.address("ps", 0) == address
        with pytest.raises((AbortedError, UnavailableError)):
            first.run(["v:0"], {}, [])
        first.close()
        second = open_session(cluster.target("worker", 0), create_timeout_s=30.0)
        second.extend(GRAPH)
        with pytest.raises(FailedPreconditionError, match="uninitialized value v"):
            second.run(["v:0"], {}, [])
        second.run([], {}, ["init"])
        assert second.run(["v:0"], {}, [])[0][0].tolist() == [1, 1]
        second.close()


def test_a_restarted_task_outlives_the_thread_that_restarted_it() -> None:
    with LocalCluster(1, 0, processes=True) as cluster:
        thread = threading.Thread(target=cluster.restart, args=("ps", 0))
        thread.start()
        thread.join(60)
        assert devices(cluster.target("ps", 0)) == ["/job:ps/replica:0/task:0/device:CPU:0"]
        assert cluster._process("ps", 0).poll() is None


def test_stop_ends_a_paused_process() -> None:
    cluster = LocalCluster(0, 1, processes=True)
    process = cluster._process("worker", 0)
    cluster.pause("worker", 0)
    cluster.stop()
    assert process.returncode is not None


def test_processes_end_with_a_killed_parent() -> None:
    program = (
        "import os, signal\n"
        "from sparkflow_runtime.testing.local_cluster import LocalCluster\n"
        "cluster = LocalCluster(1, 1, processes=True)\n"
        "print(*[p.pid for p in cluster._processes.values()], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # The children inherit standard error: its end means that they have ended, too.
    parent = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert parent.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in parent.stdout.split()]
    assert len(pids) == 2
    assert all(_ends(pid) for pid in pids)


def _ends(pid: int) -> bool:
    """Whether a process has ended, or ends within a minute: its files are closed a bit earlier."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(60_000))
    finally:
        os.close(handle)


def test_a_process_that_cannot_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_cluster.sys, "executable", "/bin/false")
    with pytest.raises(UnavailableError, match="Task 0 of job 'ps' ended with code 1"):
        LocalCluster(1, 1, processes=True)


def test_unknown_task_and_wrong_kind_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one task, got 0 ps and 0 workers"):
        LocalCluster(0, 0)
    with LocalCluster(1, 0) as cluster:
        assert cluster.server("ps", 0).target == cluster.target("ps", 0)
        with pytest.raises(NotFoundError, match="no task 1 of job 'ps'"):
            cluster.target("ps", 1)
        with pytest.raises(FailedPreconditionError, match="processes=True"):
            cluster.kill("ps", 0)
