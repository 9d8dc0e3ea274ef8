"""Training on a classic session, led by the driver. `connect.client` has the other backend."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkflow.spark.cluster.cluster import Cluster
from sparkflow.spark.cluster.failures import is_restartable
from sparkflow.spark.cluster.scheduling.profiles import session_profiles, why_not
from sparkflow.spark.cluster.scheduling.slots import (
    count_workers,
    gpu_memory_bytes,
    require_slots,
    reserved_slots,
    session_gang,
    warn_of_memory,
)
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.control.attempts.fit_state import FitState
from sparkflow.spark.control.attempts.retry_loop import RetryLoop
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.control.elastic import ElasticWorkers
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.encryption import new_credentials, session_speaks_tls
from sparkflow.spark.launch.elastic_training import ElasticTraining, scouts
from sparkflow.spark.launch.training import Trained, Training
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.storage.session_files import files_for
from sparkflow.spark.task_resources import RoleResources
from sparkflow_runtime.security import Credentials

_log = logging.getLogger(__name__)


class ClassicBackend:
    """The backend in which the driver leads, which has a JVM and is reachable from executors.

    Args:
        session: The session.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def require_slots(
        self, layout: ClusterLayout, resources: RoleResources, is_elastic: bool = False
    ) -> ClusterLayout:
        """Asks the scheduler."""
        reason = why_not(self._session.sparkContext.master)
        if resources and reason:
            _log.warning("%s", reason)
        profiles = session_profiles(self._session, resources)
        layout = profiles.arranged(layout)
        require_slots(self._session, layout, profiles=profiles)
        return layout

    def speaks_tls(self, wanted: bool | str) -> bool:
        """Decides by the driver's address."""
        return session_speaks_tls(wanted, self._session)

    def count_workers(self, config: FitConfig) -> int:
        """Asks the scheduler."""
        profiles = session_profiles(self._session, config.resources)
        return count_workers(self._session, config.layout().num_ps, profiles)

    def train(self, training: Training) -> Trained:
        """Runs attempts of the Spark job until one succeeds."""
        plan, callbacks = training.plan, training.callbacks
        warn_of_memory(self._session, plan.layout, plan.variable_bytes)
        credentials = new_credentials(self.speaks_tls(plan.config.tls))
        store = self._store(plan)
        fit_state = FitState(plan, credentials, callbacks, store, start=training.start)
        if training.resized is not None:
            return self._train_elastic(training, fit_state, credentials)
        job_config = training.job(credentials, gpu_memory_bytes(self._session))
        profiles = session_profiles(self._session, plan.config.resources)
        name, description = training.name, training.description
        cluster = Cluster(training.rows, job_config, name, description, profiles=profiles)
        feed = training.feed

        def attempt(number: int) -> Mapping[str, Any]:
            run = fit_state.attempt()
            fit_state.history.tasks_started = str(cluster.gang)
            fed = replace(feed, start=fit_state.positions)
            server, job = cluster.begin_attempt(run.events.put, json.dumps(fed.to_json()))
            return run.run(server, job)

        retries = RetryLoop(
            attempt,
            plan.config.max_restarts,
            is_restartable,
            fit_state.on_restart,
            lambda: fit_state.restarts,
        )
        values = fit_state.finished_values
        if values is None:
            with (
                reserved_slots(self._session, plan.layout, callbacks.on_waiting, profiles),
                contextlib.closing(cluster),
            ):
                values = retries.run()
                cluster.end()
        return values, fit_state.history

    def _train_elastic(
        self, training: Training, fit_state: FitState, credentials: Credentials
    ) -> Trained:
        """Trains with a number of workers that adapts to the available slots."""
        session, plan = self._session, training.plan
        config = plan.config
        most = training.most_workers
        profiles = session_profiles(session, config.resources)
        elastic = ElasticWorkers(
            config.min_workers,
            most,
            training.count_workers
            or (lambda: count_workers(session, plan.layout.num_ps, profiles)),
            config.in_step,
            fit_state.remember,
        )
        values = fit_state.finished_values
        if values is None:
            widest = plan.layout.of_workers(most)
            elastic_training = ElasticTraining(
                training, fit_state, elastic, credentials, gpu_memory_bytes(session), profiles
            )
            with contextlib.ExitStack() as stack:
                say = training.callbacks.on_waiting
                stack.enter_context(reserved_slots(session, widest, say, profiles))
                if session_gang(session).grows:
                    stack.enter_context(scouts(session, widest, profiles))
                values = elastic_training.run()
        return values, fit_state.history

    def _store(self, plan: TrainingPlan) -> CheckpointStore | None:
        """Returns the storage of checkpoints, through pyarrow if possible, else through Hadoop."""
        return CheckpointStore.of(plan.config, functools.partial(files_for, self._session))
