"""The cluster of a fit: the registration service and the Spark job, kept across attempts.

A new attempt keeps both if possible: the surviving tasks start over in their processes, and their
rows stay where they are. If Spark has ended the job because of a lost executor, both are recreated.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from sparkflow.spark.cluster.barrier_job import GangJob
from sparkflow.spark.cluster.compatibility import check_compatibility
from sparkflow.spark.cluster.events import Event, Post
from sparkflow.spark.cluster.registration import RegistrationServer, ShowLines
from sparkflow.spark.cluster.scheduling.gang import GangStart
from sparkflow.spark.cluster.scheduling.profiles import NONE, Profiles
from sparkflow.spark.cluster.scheduling.slots import require_slots, session_gang
from sparkflow.spark.cluster.task import JobConfig
from sparkflow.spark.cluster.task_logs import format_lines
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.endpoints import joined
from sparkflow.spark.errors import SparkTrainingError

_log = logging.getLogger(__name__)

# Live tasks answer within milliseconds; a Spark task needs two seconds to report a lost one.
_ANSWER_S = 8.0
# The time that the cluster manager may take to replace a lost executor.
_NEW_EXECUTOR_S = 120.0


class Cluster:
    """The service and the job of one fit. Used by one thread; `_lock` guards `_post` and `_marker`.

    Args:
        rows: What `placement.place_rows` returned.
        config: The configuration of the tasks; its `driver` is not known yet.
        name: The unique name of the fit.
        description: The description in Spark's UI.
        on_lines: Receives the output of tasks, if they send it; `show_lines` if None.
        profiles: The resource profiles of the tasks.

    Attributes:
        gang: How the tasks start, and why.
    """

    def __init__(
        self,
        rows: DataFrame,
        config: JobConfig,
        name: str,
        description: str,
        on_lines: ShowLines | None = None,
        profiles: Profiles = NONE,
    ) -> None:
        self._rows = rows
        self._profiles = profiles
        self._config = config
        self._name = name
        self._description = description
        self._show_lines = on_lines or show_lines
        self._lock = threading.Lock()
        self._post: Post = _ignore
        self._server: RegistrationServer | None = None
        self._job: GangJob | None = None
        self._marker: object = None
        self._jobs = 0
        self.gang: GangStart = session_gang(rows.sparkSession)

    def begin_attempt(self, post: Post, feed_plan: str) -> tuple[RegistrationServer, GangJob]:
        """Returns the service and the job for another attempt.

        Args:
            post: Receives events from now on.
            feed_plan: The feed plan of the workers, as JSON.

        Raises:
            SparkTrainingError: Executors were lost, and there are too few slots without them.
        """
        with self._lock:
            self._post = _ignore
        if self._server is not None and not self._can_go_on():
            self._finish("Training begins again with a new Spark job", patience_s=0.5)
        if self._server is None or self._job is None:
            if self._jobs:
                # Spark would check for slots once, and again only after 15 s.
                session, layout = self._rows.sparkSession, self._config.layout
                require_slots(session, layout, _NEW_EXECUTOR_S, self._profiles)
            self._server, self._job = self._make()
        with self._lock:
            self._post = post
        self._server.begin_attempt(feed_plan)
        return self._server, self._job

    def end(self) -> None:
        """Ends all tasks after successful training, and waits for them.

        Raises:
            SparkTrainingError: The Spark job does not end.
        """
        if not self._finish(""):
            raise SparkTrainingError("The Spark job did not end after training did")

    def close(self) -> None:
        """Ends all tasks in any case, and waits for them. May be called more than once."""
        self._finish("Training was given up", patience_s=2.0)

    def _can_go_on(self) -> bool:
        server, job = self._server, self._job
        assert server is not None
        assert job is not None
        return job.is_running and server.wait_for_answers(_ANSWER_S) and job.is_running

    def _finish(self, reason: str, patience_s: float = 5.0) -> bool:
        server, job = self._server, self._job
        self._server = self._job = None
        if server is None or job is None:
            return True
        server.end(reason)
        ended = job.finish(patience_s)
        server.close()
        return ended

    def _make(self) -> tuple[RegistrationServer, GangJob]:
        config = self._config
        context: Any = self._rows.sparkSession.sparkContext
        host = context.getConf().get("spark.driver.host")
        bind = context.getConf().get("spark.driver.bindAddress", host)
        marker = object()  # distinguishes events of this job from those of earlier ones

        def post(event: Event) -> None:
            with self._lock:
                target = self._post if self._marker is marker else _ignore
            job.turn.hear(event)
            target(event)

        with self._lock:
            self._marker = marker
        server = RegistrationServer(
            config.layout,
            post,
            bind,
            config.credentials,
            check=check_compatibility,
            show_lines=self._show_lines,
            ports=config.endpoints.ports,
        )
        self._jobs += 1
        _log.info("the tasks start in %s", self.gang)
        config = replace(config, driver=joined(host, server.port), barrier=self.gang.barrier)
        name = self._name if self._jobs == 1 else f"{self._name}-{self._jobs}"
        ended = server.job_ended
        job = GangJob(self._rows, config, name, self._description, ended, self._profiles)
        return server, job


def _ignore(event: Event) -> None:
    _log.info("after the end of an attempt: %s", event)


def show_lines(task: TaskName, lines: Sequence[str], dropped: int) -> None:
    """Writes lines of a task's log to stderr, prefixed with the task's name."""
    sys.stderr.write(format_lines(task, lines, dropped))
    sys.stderr.flush()
