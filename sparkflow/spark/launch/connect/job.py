"""The job of all tasks on Spark Connect: a query whose result rows are the outcome.

The client blocks in the query. Interrupting the client interrupts the query, whose tasks end all
processes.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import pickle
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.resource import ResourceProfile
from pyspark.sql import DataFrame

from sparkflow.spark.cluster.events import JobEnded
from sparkflow.spark.cluster.failures import is_restartable, to_exception
from sparkflow.spark.cluster.task import JobConfig
from sparkflow.spark.control.attempts.retry_loop import RetryLoop
from sparkflow.spark.data.plan.partitioning import without_messengers
from sparkflow.spark.data.schema.frame import without_dots
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.launch.connect.asking import end_meeting, find_chief
from sparkflow.spark.launch.connect.connect_task import ConnectConfig, run_connect_task
from sparkflow.spark.launch.connect.lead import Leadership
from sparkflow.spark.launch.connect.live import LiveQuery, Replay, events_in
from sparkflow.spark.launch.connect.outcome import (
    EVENTS,
    ROWS_SCHEMA,
    Outcome,
    Paused,
    from_parts,
    from_rows,
)
from sparkflow.spark.launch.connect.room import map_with, require_slots, takes_messengers
from sparkflow.spark.storage.artifacts import Shipped

_log = logging.getLogger(__name__)

_NEW_EXECUTOR_S = 120.0
_PAUSE_S = 2.0
_FREE_S = 30.0


@dataclass(frozen=True, slots=True)
class ConnectJob:
    """One training on Spark Connect.

    Attributes:
        rows: The placed rows, one partition per task.
        config: The configuration of the tasks; its `driver` is not known yet.
        work: The configuration of the chief.
        max_restarts: Maximum number of further jobs after losses.
        on_restart: Called with the reason before each of them.
        shared_directory: A directory that all executors reach, if there is no barrier stage.
        driver_host: The address by which executors reach Spark's driver; "" if unknown.
        replay: Passes events of the chief to callbacks, during training if there is a slot for a
            messenger, which reports its address; None if the layout has no messenger.
        profile: The resource profile of the tasks; None for Spark's settings.
        remembered: The state left by the previous job if the number of workers changes.
        look: Checks for slots while training runs, see `LiveQuery`; None if not needed.
        look_every_s: Seconds between two checks.
        pause_after_s: Seconds after which a job that cannot be polled ends so that its client can
            check for slots.
    """

    rows: DataFrame
    config: JobConfig
    work: Leadership
    max_restarts: int
    on_restart: Callable[[str], None] = field(default=lambda reason: None)
    shared_directory: str = ""
    driver_host: str = ""
    replay: Replay | None = None
    profile: ResourceProfile | None = None
    remembered: Shipped | None = None
    look: Callable[[], None] | None = None
    look_every_s: float = 10.0
    pause_after_s: float | None = None

    def run(self) -> Outcome:
        """Trains and returns the outcome. Blocks.

        Raises:
            Exception: See `SparkTrainer.fit`.
        """
        lost: list[tuple[str, int]] = []

        def attempt(number: int) -> Outcome:
            if number and self.config.barrier:
                self._wait_for_executors()
            found = self.attempt(lost)
            assert isinstance(found, Outcome)
            return found

        def on_restart(reason: str) -> None:
            lost.append((reason, 0 if self.replay is None else self.replay.steps))
            self.on_restart(reason)

        return RetryLoop(attempt, self.max_restarts, is_restartable, on_restart).run()

    def attempt(self, lost: Sequence[tuple[str, int]] = ()) -> Outcome | Paused:
        """Runs one job.

        Args:
            lost: Why previous jobs were lost, and the number of steps known of each.

        Raises:
            Exception: See `SparkTrainer.fit`.
        """
        stop = None if self.replay is None else self.replay.asked()["stop"]
        made = replace(self, work=replace(self.work, lost=tuple(lost), stop=stop))
        if self.replay is None or not self.config.layout.messengers:
            return made._submit()
        with contextlib.ExitStack() as turn:
            session, layout = self.rows.sparkSession, self.config.layout
            # If slots are being checked, they were free a moment ago.
            patience_s = None if self.look is None else _FREE_S
            if takes_messengers(session, layout, self.profile, turn, patience_s):
                return made._submit(turn.close)
        return made._without_messengers()._submit()

    def _without_messengers(self) -> ConnectJob:
        """Returns the same training without messengers: callbacks are called at the end."""
        layout, plan = self.config.layout, self.work.plan
        alone = replace(layout, messengers=0)
        return replace(
            self,
            rows=without_messengers(self.rows, layout),
            config=replace(self.config, layout=alone),
            work=replace(
                self.work,
                plan=replace(plan, layout=alone),
                needs_epochs=False,
                pause_after_s=self.pause_after_s,
            ),
        )

    def _submit(self, on_begun: Callable[[], None] = lambda: None) -> Outcome | Paused:
        if self.config.barrier or not self.shared_directory:
            return self._run_query("", on_begun)
        meeting = f"{self.shared_directory.rstrip('/')}/sparkflow-meeting-{uuid.uuid4().hex}"
        try:
            return self._run_query(meeting, on_begun)
        finally:
            end_meeting(self.rows.sparkSession, meeting)

    def _run_query(self, meeting: str, on_begun: Callable[[], None]) -> Outcome | Paused:
        work = self.work
        config = ConnectConfig(
            self.config,
            pickle.dumps(work),
            meeting,
            self.driver_host,
            work.plan.config.start_timeout,
            self.remembered,
        )
        task: Any = functools.partial(run_connect_task, config)
        sent, task = without_dots(self.rows, task)
        query = map_with(self.profile, sent, task, ROWS_SCHEMA, self.config.barrier)
        if self.replay is not None:
            session, token = self.rows.sparkSession, self.config.credentials.token or ""
            find = functools.partial(find_chief, session, meeting, token) if meeting else None
            live = LiveQuery(
                query,
                self.config.credentials,
                self.replay,
                on_begun,
                self.look,
                self.look_every_s,
                find,
            )
            parts = from_rows(live.run())
            events = events_in(parts.pop(EVENTS, b"[]"))
            paused = Paused.of(parts)
            if paused is not None:
                self.replay.take_paused(paused, events)
                return paused
            try:
                outcome = self.replay.outcome = from_parts(parts)
            except Exception:
                try:  # deliver events before the failure to callbacks
                    self.replay.take(events)
                except Exception as error:  # such as variables that are lost with training
                    _log.warning("a callback failed after training had failed: %r", error)
                raise
            self.replay.take(events)
            return outcome
        try:
            rows = collect_interruptibly(query)
        except Exception as error:
            raise to_exception([JobEnded(error)]) from error
        return from_parts(from_rows((r["part"], r["number"], r["content"]) for r in rows))

    def _wait_for_executors(self) -> None:
        """Waits until the cluster manager has replaced lost executors.

        Raises:
            SparkTrainingError: It has not replaced them in time.
        """
        deadline = time.monotonic() + _NEW_EXECUTOR_S
        # Training does not need the slots of messengers.
        layout = replace(self.config.layout, messengers=0)
        while True:
            try:
                require_slots(self.rows.sparkSession, layout, self.profile)
                return
            except SparkTrainingError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_S)


def collect_interruptibly(query: DataFrame) -> list[Any]:
    """Returns the rows of a query, which is cancelled if the caller is interrupted."""
    session: Any = query.sparkSession
    tag = f"sparkflow-{uuid.uuid4().hex}"
    session.addTag(tag)
    try:
        return query.collect()
    except BaseException:
        session.interruptTag(tag)
        raise
    finally:
        session.removeTag(tag)
