"""Which of several failures the user sees."""

import pytest

from sparkflow.spark.cluster.events import (
    ClusterRefused,
    Event,
    JobEnded,
    LoopEnded,
    RowsReady,
    StepFailed,
    StepsDone,
    TaskFailed,
    TaskGone,
)
from sparkflow.spark.cluster.failures import is_cause, is_failure, is_restartable, to_exception
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.errors import LostTaskError, SparkTrainingError, StalledError
from sparkflow_runtime.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)

WORKER = TaskName("worker", 1)
GONE = TaskGone(WORKER, "node7")
KILLED = TaskFailed(
    WORKER, "node7", "The process of worker task 1 on node7 was killed by signal 9", lost=True
)
UNREACHABLE = LoopEnded(0, UnavailableError(message="Task /job:worker/task:1 cannot be reached"))
BAD_LABEL = LoopEnded(1, InvalidArgumentError(message="label 12 is outside [0, 10)"))
LATE = LoopEnded(1, DeadlineExceededError(message="too late"))
JOB = JobEnded(RuntimeError("Job aborted due to stage failure: ...\n\tat org.apache.spark"))


@pytest.mark.parametrize(
    ("failures", "kind", "text"),
    [
        pytest.param(
            [UNREACHABLE, GONE, JOB, KILLED],
            SparkTrainingError,
            "^The process of worker task 1 on node7 was killed by signal 9$",
            id="a killed process explains itself",
        ),
        pytest.param(
            [UNREACHABLE, GONE],
            SparkTrainingError,
            "^The process of worker task 1 on node7 has gone",
            id="a lost machine",
        ),
        pytest.param(
            [UNREACHABLE, TaskGone(WORKER, "node7", 7.2)],
            SparkTrainingError,
            "^The process of worker task 1 on node7 has not answered for 7 s: it or its machine is",
            id="a machine that stands still",
        ),
        pytest.param(
            [LATE, TaskGone(WORKER, "node7", 7.2)],
            LostTaskError,
            "^The process of worker task 1 on node7 has not answered for 7 s",
            id="a deadline while it stood still",
        ),
        pytest.param(
            [LATE], DeadlineExceededError, "^In worker task 1: too late$", id="a deadline alone"
        ),
        pytest.param(
            [UNREACHABLE, GONE, JOB],
            SparkTrainingError,
            "^The process of worker task 1 on node7 has gone: .*The Spark job failed: Job aborted",
            id="a lost executor",
        ),
        pytest.param(
            [BAD_LABEL, KILLED, JOB],
            InvalidArgumentError,
            r"^In worker task 1: label 12 is outside \[0, 10\)$",
            id="the first cause wins",
        ),
        pytest.param(
            [LoopEnded(1, CancelledError(message="cancelled")), BAD_LABEL],
            InvalidArgumentError,
            "^In worker task 1: label 12",
            id="cancellation is a consequence",
        ),
        pytest.param(
            [JOB], SparkTrainingError, r"^The Spark job failed: Job aborted.*\.\.\.$", id="Spark"
        ),
        pytest.param(
            [JobEnded()], SparkTrainingError, "ended before training did", id="an early end"
        ),
        pytest.param(
            [
                TaskFailed(WORKER, "node7", "second", time_s=20.0),
                TaskFailed(WORKER, "node8", "first", time_s=10.0),
            ],
            SparkTrainingError,
            "^first$",
            id="what happened first, not what was heard first",
        ),
        pytest.param(
            [ClusterRefused("numpy differs"), JOB],
            SparkTrainingError,
            "^numpy differs$",
            id="a roll-call that failed",
        ),
        pytest.param(
            [LoopEnded(1, ResourceExhaustedError(message="no memory on GPU:0"))],
            ResourceExhaustedError,
            "(?s)no memory on GPU:0.*try half the batchSize",
            id="memory",
        ),
        pytest.param(
            [UNREACHABLE], UnavailableError, "^In worker task 0: Task", id="nothing else known"
        ),
        pytest.param(
            [StepFailed(NotFoundError(message="no table"))],
            NotFoundError,
            "^no table$",
            id="a step of no loop",
        ),
        pytest.param(
            [StepFailed(UnavailableError(message="no answer")), KILLED],
            LostTaskError,
            "was killed",
            id="a step of no loop fails for a loss",
        ),
        pytest.param(
            [TaskFailed(WORKER, "node7", "no disk", "Traceback ...\nOSError: no disk\n")],
            SparkTrainingError,
            "(?s)^worker task 1 on node7 failed: no disk.*own traceback.*OSError: no disk$",
            id="a traceback of the task",
        ),
    ],
)
def test_the_first_cause_is_shown(failures: list[Event], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        raise to_exception(failures)


def test_only_failures_end_training() -> None:
    assert all(map(is_failure, [GONE, KILLED, UNREACHABLE, BAD_LABEL, JOB, JobEnded()]))
    assert not is_failure(LoopEnded(0))
    assert not is_failure(RowsReady(WORKER, 3))
    assert not is_failure(StepsDone(0, None, None))  # type: ignore[arg-type]  # not looked at


def test_consequences_wait_for_their_cause() -> None:
    assert [is_cause(e) for e in (GONE, UNREACHABLE, JobEnded())] == [False] * 3
    assert [is_cause(e) for e in (KILLED, BAD_LABEL, JOB)] == [True] * 3


LOST_EXECUTOR = JobEnded(
    RuntimeError(
        "Could not recover from a failed barrier ResultStage. Most recent failure reason: "
        "ExecutorLostFailure (executor 1 exited)"
    )
)
CANCELLED = JobEnded(RuntimeError("Job 3 cancelled part of cancelled job group g"))


@pytest.mark.parametrize(
    ("failures", "restarts"),
    [
        pytest.param([UNREACHABLE, GONE, KILLED], True, id="a killed process"),
        pytest.param([UNREACHABLE, GONE], True, id="a lost machine"),
        pytest.param([GONE, LOST_EXECUTOR], True, id="a lost executor"),
        pytest.param([LOST_EXECUTOR], True, id="a lost executor, heard from Spark alone"),
        pytest.param([UNREACHABLE], True, id="a lost connection"),
        pytest.param([GONE, CANCELLED], False, id="the user cancels the job"),
        pytest.param([CANCELLED], False, id="the user cancels the job early"),
        pytest.param([JOB], False, id="Spark gives up"),
        pytest.param([BAD_LABEL, GONE, KILLED], False, id="bad data"),
        pytest.param([TaskFailed(WORKER, "node7", "disk full")], False, id="an error of a task"),
        pytest.param([ClusterRefused("numpy differs")], False, id="versions"),
    ],
)
def test_what_is_worth_another_attempt(failures: list[Event], restarts: bool) -> None:
    assert is_restartable(to_exception(failures)) == restarts


def test_errors_that_come_again_are_not() -> None:
    assert is_restartable(LostTaskError("x"))
    assert not any(map(is_restartable, [StalledError("x"), ValueError("x"), KeyboardInterrupt()]))
