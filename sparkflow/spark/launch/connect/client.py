"""Training on Spark Connect: the chief leads on the cluster, the client follows it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pyspark.resource import ResourceProfile

from sparkflow.spark.cluster.scheduling.gang import SETTINGS, gang_start
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
from sparkflow.spark.launch.connect.job import ConnectJob
from sparkflow.spark.launch.connect.lead import Leadership, picklable
from sparkflow.spark.launch.connect.live import Replay
from sparkflow.spark.launch.connect.outcome import Outcome
from sparkflow.spark.launch.connect.room import TOLD_AT_END, TooFewSlotsError, require_slots
from sparkflow.spark.launch.training import FIXED_WORKERS, Trained, Training
from sparkflow.spark.task_resources import RoleResources

_log = logging.getLogger(__name__)

SHARED_DIRECTORY: Final = "spark.sparkflow.sharedDir"
"""The Spark setting of a directory that all executors reach; checkpointDir does as well."""


class ConnectBackend:
    """The chief beside task 0 leads.

    Args:
        session: The session.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def require_slots(self, layout: ClusterLayout, resources: RoleResources) -> ClusterLayout:
        """Runs a small barrier job, for a Connect client cannot ask the scheduler.

        Where there is no barrier stage, executors come while tasks wait: then only settings say no.
        Adds a messenger where the cluster has a slot more: then callbacks are told while training
        runs, if the slot is free when it begins.
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
            _log.warning(TOLD_AT_END, layout.num_tasks, "there is none")
            return layout
        return live

    def speaks_tls(self, wanted: bool | str) -> bool:
        """Yes, unless it is not wanted: where the tasks will be is not known here."""
        return speaks_tls(wanted, None, lambda name: self._setting(name, "false"))

    def count_workers(self, num_ps: int, resources: RoleResources) -> int:
        """Raises, for the driver that could see executors come and go does not lead here."""
        raise SparkTrainingError(FIXED_WORKERS)

    def train(self, training: Training) -> Trained:
        """Runs jobs until one ends well; then tells the callbacks what happened."""
        plan = training.plan
        gang = gang_start(self._settings())
        _log.info("the tasks start in %s", gang)
        shared = self._setting(SHARED_DIRECTORY, "") or plan.config.checkpoint_dir
        if not gang.barrier and plan.layout.num_tasks > 1 and not shared:
            raise SparkTrainingError(
                f"The tasks start one by one ({gang.reason}), and on Spark Connect they can only "
                "meet in a directory that all executors reach: set checkpointDir, or the Spark "
                f"setting {SHARED_DIRECTORY}. One task (numWorkers=1, numPs=0) needs none"
            )
        restarts = plan.config.max_restarts
        callbacks = training.callbacks
        is_live = bool(plan.layout.messengers)
        work = Leadership(
            picklable(plan),
            training.feed,
            restarts,
            training.start,
            live=is_live,
            needs_epochs=is_live and callbacks.needs_epochs,
        )
        if not is_live:
            callbacks.on_waiting("training on the cluster; Spark Connect tells the rest at the end")
        replay = Replay(callbacks, plan) if is_live else None
        credentials = new_credentials(self.speaks_tls(plan.config.tls))
        config = training.job(credentials, memory_bytes(self._setting(GPU_MEMORY, "")))
        job = ConnectJob(
            training.rows,
            replace(config, barrier=gang.barrier),
            work,
            restarts,
            callbacks.on_restart,
            shared,
            self._setting("spark.driver.host", ""),
            replay,
            self._profile(plan.layout, plan.config.resources, warn=False),
        )
        found = job.run()
        outcome = replace(found, history={**found.history, "tasks_started": str(gang)})
        if replay is None:
            return tell_finished(callbacks, plan, outcome)
        history = TrainingHistory.from_dict(outcome.history)
        if history.resumed is not None:
            _log.warning("%s", history.resumed["text"])
        replay.finish(outcome, history)
        return outcome.values, history

    def _profile(
        self, layout: ClusterLayout, resources: RoleResources, warn: bool = True
    ) -> ResourceProfile | None:
        """What all tasks run with, which are of one stage here; None for Spark's settings."""
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
        """Those that say how tasks start."""
        found = {key: self._setting(key, "") for key in SETTINGS}
        return {key: value for key, value in found.items() if value}

    def _setting(self, key: str, default: str) -> str:
        try:
            return str(self._session.conf.get(key, default))
        except Exception:  # serverless compute denies that there are such settings
            return default


def tell_finished(callbacks: Callbacks, plan: TrainingPlan, outcome: Outcome) -> Trained:
    """Tells the callbacks of a training that has come back; what `Backend.train` returns."""
    history = TrainingHistory.from_dict(outcome.history)
    resumed = history.resumed
    if resumed is not None:
        _log.warning("%s", resumed["text"])
        callbacks.on_resume(resumed["path"], resumed["step"], resumed["finished"])
    if resumed is None or not resumed["finished"]:
        tell(callbacks, FinishedRun(plan, history, outcome.values))
    return outcome.values, history


class FinishedRun:
    """A training that is over, as callbacks see it: a `RunControl`.

    Args:
        plan: What was trained.
        history: What happened.
        values: The variables at the end.
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
        """Changes nothing any more."""

    def values(self) -> Mapping[str, npt.NDArray[Any]]:
        """The variables at the end, whenever it is called."""
        return self._values


def tell(callbacks: Callbacks, run: FinishedRun) -> None:
    """Tells callbacks of a training that is over, in the order in which it happened."""
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
    """Whether an epoch had ended when an entry was made."""
    last = entry == len(history.loss) - 1
    return last or history.epoch_time[epoch] <= history.time[entry]
