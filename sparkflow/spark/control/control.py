"""What the parameters say about the course of training, and which of them do not go together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sparkflow.spark.control.direction import resolve
from sparkflow.spark.control.early_stopping import EarlyStopping
from sparkflow.spark.control.schedule import Stops


@dataclass(frozen=True, slots=True)
class Control:
    """When training is judged, kept and ended; attributes as the parameters of the same names.

    Attributes:
        validates: Whether there are validation rows.
    """

    max_steps: int = 0
    validates: bool = False
    validation_steps: int = 0
    early_stopping_patience: int = 0
    early_stopping_metric: str = "loss"
    early_stopping_mode: str = "auto"
    early_stopping_min_delta: float = 0.0
    checkpoint_dir: str = ""
    checkpoint_steps: int = 0
    checkpoint_seconds: float = 0.0
    keep_checkpoint_max: int = 3
    resume: str = "auto"
    allow_non_finite: bool = False

    @classmethod
    def of(cls, params: Mapping[str, Any], validates: bool) -> Control:
        """From the trainer's parameters by name.

        Args:
            params: All parameters with their values.
            validates: Whether there are validation rows.
        """
        return cls(
            max_steps=params["maxSteps"],
            validates=validates,
            validation_steps=params["validationSteps"],
            early_stopping_patience=params["earlyStoppingPatience"],
            early_stopping_metric=params["earlyStoppingMetric"],
            early_stopping_mode=params["earlyStoppingMode"],
            early_stopping_min_delta=params["earlyStoppingMinDelta"],
            checkpoint_dir=params["checkpointDir"],
            checkpoint_steps=params["checkpointSteps"],
            checkpoint_seconds=params["checkpointSeconds"],
            keep_checkpoint_max=params["keepCheckpointMax"],
            resume=params["resume"],
            allow_non_finite=params["allowNonFinite"],
        )

    @property
    def validates_at_epochs(self) -> bool:
        """Whether the end of an epoch is where validation happens."""
        return self.validates and not self.validation_steps

    @property
    def saves_at_epochs(self) -> bool:
        """Whether the end of an epoch is where checkpoints are written."""
        return bool(
            self.checkpoint_dir and not self.checkpoint_steps and not self.checkpoint_seconds
        )

    @property
    def saves_within_epochs(self) -> bool:
        """Whether a checkpoint may fall between two ends of epochs."""
        return bool(self.checkpoint_dir and (self.checkpoint_steps or self.checkpoint_seconds))

    def early_stopping(self) -> EarlyStopping | None:
        """The watch over a metric, if there is one."""
        if not self.early_stopping_patience:
            return None
        return EarlyStopping(
            self.early_stopping_metric,
            self.early_stopping_patience,
            self.early_stopping_min_delta,
            self.early_stopping_mode,
        )

    def stops(self, needs_epochs: bool) -> Stops:
        """Where training must halt.

        Args:
            needs_epochs: Whether a callback wants to find the cluster quiet at the end of epochs.
        """
        periods = (
            self.validation_steps if self.validates else 0,
            self.checkpoint_steps if self.checkpoint_dir else 0,
        )
        at_epochs = needs_epochs or self.validates_at_epochs or self.saves_at_epochs
        return Stops(tuple(each for each in periods if each), at_epochs, self.max_steps)


def check_params(params: Mapping[str, Any], given: Collection[str], validates: bool) -> None:
    """Passes when the parameters make sense together; called by `fit` before any job.

    Args:
        params: All parameters by name.
        given: Names of those that the user has set.
        validates: Whether there is a validation column, fraction or DataFrame.

    Raises:
        ValueError: They do not; the text says which and what to do.
    """
    mode, workers = params["syncMode"], params["numWorkers"]
    if params["backupWorkers"]:
        if mode != "sync":
            raise ValueError(
                f"backupWorkers={params['backupWorkers']} needs syncMode='sync', where a step "
                f"waits for others; syncMode is {mode!r}"
            )
        if params["backupWorkers"] >= workers:
            raise ValueError(
                f"backupWorkers={params['backupWorkers']} must be less than "
                f"numWorkers={workers}: a step needs at least one worker's gradients"
            )
    if "staleness" in given and mode != "ssp":
        raise ValueError(
            f"staleness={params['staleness']} needs syncMode='ssp'; syncMode is {mode!r}"
        )
    if mode == "allreduce" and "numPs" in given and params["numPs"]:
        raise ValueError(
            f"syncMode='allreduce' has no parameter servers, but numPs={params['numPs']} was "
            "set; leave numPs out or set it to 0"
        )
    if not validates:
        for name in ("validationSteps", "earlyStoppingPatience"):
            if params[name]:
                raise ValueError(
                    f"{name}={params[name]} needs validation rows: set validationIndicatorCol or "
                    "validationFraction, or give fit a second DataFrame"
                )
    if not params["earlyStoppingPatience"]:
        for name in ("earlyStoppingMetric", "earlyStoppingMode", "earlyStoppingMinDelta"):
            if name in given:
                raise ValueError(
                    f"{name}={params[name]!r} has no effect without earlyStoppingPatience; set "
                    "that to the number of evaluations to wait for a better value"
                )
    else:
        resolve(params["earlyStoppingMetric"], params["earlyStoppingMode"])
    if not params["checkpointDir"]:
        for name in ("checkpointSteps", "checkpointSeconds", "keepCheckpointMax", "resume"):
            if name in given:
                raise ValueError(
                    f"{name}={params[name]!r} needs checkpointDir, the directory of checkpoints"
                )


def check_metric(metric: str, known: Collection[str]) -> None:
    """Passes when the metric that decides about early stopping is one of the known.

    Raises:
        ValueError: It is not.
    """
    if metric.removeprefix("-") not in known:
        raise ValueError(
            f"earlyStoppingMetric={metric!r}: the model has the metrics "
            f"{', '.join(sorted(known))}; return more of them as eval_metric_ops in mode EVAL"
        )
