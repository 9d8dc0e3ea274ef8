"""Clients that end in the middle of a step, each in a separate process."""

import signal
from pathlib import Path

import pytest

from sparkflow_runtime.testing.leaks import assert_idle, assert_no_steps
from sparkflow_runtime.testing.local_cluster import LocalCluster
from support.programs import Program
from support.waiting import wait_until

CLIENT = Path(__file__).parent / "blocked_client.py"


def wait_until_all_run(cluster):
    servers = cluster.servers
    wait_until(lambda: all(each.worker.rendezvous.running() for each in servers), 20)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_step_of_a_client_that_ends_is_ended_on_every_task(number):
    with LocalCluster(num_ps=1, num_workers=2) as cluster:
        with Program(CLIENT, cluster.target("worker", 0)) as client:
            client.wait_for("runs")
            wait_until_all_run(cluster)
            client.send(number)
            assert client.end() == -number
        assert_no_steps(cluster.servers)
        if number == signal.SIGINT:
            assert_idle(cluster.servers)  # It had time to close its session.
