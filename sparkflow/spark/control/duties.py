"""What is due between two segments, when no step is under way. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sparkflow.spark.params.config import FitConfig


class Duty(Enum):
    """What may be due."""

    VALIDATE = "validate"
    REPORT_EPOCH = "report an epoch"
    SAVE = "save"


@dataclass(frozen=True, slots=True)
class Pause:
    """Where a run is between two segments.

    Attributes:
        step: Steps made so far.
        at_epoch: Whether an epoch has ended since the last pause.
        is_last: Whether no segment follows.
        save_time_over: Whether the time until the next checkpoint is over.
        validates: Whether the run can validate.
        saves: Whether it has somewhere to save.
        validated_at: The step of the last validation; -1 for none.
        saved_at: The step of the last checkpoint; -1 for none.
    """

    step: int
    at_epoch: bool = False
    is_last: bool = False
    save_time_over: bool = False
    validates: bool = True
    saves: bool = True
    validated_at: int = -1
    saved_at: int = -1


def is_due(duty: Duty, config: FitConfig, pause: Pause) -> bool:
    """Whether this is to be done now; a step is validated once, and saved once."""
    if duty is Duty.REPORT_EPOCH:
        return pause.at_epoch
    if duty is Duty.VALIDATE:
        return (
            pause.validates
            and pause.validated_at != pause.step
            and (
                _is_multiple(pause.step, config.validation_steps)
                or (config.validates_at_epochs and pause.at_epoch)
                or pause.is_last
            )
        )
    return (
        pause.saves
        and pause.saved_at != pause.step
        and (
            _is_multiple(pause.step, config.checkpoint_steps)
            or (config.saves_at_epochs and pause.at_epoch)
            or pause.save_time_over
            or pause.is_last
        )
    )


def _is_multiple(step: int, period: int) -> bool:
    return period > 0 and step % period == 0
