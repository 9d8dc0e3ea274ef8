"""Selection of the failure to report: the first that says what went wrong.

One failure causes others: when a process is killed, its peers report that they cannot reach it,
Spark that a task failed, and cancelled loops that they were cancelled. Pure functions, no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from sparkflow.spark.cluster.events import (
    ClusterRefused,
    Event,
    JobEnded,
    LoopEnded,
    StepFailed,
    TaskFailed,
    TaskGone,
)
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.errors import LostTaskError, SparkTrainingError
from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
)

# Errors of the peers of a failed task; never the cause if there is another one. A deadline expires
# while a process is stalled but not yet given up.
_CONSEQUENCES = (UnavailableError, CancelledError, AbortedError, DeadlineExceededError)
CONSEQUENCES: Final = frozenset(each.__name__ for each in _CONSEQUENCES)
"""Their names, as tasks report them."""

ORDER_WAIT_S: Final = 1.0
"""The maximum delay of the report of an earlier failure relative to that of a later one."""

_MEMORY_HINT = (
    "\nMemory has run out: try half the batchSize (gradientAccumulation=2 then gives the same "
    "updates), or fewer tasks per machine or GPU"
)

LOST_LEADER: Final = "The task that leads the training was lost"
"""The report of a second task 0 on Spark Connect, because the first can no longer report."""

# Spark's messages when it loses an executor, or with it the rows of an earlier stage.
_LOST_EXECUTOR = (
    "ExecutorLostFailure",
    "FetchFailed",
    "MetadataFetchFailedException",
    "Lost executor",
    "Executor heartbeat timed out",
    "worker lost",
    "Slave lost",
    "Python worker exited unexpectedly",
    LOST_LEADER,
)


def not_started(
    missing: Collection[TaskName], timeout_s: float, too_few: str = ""
) -> SparkTrainingError:
    """Returns the error that tasks have not started within `startTimeout`, with possible reasons.

    Args:
        missing: The tasks.
        timeout_s: The time waited, in seconds.
        too_few: The text that Spark has too few slots, and what to do; "" if it has enough.
    """
    names = ", ".join(map(str, sorted(missing)))
    why = too_few or (
        "Spark's slots may be taken by other jobs, or the executors cannot reach the driver "
        "(spark.driver.host)"
    )
    return SparkTrainingError(
        f"After {timeout_s:g} s these tasks have not started: {names}. {why}. startTimeout sets "
        "how long to wait"
    )


def is_failure(event: Event) -> bool:
    """Returns whether training cannot continue after this event."""
    if isinstance(event, LoopEnded):
        return event.error is not None
    return isinstance(event, TaskFailed | ClusterRefused | TaskGone | JobEnded | StepFailed)


def is_restartable(error: BaseException) -> bool:
    """Returns whether a restart of training may succeed: a process or a machine was lost.

    Errors in the user's graph, rows and settings would recur; a cancellation by the user is final.
    """
    if isinstance(error, LostTaskError):
        return True
    return isinstance(error, UnavailableError | AbortedError)


def lost_worker(failures: Sequence[Event]) -> int | None:
    """Returns the worker whose lost process explains all of these failures; None if it does not."""
    workers = set()
    explained = False
    for event in failures:
        match event:
            case TaskFailed(task=task, lost=True) if task.job == "worker":
                explained = True
                workers.add(task.index)
            case TaskGone(task=task, silent_s=silent_s) if task.job == "worker":
                explained = explained or silent_s > 0
                workers.add(task.index)
            case TaskFailed(task=task, follows=True) if task.job == "worker":
                workers.add(task.index)
            case LoopEnded(worker=worker, error=error) if isinstance(error, _CONSEQUENCES):
                workers.add(worker)
            case StepFailed(error) if isinstance(error, _CONSEQUENCES):
                pass  # of whichever loss
            case _:
                return None
    return workers.pop() if explained and len(workers) == 1 else None


def is_cause(event: Event) -> bool:
    """Returns whether this failure explains itself, so that waiting for another is unnecessary."""
    if isinstance(event, LoopEnded | StepFailed):
        return event.error is not None and not isinstance(event.error, _CONSEQUENCES)
    if isinstance(event, JobEnded):
        return event.error is not None
    if isinstance(event, TaskGone):
        return event.silent_s > 0
    if isinstance(event, TaskFailed):
        return not event.follows
    return isinstance(event, ClusterRefused)


def may_be_later(event: Event) -> bool:
    """Returns whether this cause may have an earlier one, whose report has not arrived yet.

    After the loss of a task, training restarts in any case, and other errors recur. If Spark
    reports a lost executor first, the lost task is reported a moment later.
    """
    if isinstance(event, JobEnded):
        return _is_loss(event)
    return isinstance(event, TaskFailed) and is_cause(event) and not event.lost


def is_whole(failures: Sequence[Event]) -> bool:
    """Returns whether both are known: the executor that Spark lost, and a task lost with it."""
    is_gone = any(isinstance(each, TaskGone) for each in failures)
    return is_gone and any(isinstance(each, JobEnded) and _is_loss(each) for each in failures)


def to_exception(failures: Sequence[Event]) -> Exception:
    """Returns the exception for the user.

    Args:
        failures: All failures in the order in which the driver learnt of them; at least one.
            Reports of tasks are ordered by the time of the failure.
    """
    failures = _by_time(failures)
    cause = next(filter(is_cause, failures), None)
    if cause is not None and not isinstance(cause, JobEnded):
        return _exception(cause)
    # A failed task says more than a failed job; a lost task, more than that others cannot reach it.
    reports = [event for event in failures if isinstance(event, TaskFailed)]
    failed = next(filter(is_cause, reports), None)
    if failed is not None:
        return _exception(failed)
    gone = next((event for event in failures if isinstance(event, TaskGone)), None)
    if gone is None:
        return _exception(next(iter(reports), None) or cause or failures[0])
    if cause is None:
        return _exception(gone)
    assert isinstance(cause, JobEnded)
    # Without the loss of an executor, Spark or the user has ended the job.
    kind = LostTaskError if _is_loss(cause) else SparkTrainingError
    return kind(f"{_exception(gone)}. {_exception(cause)}")


def _by_time(failures: Sequence[Event]) -> list[Event]:
    """Returns the failures with the reports of tasks in the order of their occurrence."""
    reports = [each for each in failures if isinstance(each, TaskFailed)]
    ordered = iter(sorted(reports, key=lambda each: each.time_s))
    return [next(ordered) if isinstance(each, TaskFailed) else each for each in failures]


def _is_loss(event: JobEnded) -> bool:
    return event.error is not None and any(sign in str(event.error) for sign in _LOST_EXECUTOR)


def _exception(event: Event) -> Exception:
    match event:
        case LoopEnded(worker, error):
            return _of_step(f"In worker task {worker}: ", error)
        case StepFailed(error):
            return _of_step("", error)
        case ClusterRefused(message):
            return SparkTrainingError(message)
        case TaskFailed(task, host, message, trace, lost):
            text = (
                f"{task} on {host} failed: {message}"
                if trace and str(task) not in message
                else message
            )
            if trace and trace != message:
                text += f"\n\nThe task's own traceback:\n{trace.rstrip()}"
            return (LostTaskError if lost else SparkTrainingError)(text)
        case TaskGone(task, host, silent_s) if silent_s > 0:
            return LostTaskError(
                f"The process of {task} on {host} has not answered for {silent_s:.0f} s: it or its "
                "machine is stopped, or the network to it is broken"
            )
        case TaskGone(task, host):
            return LostTaskError(
                f"The process of {task} on {host} has gone: it was killed, or its machine was lost"
            )
        case JobEnded(None):
            return SparkTrainingError("The Spark job ended before training did")
        case JobEnded(error):
            assert error is not None
            # Imported here because it imports pyspark, without which no Spark job can fail.
            from sparkflow.spark.cluster.barrier_job import describe_spark_failure

            kind = LostTaskError if _is_loss(event) else SparkTrainingError
            return kind(f"The Spark job failed: {describe_spark_failure(error)}")
    raise AssertionError(f"not a failure: {event}")


def _of_step(where: str, error: BaseException | None) -> Exception:
    """Returns the error of a step, of the same class for users to catch, with its place added."""
    if isinstance(error, OpError):
        hint = _MEMORY_HINT if isinstance(error, ResourceExhaustedError) else ""
        named = type(error)(message=f"{where}{error.message}{hint}")
        named.located = True
        return named
    failed = SparkTrainingError(f"{where}{error}")
    failed.__cause__ = error
    return failed
