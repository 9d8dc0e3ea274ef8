"""Training on Spark Connect: the chief on the cluster leads, the client follows."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pyspark.resource import ResourceProfile

from sparkflow.spark.cluster.scheduling.gang import SETTINGS, GangStart, gang_start
from sparkflow.spark.cluster.scheduling.gpus import memory_bytes
from sparkflow.spark.cluster.scheduling.preflight import describe_settings
from sparkflow.spark.cluster.scheduling.profiles import build_profile, why_not
from sparkflow.spark.cluster.scheduling.slots import GPU_MEMORY
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.control.callbacks import Callbacks, Update
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.encryption import new_credentials, speaks_tls
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.launch.connect.elastic_jobs import ElasticJobs, workers_in
from sparkflow.spark.launch.connect.free_slots import HOLD_S, free_slots
from sparkflow.spark.launch.connect.job import ConnectJob
from sparkflow.spark.launch.connect.lead import Leadership, picklable
from sparkflow.spark.launch.connect.live import Replay
from sparkflow.spark.launch.connect.outcome import Outcome, Paused
from sparkflow.spark.launch.connect.room import TOLD_AT_END, TooFewSlotsError, require_slots
from sparkflow.spark.launch.training import Trained, Training
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.storage.artifacts import ship
from sparkflow.spark.task_resources import RoleResources

_log = logging.getLogger(__name__)

_LOOK_S: Final = 10.0
"""Seconds between two checks for slots during training."""
_SCOUT_S: Final = 30.0
_SCOUT_HOLD_S: Final = 8.0
"""Seconds between two checks, and for each, if executors are added for waiting tasks."""

SHARED_DIRECTORY: Final = "spark.sparkflow.sharedDir"
"""The Spark setting of a directory that all executors reach; checkpointDir does as well."""


class ConnectBackend:
    """The backend in which the chief next to task 0 leads.

    Args:
        session: The session.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def require_slots(
        self, layout: ClusterLayout, resources: RoleResources, is_elastic: bool = False
    ) -> ClusterLayout:
        """Runs a small barrier job, because a Connect client cannot ask the scheduler.

        Without a barrier stage, executors are added while tasks wait, so only the settings are
        checked. Adds a messenger if the cluster has another slot: callbacks are then called while
        training runs, provided that the slot is free when training starts.
        """
        settings = self._settings()
        problem = describe_settings(settings, layout)
        if problem:
            raise SparkTrainingError(problem)
        profile = self._profile(layout, resources)
        if not gang_start(settings).barrier:
            return layout
        live = replace(layout, messengers=1)
        try:
            require_slots(self._session, live, profile)
        except TooFewSlotsError:
            require_slots(self._session, layout, profile)
            if not is_elastic:  # otherwise one may be added later
                _log.warning(TOLD_AT_END, layout.num_tasks, "there is none")
                return layout
        return live

    def speaks_tls(self, wanted: bool | str) -> bool:
        """Returns true unless TLS is not wanted: the client does not know where tasks will run."""
        return speaks_tls(wanted, None, lambda name: self._setting(name, "false"))

    def count_workers(self, config: FitConfig) -> int:
        """Counts free slots by running tasks that hold them for a moment."""
        layout = config.layout()
        profile = self._profile(layout, config.resources, warn=False)
        slots = free_slots(self._session, layout.num_tasks + 1, profile)
        return workers_in(slots, layout.num_ps, config.min_workers)

    def train(self, training: Training) -> Trained:
        """Runs jobs until one succeeds; then calls the callbacks with its events."""
        plan = training.plan
        gang = gang_start(self._settings())
        _log.info("the tasks start in %s", gang)
        shared = self._setting(SHARED_DIRECTORY, "") or plan.config.checkpoint_dir
        is_elastic = training.resized is not None
        if not gang.barrier and (plan.layout.num_tasks > 1 or is_elastic) and not shared:
            raise SparkTrainingError(
                f"The tasks start one by one ({gang.reason}), and on Spark Connect they can only "
                "meet in a directory that all executors reach: set checkpointDir, or the Spark "
                f"setting {SHARED_DIRECTORY}. One task (numWorkers=1, numPs=0) needs none"
            )
        restarts = plan.config.max_restarts
        callbacks = training.callbacks
        # Without a barrier stage, the client finds the chief in the same way as the tasks.
        is_live = bool(plan.layout.messengers) or (not gang.barrier and bool(shared))
        if not is_live:
            callbacks.on_waiting("training on the cluster; Spark Connect tells the rest at the end")
        replay = Replay(callbacks, plan) if is_live else None
        credentials = new_credentials(self.speaks_tls(plan.config.tls))
        profile = self._profile(plan.layout, plan.config.resources, warn=False)
        gpu_memory_bytes = memory_bytes(self._setting(GPU_MEMORY, ""))

        def job(
            training: Training,
            left: Paused | None = None,
            changes: tuple[dict[str, Any], ...] = (),
            look: Callable[[], None] | None = None,
            pause_after_s: float | None = None,
        ) -> ConnectJob:
            plan = training.plan
            work = Leadership(
                picklable(plan),
                training.feed,
                restarts,
                training.start,
                live=is_live,
                needs_epochs=is_live and callbacks.needs_epochs,
                changes=changes,
            )
            return ConnectJob(
                training.rows,
                replace(training.job(credentials, gpu_memory_bytes), barrier=gang.barrier),
                work,
                restarts,
                callbacks.on_restart,
                shared,
                self._setting("spark.driver.host", ""),
                replay,
                profile,
                ship(self._session, left.left) if left is not None else None,
                look,
                _SCOUT_S if gang.grows else _LOOK_S,
                pause_after_s,
            )

        if replay is not None and is_elastic:
            count = functools.partial(self._count_workers, training, profile, gang)
            found = ElasticJobs(training, job, replay, count).run()
        else:
            found = job(training).run()
        outcome = replace(found, history={**found.history, "tasks_started": str(gang)})
        if replay is None:
            return tell_finished(callbacks, plan, outcome)
        history = TrainingHistory.from_dict(outcome.history)
        if history.resumed is not None:
            _log.warning("%s", history.resumed["text"])
        replay.finish(outcome, history)
        return outcome.values, history

    def _count_workers(
        self, training: Training, profile: ResourceProfile | None, gang: GangStart, running: int
    ) -> int:
        """Returns the number of workers that fit; a job of this fit occupies `running` slots."""
        if training.count_workers is not None:
            return training.count_workers()
        num_ps, least = training.plan.layout.num_ps, training.plan.config.min_workers
        most = num_ps + training.most_workers + 1 - running
        # Waiting tasks cause executors to be added.
        hold_s = _SCOUT_HOLD_S if gang.grows and running else HOLD_S
        slots = running + free_slots(self._session, most, profile, hold_s)
        return workers_in(slots, num_ps, least)

    def _profile(
        self, layout: ClusterLayout, resources: RoleResources, warn: bool = True
    ) -> ResourceProfile | None:
        """Returns the profile of all tasks, which form one stage; None for Spark's settings."""
        if not resources:
            return None
        reason = why_not(self._setting("spark.master", ""))
        if not reason and layout.num_ps:
            reason = (
                "on Spark Connect all tasks are those of one Spark job, so parameter servers take "
                f"what workerResources says ({resources.worker or 'nothing of its own'}), and "
                "psResources has no effect; numPs=0 has the workers hold the variables"
            )
        if warn and reason:
            _log.warning("%s", reason)
        if not resources.worker or why_not(self._setting("spark.master", "")):
            return None
        return build_profile(resources.worker)

    def _settings(self) -> dict[str, str]:
        """Returns the settings that decide how tasks start."""
        found = {key: self._setting(key, "") for key in SETTINGS}
        return {key: value for key, value in found.items() if value}

    def _setting(self, key: str, default: str) -> str:
        try:
            return str(self._session.conf.get(key, default))
        except Exception:  # serverless compute hides these settings
            return default


