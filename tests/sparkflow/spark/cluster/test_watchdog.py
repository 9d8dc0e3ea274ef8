"""When a run counts as stalled, and the message."""

from collections.abc import Mapping

import pytest

from sparkflow.spark.cluster.task_board import Progress
from sparkflow.spark.cluster.watchdog import Watchdog
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.errors import SparkTrainingError, StalledError
from sparkflow_runtime.protos.rendezvous_pb2 import ReportStateRequest, TaskInfo, WaitInfo

PS, CHIEF, OTHER = TaskName("ps", 0), TaskName("worker", 0), TaskName("worker", 1)


class Stuck:
    """Worker 0 waits for the parameter server, which waits for worker 1, which is silent."""

    def __init__(self) -> None:
        self.now = 100.0
        self.rows = 0

    def clock(self) -> float:
        return self.now

    def progress(self) -> Mapping[TaskName, Progress]:
        return {OTHER: Progress(self.rows, 3, 60.0)}

    def infos(self) -> Mapping[TaskName, TaskInfo]:
        return {
            task: TaskInfo(host=f"node{number}", pid=number)
            for number, task in enumerate((PS, CHIEF, OTHER), 7)
        }

    def states(self, timeout_s: float) -> Mapping[TaskName, ReportStateRequest]:
        wait = WaitInfo(key="0-gradients", source="/job:ps/replica:0/task:0", step=4, seconds=61)
        back = WaitInfo(key="2-w", source="/job:worker/replica:0/task:1", step=3, seconds=62)
        return {
            CHIEF: ReportStateRequest(waits=[wait], stacks="Thread loop:\n  line 3", steps=4),
            PS: ReportStateRequest(waits=[back]),
        }


@pytest.fixture
def stuck() -> Stuck:
    return Stuck()


@pytest.fixture
def watchdog(stuck: Stuck) -> Watchdog:
    return Watchdog(stuck, start_timeout_s=30, stall_timeout_s=50, clock=stuck.clock)


def test_who_waits_for_whom(stuck: Stuck, watchdog: Watchdog) -> None:
    watchdog.begin()
    watchdog.saw_steps(1)
    stuck.now += 50
    watchdog.check_steps()
    stuck.now += 1
    with pytest.raises(StalledError) as caught:
        watchdog.check_steps()
    assert str(caught.value) == (
        "No worker has made a step for 50 s (stallTimeout); the last steps were those of worker 1 "
        "51 s ago. Who waits for whom:\n"
        "  ps 0 on node7 (pid 7) waits for worker 1 for 62.0 s, in step 3, for bundle '2-w'\n"
        "  worker 0 on node8 (pid 8) waits for ps 0 for 61.0 s, in step 4, for bundle "
        "'0-gradients'\n"
        "  worker 1 on node9 (pid 9) does not answer and was last heard of 91 s ago: its process "
        "is stopped, swapped out or stuck in native code, or its machine is not reachable\n"
        "Python stacks of those who answered:\n"
        "worker 0 on node8 (pid 8):\n"
        "Thread loop:\n"
        "  line 3"
    )


def test_the_first_step_has_a_deadline_too(stuck: Stuck, watchdog: Watchdog) -> None:
    stuck.now += 200
    watchdog.begin()
    watchdog.check_steps()
    stuck.now += 51
    with pytest.raises(StalledError, match="none has made its first one"):
        watchdog.check_steps()


def test_rows_may_take_their_time_while_some_arrive(stuck: Stuck, watchdog: Watchdog) -> None:
    watchdog.begin()
    for _ in range(5):
        stuck.now += 29
        stuck.rows += 10
        watchdog.check_rows({OTHER})
    stuck.now += 31
    with pytest.raises(
        SparkTrainingError,
        match=r"No row .* for 30 s .after 50 rows.*are still waiting: worker task 1\.",
    ):
        watchdog.check_rows({OTHER})
