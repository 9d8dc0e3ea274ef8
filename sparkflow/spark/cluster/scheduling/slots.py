"""Checks, before the job is submitted, that the cluster can run all tasks at once.

Spark checks the same, but retries for ten minutes before it fails. It also does not report slots
that other barrier jobs use, so fits of this process wait for each other here.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from sparkflow.spark.cluster.scheduling.gang import GangStart, gang_start, most_slots
from sparkflow.spark.cluster.scheduling.gpus import memory_bytes
from sparkflow.spark.cluster.scheduling.preflight import (
    describe_memory,
    describe_settings,
    describe_slots,
)
from sparkflow.spark.cluster.scheduling.profiles import (
    NONE,
    Profiles,
    count_profiled_workers,
    count_tasks,
    describe_shortage,
)
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.interpreter import use_this_python

_log = logging.getLogger(__name__)

# The time within which executors of a newly started cluster register.
_REGISTRATION_S = 20.0
_POLL_S = 0.2
# The interval at which a fit reports that it waits for another one.
_SAY_S = 1.0

GPU_MEMORY = "spark.sparkflow.gpu.memory"
"""The Spark setting for the memory of each GPU that a worker uses: `8g`."""


def require_slots(
    session: SparkSession,
    layout: ClusterLayout,
    wait_s: float = _REGISTRATION_S,
    profiles: Profiles = NONE,
) -> None:
    """Checks that all tasks of the layout can run at the same time.

    Waits a while for executors that have not registered yet, except on `local[n]`, and where they
    may come while the tasks wait: there it passes unless their number is bound to be too small.

    Raises:
        SparkTrainingError: Too few slots, settings that the job does not work with, or
            a Python on this machine that lacks sparkflow.
    """
    use_this_python(session)
    context: Any = session.sparkContext
    settings = dict(context.getConf().getAll())
    problem = describe_settings(settings, layout, context.master)
    if problem:
        raise SparkTrainingError(problem)
    if gang_start(settings, context.master).grows:
        return
    if profiles:
        _await_room(lambda: describe_shortage(session, layout, profiles), wait_s)
        return
    local = context.master.startswith("local") and not context.master.startswith("local-cluster")
    check_slots(lambda: count_tasks(session), layout, 0.0 if local else wait_s, settings)


def count_workers(session: SparkSession, num_ps: int, profiles: Profiles = NONE) -> int:
    """Returns how many workers the session has slots for, in addition to parameter servers."""
    if profiles:
        return count_profiled_workers(session, num_ps, profiles)
    return max(0, count_tasks(session) - num_ps)


def session_gang(session: SparkSession) -> GangStart:
    """Returns how the tasks of a classic session start."""
    context: Any = session.sparkContext
    return gang_start(dict(context.getConf().getAll()), context.master)


def describe_session_slots(
    session: SparkSession, layout: ClusterLayout, profiles: Profiles = NONE
) -> tuple[str, str]:
    """Returns the texts on too few slots while waiting for tasks.

    Returns:
        How many there are, in a few words; and what was asked and what to do. Both "" where there
        are enough.
    """
    if profiles:
        if session_gang(session).grows:
            return "", ""  # the executors of each profile come while its tasks wait
        shortage = describe_shortage(session, layout, profiles)
        return ("Spark has too few resources" if shortage else ""), shortage
    context: Any = session.sparkContext
    found = count_tasks(session)
    settings = dict(context.getConf().getAll())
    if found >= layout.num_tasks:
        return "", ""
    words = f"Spark has {found} task slot{'' if found == 1 else 's'}"
    return words, describe_slots(found, layout, settings)


def check_slots(
    count: Callable[[], int],
    layout: ClusterLayout,
    wait_s: float,
    settings: dict[str, str] | None = None,
) -> None:
    """Waits up to `wait_s` seconds for `count()` to reach the number of tasks.

    Raises:
        SparkTrainingError: It does not; the text has both numbers.
    """

    def shortage() -> str:
        found = count()
        return "" if found >= layout.num_tasks else describe_slots(found, layout, settings or {})

    _await_room(shortage, wait_s)


def _await_room(shortage: Callable[[], str], wait_s: float) -> None:
    """Waits up to `wait_s` seconds until nothing is short."""
    deadline = time.monotonic() + wait_s
    while text := shortage():
        if time.monotonic() >= deadline:
            raise SparkTrainingError(text)
        time.sleep(_POLL_S)


def gpu_memory_bytes(session: SparkSession) -> int | None:
    """Returns the memory of each GPU for a worker, from Spark's settings; None for all of it.

    Raises:
        ValueError: The setting is no size of memory.
    """
    text = session.sparkContext.getConf().get(GPU_MEMORY, "")
    try:
        return memory_bytes(text or "")
    except ValueError as error:
        raise ValueError(f"{GPU_MEMORY}: {error}") from None


def warn_of_memory(session: SparkSession, layout: ClusterLayout, variable_bytes: int) -> None:
    """Logs a warning if executors may lack the memory that the tasks' processes need.

    Args:
        session: The session.
        layout: The tasks.
        variable_bytes: The size of all variables, including optimizer slots.
    """
    context: Any = session.sparkContext
    settings = dict(context.getConf().getAll())
    text = describe_memory(settings, context.master, layout, variable_bytes)
    if text:
        _log.warning("%s", text)


class SlotLedger:
    """The slots that fits of this process use. Fits that find too few wait in order.

    `_changed` guards all fields.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._changes = 0
        self._used = 0
        self._queue: list[object] = []
        self._told: set[object] = set()  # those of the queue that know that they wait

    @contextlib.contextmanager
    def reserved(
        self, wanted: int, count: Callable[[], int], on_waiting: Callable[[str], None]
    ) -> Iterator[None]:
        """Holds slots inside the `with` block; waits until other fits leave enough.

        Args:
            wanted: How many.
            count: How many there are in all.
            on_waiting: Is told, again and again, what is waited for.
        """
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
        try:
            self._await_turn(ticket, wanted, count, on_waiting)
        finally:
            with self._changed:
                self._queue.remove(ticket)
                self._told.discard(ticket)
                self._tell()
        try:
            yield
        finally:
            with self._changed:
                self._used -= wanted
                self._tell()

    def _await_turn(
        self,
        ticket: object,
        wanted: int,
        count: Callable[[], int],
        on_waiting: Callable[[str], None],
    ) -> None:
        """Returns once the slots are the ticket's."""
        moved = True
        while True:
            total = count()
            with self._changed:
                seen = self._changes
                place = self._queue.index(ticket)
                # Alone, a fit goes on in any case: Spark itself says what is missing.
                has_room = self._used == 0 or self._used + wanted <= total
                if has_room and not place:
                    self._used += wanted
                    return
                # Those before it may only be asking Spark how many slots there are.
                is_told = not has_room or not moved or bool(self._told & {*self._queue[:place]})
                is_news = is_told and ticket not in self._told
                if is_told:
                    self._told.add(ticket)
                text = _describe_turn(wanted, self._used, total, place)
            if is_news:
                _log.warning("%s", text)
            if is_told:
                on_waiting(text)
            moved = self._wait_for_change(seen)

    def _wait_for_change(self, seen: int) -> bool:
        """Whether something has changed since there were `seen` changes, or does within a while."""
        with self._changed:
            return self._changed.wait_for(lambda: self._changes != seen, _SAY_S)

    def _tell(self) -> None:
        self._changes += 1
        self._changed.notify_all()


