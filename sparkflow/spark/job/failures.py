"""Which of several failures is shown: the first that says what went wrong.

One failure makes others: when a process is killed, its peers report that they cannot reach it,
Spark that a task failed, and cancelled loops that they were cancelled. Pure functions, no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.job.barrier_job import describe_spark_failure
from sparkflow.spark.job.events import Event, JobEnded, LoopEnded, TaskFailed, TaskGone
from sparkflow_runtime.errors import AbortedError, CancelledError, OpError, UnavailableError

# What peers of a failed task say; never the cause as long as there is another one.
_CONSEQUENCES = (UnavailableError, CancelledError, AbortedError)


def is_failure(event: Event) -> bool:
    """Whether training cannot go on after this event."""
    if isinstance(event, LoopEnded):
        return event.error is not None
    return isinstance(event, TaskFailed | TaskGone | JobEnded)


def is_cause(event: Event) -> bool:
    """Whether this failure explains itself, so that no other one needs to be waited for."""
    if isinstance(event, LoopEnded):
        return event.error is not None and not isinstance(event.error, _CONSEQUENCES)
    if isinstance(event, JobEnded):
        return event.error is not None
    return isinstance(event, TaskFailed)


def to_exception(failures: Sequence[Event]) -> Exception:
    """The exception for the user.

    Args:
        failures: All failures in the order in which the driver learnt of them; at least one.
    """
    cause = next(filter(is_cause, failures), None)
    if cause is not None and not isinstance(cause, JobEnded):
        return _exception(cause)
    # Which task failed says more than that the job did.
    failed = next((event for event in failures if isinstance(event, TaskFailed)), None)
    if failed is not None:
        return _exception(failed)
    gone = next((event for event in failures if isinstance(event, TaskGone)), None)
    if gone is None:
        return _exception(cause or failures[0])
    if cause is None:
        return _exception(gone)
    return SparkTrainingError(f"{_exception(gone)}. {_exception(cause)}")


def _exception(event: Event) -> Exception:
    match event:
        case LoopEnded(worker, OpError() as error):
            # The same class, so that users can catch it; the text names the worker first.
            named = type(error)(message=f"In worker task {worker}: {error.message}")
            named.located = True
            return named
        case LoopEnded(worker, error):
            failed = SparkTrainingError(f"In worker task {worker}: {error}")
            failed.__cause__ = error
            return failed
        case TaskFailed(task, host, message, trace):
            text = (
                f"{task} on {host} failed: {message}"
                if trace and str(task) not in message
                else message
            )
            if trace and trace != message:
                text += f"\n\nThe task's own traceback:\n{trace.rstrip()}"
            return SparkTrainingError(text)
        case TaskGone(task, host):
            return SparkTrainingError(
                f"The process of {task} on {host} has gone: it was killed, or its machine was lost"
            )
        case JobEnded(None):
            return SparkTrainingError("The Spark job ended before training did")
        case JobEnded(error):
            assert error is not None
            return SparkTrainingError(f"The Spark job failed: {describe_spark_failure(error)}")
    raise AssertionError(f"not a failure: {event}")
