"""The chief's work: leads training on the cluster, as `fit` does on a classic session.

Never needs a Spark session. The cluster is that of one barrier job: processes that are lost come
back in place, but a lost executor ends the job, and the client submits another one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparkflow.spark.cluster.compatibility import check_compatibility
from sparkflow.spark.cluster.events import Post
from sparkflow.spark.cluster.failures import is_restartable
from sparkflow.spark.cluster.registration import RegistrationServer
from sparkflow.spark.cluster.task_logs import format_lines
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.control.attempts.fit_state import FitState
from sparkflow.spark.control.attempts.retry_loop import RetryLoop
from sparkflow.spark.control.callbacks import Callbacks
from sparkflow.spark.control.checkpoints.snapshot import Snapshot
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.control.elastic import Resize
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.data.feed_plan import FeedPlan
from sparkflow.spark.endpoints import Ports
from sparkflow.spark.errors import LostTaskError
from sparkflow.spark.launch.connect.outcome import Outcome
from sparkflow.spark.launch.connect.pausing import Pausing
from sparkflow.spark.storage.checkpoint_files import PathFiles
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.security import Credentials

_ANSWER_S = 8.0


@dataclass(frozen=True, slots=True)
class Leadership:
    """The chief's configuration; created on the client, picklable.

    Attributes:
        plan: What is to be trained.
        feed: What workers are told about their rows.
        max_restarts: How often the fit may begin again, in all its jobs.
        start: What training begins with; None for initial values.
        live: Whether callbacks of the client's are told what happens, see `relay`: while it does
            where the layout has a messenger, else at the end.
        needs_epochs: Whether one of them must find the cluster quiet at the end of epochs; only
            where the layout has a messenger does it hear of them in time.
        stop: Why one of them has wanted training to end, before this began.
        lost: Why jobs before this one were lost, see `FitState`.
        changes: Those of the number of workers so far, see `Pausing`.
        pause_after_s: When the job ends for its client to look for slots; None for when that says
            so.
    """

    plan: TrainingPlan
    feed: FeedPlan
    max_restarts: int
    start: Snapshot | None = None
    live: bool = False
    needs_epochs: bool = False
    stop: str | None = None
    lost: tuple[tuple[str, int], ...] = ()
    changes: tuple[Mapping[str, Any], ...] = ()
    pause_after_s: float | None = None


def picklable(plan: TrainingPlan) -> TrainingPlan:
    """A plan without the Python graph that its own was made in."""
    graph = plan.graph
    ready: Any = ReadyReplicas(graph.strategy, graph.graph_def, plan.layout.num_workers)
    return replace(plan, graph=replace(graph, strategy=ready))


class ReadyReplicas:
    """Stands for a replication strategy whose work on the graph is done, and can be pickled.

    Args:
        strategy: That strategy.
        graph_def: The graph it was made in.
        count: How many replicas there are.
    """

    def __init__(self, strategy: Any, graph_def: GraphDef, count: int) -> None:
        made = [strategy.specialised(graph_def, index, count) for index in range(count)]
        texts = [each.SerializeToString(deterministic=True) for each in made]
        # Most strategies run the same graph everywhere.
        self._graphs = texts if len(set(texts)) > 1 else texts[:1]
        self.join_ops = tuple(getattr(each, "name", each) for each in strategy.join_ops)
        self.leave_ops = tuple(getattr(each, "name", each) for each in strategy.leave_ops)

    def specialised(self, graph_def: GraphDef, replica: int, num_replicas: int) -> GraphDef:
        """The graph of one replica."""
        return GraphDef.FromString(self._graphs[replica if len(self._graphs) > 1 else 0])


class JobAround:
    """The barrier job as the chief sees it, which is a part of it: it is there, and runs."""

    is_running = True

    def start(self) -> None:
        """Nothing: it has started."""

    def has_active_tasks(self, beside: int = 0) -> bool:
        """Whether tasks run that come before the barrier stage: none do any more."""
        return False

    def describe_slots(self) -> tuple[str, str]:
        """Nothing: only Spark's driver knows."""
        return "", ""

    def finish(self, patience_s: float = 0.0) -> bool:
        """Whether it has ended, as far as the chief has to wait for that."""
        return True