def _describe_turn(wanted: int, used: int, total: int, place: int) -> str:
    needed = "1 task slot is" if wanted == 1 else f"{wanted} task slots are"
    before = f"; {place} of them {'comes' if place == 1 else 'come'} first" if place else ""
    return (
        f"waiting for other fits of this session: {needed} needed, {used} of {total} are in use"
        f"{before}"
    )


# A process has one Spark context.
_ledger = SlotLedger()
_devices = SlotLedger()  # of workers that take more than cores


@contextlib.contextmanager
def reserved_slots(
    session: SparkSession,
    layout: ClusterLayout,
    on_waiting: Callable[[str], None],
    profiles: Profiles = NONE,
) -> Iterator[None]:
    """Holds the layout's slots against other fits of this process, see `SlotLedger.reserved`."""
    context: Any = session.sparkContext
    settings = dict(context.getConf().getAll())
    grows = gang_start(settings, context.master).grows

    def count() -> int:
        if grows:  # those that are there now say nothing
            most = most_slots(settings)
            return sys.maxsize if most is None else most
        return count_tasks(session)

    with contextlib.ExitStack() as stack:
        if not profiles:
            stack.enter_context(_ledger.reserved(layout.num_tasks, count, on_waiting))
        elif not grows:
            slots = -(-profiles.cpus(layout, settings) // int(settings.get("spark.task.cpus", "1")))
            stack.enter_context(_ledger.reserved(slots, count, on_waiting))
            if profiles.takes_devices:
                room = functools.partial(count_tasks, session, profiles.worker)
                workers = layout.num_tasks - layout.num_ps
                stack.enter_context(_devices.reserved(workers, room, on_waiting))
        yield
