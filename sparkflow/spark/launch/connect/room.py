"""Checks, on Spark Connect, that there are slots for the tasks of a training.

The client cannot ask the scheduler, so it runs small barrier jobs: Spark rejects a job if the
cluster has too few slots, and makes it wait if slots are in use.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.resource import ResourceProfile
from pyspark.sql import DataFrame

from sparkflow.spark.cluster.barrier_job import describe_spark_failure
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.errors import SparkTrainingError

_log = logging.getLogger(__name__)

TOLD_AT_END: Final = (
    "progress is shown, and callbacks are called, when training has ended: on Spark Connect this "
    "takes one task slot more than the %d of the training, and %s"
)
_TOO_FEW_SLOTS: Final = "SPARK-24819"
PATIENCE_S: Final = 5.0
"""Seconds after which the slots of an unfinished small job count as in use."""
_CANCEL_S: Final = 10.0
_LOOK_S: Final = 0.5

_turn: Final = threading.Lock()
"""Held from the check for slots until the tasks have them, for concurrent fits of one program."""


class TooFewSlotsError(SparkTrainingError):
    """The cluster cannot run so many tasks at once."""


def map_with(
    profile: ResourceProfile | None, rows: DataFrame, task: Any, schema: str, barrier: bool
) -> DataFrame:
    """Calls `rows.mapInArrow` with a resource profile, which Spark Connect accepts since 4.0."""
    more = {} if profile is None else {"profile": profile}
    return rows.mapInArrow(task, schema, barrier=barrier, **more)


def require_slots(
    session: Any,
    layout: ClusterLayout,
    profile: ResourceProfile | None = None,
    patience_s: float | None = PATIENCE_S,
) -> bool:
    """Checks by a small barrier job that the cluster can run all tasks at once.

    Args:
        session: The session.
        layout: The tasks.
        profile: The resource profile of the tasks.
        patience_s: Seconds to wait for slots that are in use; None to wait without limit.

    Returns:
        Whether the slots are free; false if they exist but are in use.

    Raises:
        TooFewSlotsError: The cluster has fewer slots.
        SparkTrainingError: The job failed for another reason.
    """
    count = layout.num_partitions
    rows = session.range(0, count, 1, count)
    error = _ended(session, map_with(profile, rows, _nothing, "id bigint", True), patience_s)
    if not isinstance(error, Exception):
        return error is None
    text = describe_spark_failure(error)
    if _TOO_FEW_SLOTS in str(error):
        raise TooFewSlotsError(
            f"{layout.described} need {count} task slots at once, which the cluster does not "
            f"have: {text}. Use fewer workers or parameter servers (numPs=0 has the workers "
            "hold the variables)"
        ) from error
    raise SparkTrainingError(text) from error


def takes_messengers(
    session: Any,
    layout: ClusterLayout,
    profile: ResourceProfile | None,
    turn: contextlib.ExitStack,
    patience_s: float | None = None,
) -> bool:
    """Whether messengers have free slots, too. Blocks until the other tasks have.

    Args:
        session: The session.
        layout: The tasks, with messengers.
        profile: The resource profile of the tasks.
        turn: If true is returned, the caller closes it when the tasks have their slots; until then
            other fits of this program wait, which would otherwise consider these slots free.
        patience_s: Seconds to wait for slots in use; None for the default of `require_slots`.
    """
    patience = {} if patience_s is None else {"patience_s": patience_s}
    alone = replace(layout, messengers=0)
    try:
        turn.enter_context(_turn)
        if require_slots(session, layout, profile, **patience):
            return True
        turn.close()
        # Either others use the slots and will free some, or Spark's Python processes start slowly
        # and will have started after this.
        require_slots(session, alone, profile, None)
        turn.enter_context(_turn)
        if require_slots(session, layout, profile, **patience):
            return True
        reason = "it is in use"
    except TooFewSlotsError:  # an executor was lost
        reason = "there is none now"
    turn.close()
    _log.warning(TOLD_AT_END, alone.num_tasks, reason)
    return False


def _ended(session: Any, probe: DataFrame, patience_s: float | None) -> Exception | bool | None:
    """Returns the error of a query, None if it succeeded, True if it was cancelled."""
    tag = f"sparkflow-room-{uuid.uuid4().hex}"
    ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def run() -> None:
        session.addTag(tag)  # tags belong to a thread
        try:
            # Not `collect`: Spark would look for more slots for ten minutes.
            probe.count()
        except Exception as error:
            ended.put(error)
        else:
            ended.put(None)

    thread = threading.Thread(target=run, name="sparkflow-room", daemon=True)
    thread.start()
    try:
        return ended.get(timeout=patience_s)
    except queue.Empty:
        _cancel(session, tag, thread)
        return ended.empty() or ended.get() is not None
    except BaseException:
        _cancel(session, tag, thread)
        raise


def _cancel(session: Any, tag: str, thread: threading.Thread) -> None:
    """Cancels a query, which may not have reached the server yet."""
    for _ in range(int(_CANCEL_S / _LOOK_S)):
        with contextlib.suppress(Exception):  # the session is closed: its queries have ended
            session.interruptTag(tag)
        thread.join(_LOOK_S)
        if not thread.is_alive():
            return


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
