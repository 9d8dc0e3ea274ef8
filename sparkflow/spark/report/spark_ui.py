"""The metrics snapshot of a run as the description of its job in Spark's UI.

Spark takes a job's description from the properties that it was submitted with and cannot change it
later: `setJobDescription` applies to future jobs (tried on 3.5 and 4.3). The UI and the REST API
show data of the driver's status listener, accessed here by reflection: the live job and its stages,
from which the listener updates the displayed data at each heartbeat, and the displayed data. None
of this is a public interface of Spark. If it is not as expected (another version, a driver that
denies access to its JVM), the description stays as submitted.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from sparkflow.spark.report.metrics_snapshot import MetricsSnapshot, describe


class JobDescriptionDisplay:
    """Changes the description of the latest job of a fit, and of its stages and SQL query.

    Args:
        session: A classic session.
        tag: The job tag of the fit; further attempts append `-2`, `-3`, ...
        title: The beginning of the description.
    """

    period_s = 2.0

    def __init__(self, session: SparkSession, tag: str, title: str) -> None:
        context: Any = session.sparkContext
        jvm_session: Any = session
        self._option = context._jvm.scala.Option
        self._tracker: Any = context._jsc.sc().statusTracker()
        self._store: Any = context._jsc.sc().statusStore()
        self._sql: Any = jvm_session._jsparkSession.sharedState().statusStore()
        self._fields: dict[str, Any] = {}
        self._tag = tag
        self._title = title
        self._attempt = 1
        self._job = -1
        self._stages: list[int] = []
        self._query: int | None = None
        # The objects that the listener reads, each with whether its description is an Option.
        self._live: list[tuple[Any, bool]] = []

    def show(self, snapshot: MetricsSnapshot) -> None:
        """Shows a snapshot, if the job has been submitted."""
        following = list(self._tracker.getJobIdsForTag(f"{self._tag}-{self._attempt + 1}"))
        if following:
            self._attempt += 1
        tag = self._tag if self._attempt == 1 else f"{self._tag}-{self._attempt}"
        jobs = following or list(self._tracker.getJobIdsForTag(tag))
        if not jobs:
            return
        if max(jobs) != self._job:
            self._find(max(jobs))
        self._describe(f"{self._title}: {describe(snapshot)}")

    def close(self, snapshot: MetricsSnapshot) -> None:
        """Shows the last snapshot."""
        self.show(snapshot)

    def _find(self, job: int) -> None:
        """Looks up the objects of a job."""
        found = self._store.jobWithAssociatedSql(job)
        self._stages = _drain(found._1().stageIds().iterator())
        self._query = found._2().get() if found._2().isDefined() else None
        self._live = []
        listener = self._store.listener()
        if listener.isDefined():
            live_job = self._field(listener.get(), "liveJobs").get(listener.get()).get(job)
            if live_job.isDefined():
                self._live.append((live_job.get(), True))
            stages = self._field(listener.get(), "liveStages").get(listener.get())
            self._live += [
                (stage, True)
                for stage in _elements(stages)
                if stage.info().stageId() in self._stages
            ]
        listener = self._sql.listener()
        if listener.isDefined():
            queries = self._field(listener.get(), "liveExecutions").get(listener.get())
            self._live += [
                (query, False) for query in _elements(queries) if query.executionId() == self._query
            ]
        self._job = job

    def _describe(self, text: str) -> None:
        described = self._option.apply(text)
        for live, is_option in self._live:
            self._field(live, "description").set(live, described if is_option else text)
        shown = [self._store.job(self._job), *map(self._store.lastStageAttempt, self._stages)]
        for each in shown:
            self._field(each, "description").set(each, described)
        query = self._sql.execution(self._query) if self._query is not None else None
        if query is not None and query.isDefined():
            self._field(query.get(), "description").set(query.get(), text)

    def _field(self, owner: Any, name: str) -> Any:
        kind = owner.getClass()
        key = f"{kind.getName()}.{name}"
        if key not in self._fields:
            field = kind.getDeclaredField(name)
            field.setAccessible(True)
            self._fields[key] = field
        return self._fields[key]


def _drain(iterator: Any) -> list[Any]:
    """Yields the elements of a Scala Iterator."""
    found = []
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def _elements(concurrent_map: Any) -> list[Any]:
    """Returns the values of a ConcurrentHashMap; lookups by py4j use keys of another type."""
    elements = concurrent_map.elements()
    found = []
    while elements.hasMoreElements():
        found.append(elements.nextElement())
    return found