def tell_finished(callbacks: Callbacks, plan: TrainingPlan, outcome: Outcome) -> Trained:
    """Calls the callbacks for a finished training and returns the result of `Backend.train`."""
    history = TrainingHistory.from_dict(outcome.history)
    resumed = history.resumed
    if resumed is not None:
        _log.warning("%s", resumed["text"])
        callbacks.on_resume(resumed["path"], resumed["step"], resumed["finished"])
    if resumed is None or not resumed["finished"]:
        tell(callbacks, FinishedRun(plan, history, outcome.values))
    return outcome.values, history


class FinishedRun:
    """A finished training for callbacks: a `RunControl`.

    Args:
        plan: The plan of the training.
        history: The training history.
        values: The final variables.
    """

    def __init__(
        self, plan: TrainingPlan, history: TrainingHistory, values: Mapping[str, npt.NDArray[Any]]
    ) -> None:
        self.history = history
        self.num_workers = plan.layout.num_workers
        self.num_ps = plan.layout.num_ps
        self.sync = plan.config.in_step
        self.rows_per_epoch = plan.rows
        self.total_rows = plan.total_rows
        self.total_steps = history.steps
        self.params = plan.config.params
        self._values = values

    def stop(self, reason: str = "") -> None:
        """Has no effect any more."""

    def values(self) -> Mapping[str, npt.NDArray[Any]]:
        """Returns the final variables, whenever it is called."""
        return self._values


def tell(callbacks: Callbacks, run: FinishedRun) -> None:
    """Calls callbacks with the events of a finished training, in their order."""
    history = run.history
    callbacks.on_train_begin(run)
    validation = {int(each["step"]): each for each in history.validation}
    told = 0
    for entry, (loss, rows) in enumerate(zip(history.loss, history.rows, strict=True)):
        first = entry * history.steps_per_entry
        callbacks.on_steps(
            Update(
                first,
                np.array([loss], np.float32),
                np.array([rows], np.int64),
                history.worker[entry],
                0.0,
            )
        )
        reached = min(first + history.steps_per_entry, history.steps)
        for step in [step for step in validation if step <= reached]:
            callbacks.on_validation({k: v for k, v in validation.pop(step).items() if k != "time"})
        while told < len(history.epoch_loss) and _is_over(history, told, entry):
            callbacks.on_epoch_end(told, {"loss": history.epoch_loss[told]})
            told += 1
    for checkpoint in history.checkpoints:
        callbacks.on_checkpoint(str(checkpoint["path"]))
    callbacks.on_train_end(history)


def _is_over(history: TrainingHistory, epoch: int, entry: int) -> bool:
    """Whether an epoch had ended when an entry was recorded."""
    last = entry == len(history.loss) - 1
    return last or history.epoch_time[epoch] <= history.time[entry]
