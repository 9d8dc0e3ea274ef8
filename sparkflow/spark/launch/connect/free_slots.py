"""Counts free task slots on Spark Connect, by running tasks that hold them.

It cannot ask the scheduler, and a barrier job says only whether there are so many slots, not how
many are free. So it submits tasks that each hold their slot for a moment and say when they had it:
as many as had it at the same time found a free one. Tasks that find none wait, and while they do
dynamic allocation asks for executors.
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
"""Longer than the Python processes of one executor start apart from each other."""
PATIENCE_S: Final = 10.0
"""Slots that no task has got within this time are in use."""
_SCHEMA: Final = "executor string, began double, ended double"


@dataclass(frozen=True, slots=True)
class Held:
    """A slot that a task had.

    Attributes:
        executor: Whose. Its times compare with those of the same one only.
        began: Seconds of its machine's clock.
        ended: The same.
    """

    executor: str
    began: float
    ended: float


def at_once(held: Iterable[Held]) -> int:
    """How many slots there were: of each executor the most that tasks had at the same time."""
    changes: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for each in held:
        changes[each.executor] += [(each.began, 1), (each.ended, -1)]
    count = 0
    for of_executor in changes.values():
        now = most = 0
        for _, change in sorted(of_executor):  # who ends when another begins comes first
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
    """How many slots of `most` are free. Blocks for `hold_s` and some Spark scheduling.

    Args:
        session: The session.
        most: More are not looked for.
        profile: What the tasks run with.
        hold_s: How long each task has its slot; executors may come in that time.
        patience_s: How long to wait for a slot.

    Raises:
        SparkTrainingError: The tasks failed.
    """
    tag = f"sparkflow-slots-{uuid.uuid4().hex}"
    found: queue.SimpleQueue[Held | Exception | None] = queue.SimpleQueue()

    def run() -> None:
        session.addTag(tag)  # tags are those of a thread
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
        # Not otherwise: Spark kills the Python processes of tasks that it cancels.
        if not ended:
            with contextlib.suppress(Exception):  # the session is closed: its queries have ended
                session.interruptTag(tag)
    return at_once(held)


_last_query = ""


def _hold(query: str, hold_s: float, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the tasks do. The parent of an executor's Python workers is one process of its own."""
    global _last_query  # of a Python process, which Spark uses for one task after the other
    began = time.monotonic()
    for _ in batches:
        pass
    if _last_query != query:  # else this slot is known already
        _last_query = query
        time.sleep(hold_s)
    yield pa.RecordBatch.from_pydict(
        {
            "executor": [f"{socket.gethostname()} {os.getppid()}"],
            "began": [began],
            "ended": [time.monotonic()],
        }
    )