class JobCluster:
    """The tasks of the barrier job around the chief.

    Args:
        layout: The tasks.
        credentials: What tasks must show, and are shown.
        host: The address to listen on.
        ports: The ports of which to listen on one.
        services: What else is offered there, see `RegistrationServer`.
    """

    def __init__(
        self,
        layout: ClusterLayout,
        credentials: Credentials,
        host: str,
        ports: str = "",
        services: Sequence[Any] = (),
    ) -> None:
        self._post: Post = lambda event: None
        self._server = RegistrationServer(
            layout,
            self._pass_on,
            host,
            credentials,
            check=check_compatibility,
            show_lines=_show_lines,
            ports=Ports.of(ports),
            services=services,
        )
        self._attempts = 0
        self.port = self._server.port

    def begin_attempt(self, post: Post, feed_plan: str) -> tuple[RegistrationServer, Any]:
        """The service and the job for one more attempt.

        Raises:
            LostTaskError: A task does not answer any more, so this job has no future.
        """
        if self._attempts and not self._server.wait_for_answers(_ANSWER_S):
            raise LostTaskError("Some tasks of the Spark job are gone")
        self._attempts += 1
        self._post = post
        self._server.begin_attempt(feed_plan)
        return self._server, JobAround()

    def close(self, reason: str = "") -> None:
        """Ends all tasks; `reason` is empty after training that went well."""
        self._server.end(reason)

    def stop(self) -> None:
        """Stops listening."""
        self._server.close()

    def _pass_on(self, event: Any) -> None:
        self._post(event)


def lead(
    work: Leadership,
    credentials: Credentials,
    cluster: JobCluster,
    callbacks: Callbacks,
    remembered: Snapshot | None = None,
    wants_pause: Callable[[], bool] = lambda: False,
) -> Outcome | Snapshot:
    """Trains and returns what came out, or what the next job goes on with. Blocks.

    Args:
        work: What to train.
        credentials: What the tasks and the chief show to each other.
        cluster: The tasks.
        callbacks: Are told of everything.
        remembered: What the job before has left where the number of workers changes.
        wants_pause: Whether the client wants to look for slots.

    Raises:
        Exception: As `SparkTrainer.fit` does.
    """
    config = work.plan.config
    store = CheckpointStore.of(config, lambda _: PathFiles())
    fit_state = FitState(
        work.plan,
        credentials,
        callbacks,
        store,
        start=work.start,
        remembered=remembered,
        lost=work.lost,
    )
    pausing = None
    if config.is_elastic:
        pausing = Pausing(
            wants_pause, work.pause_after_s, config.in_step, fit_state.remember, work.changes
        )

    def attempt(number: int) -> Mapping[str, Any] | Snapshot:
        run = fit_state.attempt(pausing)
        fed = replace(work.feed, start=fit_state.positions)
        server, job = cluster.begin_attempt(run.events.put, json.dumps(fed.to_json()))
        try:
            return run.run(server, job)
        except Resize:
            assert fit_state.remembered is not None
            return fit_state.remembered

    values = fit_state.finished_values
    if values is None:
        found = RetryLoop(
            attempt,
            work.max_restarts,
            is_restartable,
            fit_state.on_restart,
            lambda: fit_state.restarts,
        ).run()
        if isinstance(found, Snapshot):
            return found
        values = found
    return Outcome(values, fit_state.history.to_dict())


def _show_lines(task: TaskName, lines: Sequence[str], dropped: int) -> None:
    # Spark keeps this in the executor's log: nothing of a running task reaches the client.
    sys.stderr.write(format_lines(task, lines, dropped))
    sys.stderr.flush()
