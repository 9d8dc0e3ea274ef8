"""The chief's work: leads training on the cluster, as `fit` does on a classic session.

It needs no Spark session. The cluster is a single barrier job: lost processes are restarted in
place, but a lost executor ends the job, and the client submits another one.
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
        plan: The plan of the training.
        feed: The workers' information about their rows.
        max_restarts: Maximum number of restarts of the fit, over all its jobs.
        start: The values that training starts from; None for initial values.
        live: Whether events are passed to the client's callbacks, see `relay`: during training if
            the layout has a messenger, else at the end.
        needs_epochs: Whether a callback requires that no step runs when it is called at the end of
            an epoch; only possible if the layout has a messenger.
        stop: Why a callback requested the end of training before this job started.
        lost: Why previous jobs were lost, see `FitState`.
        changes: The changes of the number of workers so far, see `Pausing`.
        pause_after_s: Seconds after which the job ends so that its client can check for slots; None
            if the client requests that.
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
    """Returns a plan without the Python graph in which it was built."""
    graph = plan.graph
    ready: Any = ReadyReplicas(graph.strategy, graph.graph_def, plan.layout.num_workers)
    return replace(plan, graph=replace(graph, strategy=ready))


class ReadyReplicas:
    """A picklable stand-in for a replication strategy whose work on the graph is done.

    Args:
        strategy: The strategy.
        graph_def: The graph in which it was built.
        count: The number of replicas.
    """

    def __init__(self, strategy: Any, graph_def: GraphDef, count: int) -> None:
        made = [strategy.specialised(graph_def, index, count) for index in range(count)]
        texts = [each.SerializeToString(deterministic=True) for each in made]
        # Most strategies run the same graph everywhere.
        self._graphs = texts if len(set(texts)) > 1 else texts[:1]
        self.join_ops = tuple(getattr(each, "name", each) for each in strategy.join_ops)
        self.leave_ops = tuple(getattr(each, "name", each) for each in strategy.leave_ops)

    def specialised(self, graph_def: GraphDef, replica: int, num_replicas: int) -> GraphDef:
        """Returns the graph of one replica."""
        return GraphDef.FromString(self._graphs[replica if len(self._graphs) > 1 else 0])


class JobAround:
    """The barrier job from the view of the chief, which is part of it: it is always running."""

    is_running = True

    def start(self) -> None:
        """Does nothing, because the job has started."""

    def has_active_tasks(self, beside: int = 0) -> bool:
        """Whether tasks of earlier stages are running: never, since this stage has started."""
        return False

    def describe_slots(self) -> tuple[str, str]:
        """Returns empty texts, because only Spark's driver knows."""
        return "", ""

    def finish(self, patience_s: float = 0.0) -> bool:
        """Returns true, because the chief need not wait for the end of its own job."""
        return True


class JobCluster:
    """The tasks of the barrier job around the chief.

    Args:
        layout: The tasks.
        credentials: The credentials of tasks and chief.
        host: The address to listen on.
        ports: The ports of which to listen on one.
        services: Additional services, see `RegistrationServer`.
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
        """Returns the service and the job for another attempt.

        Raises:
            LostTaskError: A task no longer responds, so this job cannot continue.
        """
        if self._attempts and not self._server.wait_for_answers(_ANSWER_S):
            raise LostTaskError("Some tasks of the Spark job are gone")
        self._attempts += 1
        self._post = post
        self._server.begin_attempt(feed_plan)
        return self._server, JobAround()

    def close(self, reason: str = "") -> None:
        """Ends all tasks; `reason` is empty if training succeeded."""
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
    """Trains and returns the outcome, or the state from which the next job continues. Blocks.

    Args:
        work: The configuration.
        credentials: The credentials of tasks and chief.
        cluster: The tasks.
        callbacks: Called for every event.
        remembered: The state left by the previous job if the number of workers changes.
        wants_pause: Whether the client wants to check for slots.

    Raises:
        Exception: See `SparkTrainer.fit`.
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
    # Spark keeps this in the executor's log; no output of a running task reaches the client.
    sys.stderr.write(format_lines(task, lines, dropped))
    sys.stderr.flush()
