"""Counts free task slots on Spark Connect by running tasks that hold them.

The client cannot ask the scheduler, and a barrier job only shows whether the cluster has enough
slots, not how many are free. So it submits tasks that each hold a slot for a moment and report when
they did: the number of tasks that held one at the same time is the number of free slots. Tasks that
get no slot wait, which makes dynamic allocation request executors.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import queue
import socket
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.resource import ResourceProfile

from sparkflow.spark.cluster.barrier_job import describe_spark_failure
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.launch.connect.room import map_with

_log = logging.getLogger(__name__)

HOLD_S: Final = 1.5
"""Longer than the time between the starts of an executor's Python processes."""
PATIENCE_S: Final = 10.0
"""Slots that no task gets within this time count as in use."""
_SCHEMA: Final = "executor string, began double, ended double"


@dataclass(frozen=True, slots=True)
class Held:
    """A slot held by a task.

    Attributes:
        executor: The executor. Only times of the same executor are comparable.
        began: Start in seconds, by its machine's clock.
        ended: End in seconds, by its machine's clock.
    """

    executor: str
    began: float
    ended: float


def at_once(held: Iterable[Held]) -> int:
    """Returns the number of slots: the sum of each executor's maximum held at the same time."""
    changes: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for each in held:
        changes[each.executor] += [(each.began, 1), (each.ended, -1)]
    count = 0
    for of_executor in changes.values():
        now = most = 0
        for _, change in sorted(of_executor):  # at equal times, ends come before starts
            now += change
            most = max(most, now)
        count += most
    return count


def free_slots(
    session: Any,
    most: int,
    profile: ResourceProfile | None = None,
    hold_s: float = HOLD_S,
    patience_s: float = PATIENCE_S,
) -> int:
    """Returns the number of free slots up to `most`. Blocks for `hold_s` and Spark's scheduling.

    Args:
        session: The session.
        most: The maximum number to look for.
        profile: The resource profile of the tasks.
        hold_s: The seconds that each task holds its slot; executors may be added during that time.
        patience_s: The seconds to wait for a slot.

    Raises:
        SparkTrainingError: The tasks failed.
    """
    tag = f"sparkflow-slots-{uuid.uuid4().hex}"
    found: queue.SimpleQueue[Held | Exception | None] = queue.SimpleQueue()

    def run() -> None:
        session.addTag(tag)  # tags belong to a thread
        try:
            task: Any = functools.partial(_hold, tag, hold_s)
            tasks = map_with(profile, session.range(0, most, 1, most), task, _SCHEMA, False)
            for row in tasks.toLocalIterator():
                found.put(Held(row["executor"], row["began"], row["ended"]))
        except Exception as error:
            found.put(error)
        else:
            found.put(None)

    threading.Thread(target=run, name="sparkflow-slots", daemon=True).start()
    held: list[Held] = []
    ended = False
    deadline = time.monotonic() + patience_s + hold_s
    try:
        while not ended:
            match found.get(timeout=max(0.0, deadline - time.monotonic())):
                case None:
                    ended = True
                case Held() as each:
                    held.append(each)
                case error:
                    ended = True
                    raise SparkTrainingError(describe_spark_failure(error)) from error
    except queue.Empty:
        pass
    finally:
        # Only then, because Spark kills the Python processes of tasks that it cancels.
        if not ended:
            with contextlib.suppress(Exception):  # the session is closed: its queries have ended
                session.interruptTag(tag)
    return at_once(held)


_last_query = ""


def _hold(query: str, hold_s: float, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The tasks' function. All Python workers of an executor have the same parent process."""
    global _last_query  # per Python process, which Spark reuses for one task after another
    began = time.monotonic()
    for _ in batches:
        pass
    if _last_query != query:  # otherwise this slot has been counted already
        _last_query = query
        time.sleep(hold_s)
    yield pa.RecordBatch.from_pydict(
        {
            "executor": [f"{socket.gethostname()} {os.getppid()}"],
            "began": [began],
            "ended": [time.monotonic()],
        }
    )
