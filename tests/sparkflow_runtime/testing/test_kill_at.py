import pytest

from sparkflow_runtime.errors import FailedPreconditionError
from sparkflow_runtime.testing.kill_at import KillAt
from sparkflow_runtime.testing.local_cluster import LocalCluster


def test_a_task_dies_once_at_its_step_and_comes_back_when_asked_to() -> None:
    with LocalCluster(1, 1, processes=True) as cluster:
        first = cluster._process("ps", 0)
        again = KillAt(cluster, "ps", 0, step=3, restart=True)
        for step in (1, 2):
            again.reached(step)
        assert first.poll() is None
        assert not again.done
        again.reached(4)
        assert first.poll() is not None
        second = cluster._process("ps", 0)
        again.reached(5)
        assert cluster._process("ps", 0) is second
        for_good = KillAt(cluster, "worker", 0, step=1)
        for_good.reached(1)
        assert for_good.done
        assert cluster._process("worker", 0).poll() is not None
        assert second.poll() is None


def test_only_processes_are_killed() -> None:
    with LocalCluster(1, 0) as cluster, pytest.raises(FailedPreconditionError, match="processes="):
        KillAt(cluster, "ps", 0, step=0).reached(0)
