"""What is due between two segments."""

from dataclasses import replace
from typing import Any

import pytest

from sparkflow.spark.control.schedule import Duty, Pause, is_due

PAUSE = Pause(step=100)


class Config:
    validation_steps = 0
    checkpoint_steps = 0
    validates_at_epochs = False
    saves_at_epochs = False


def _due(pause: Pause, **settings: Any) -> set[Duty]:
    config: Any = type("Given", (Config,), settings)
    return {duty for duty in Duty if is_due(duty, config, pause)}


@pytest.mark.parametrize(
    ("pause", "settings", "expected"),
    [
        ({}, {}, set()),
        ({"is_last": True}, {}, {Duty.VALIDATE, Duty.SAVE}),
        ({}, {"validation_steps": 50}, {Duty.VALIDATE}),
        ({}, {"validation_steps": 30, "checkpoint_steps": 25}, {Duty.SAVE}),
        ({"at_epoch": True}, {}, {Duty.REPORT_EPOCH}),
        (
            {"at_epoch": True},
            {"validates_at_epochs": True, "saves_at_epochs": True},
            {Duty.VALIDATE, Duty.REPORT_EPOCH, Duty.SAVE},
        ),
        ({}, {"validates_at_epochs": True, "saves_at_epochs": True}, set()),
        ({"save_time_over": True}, {}, {Duty.SAVE}),
        ({"is_last": True, "validates": False, "saves": False}, {}, set()),
        ({"is_last": True, "validated_at": 100, "saved_at": 100}, {}, set()),
        ({"is_last": True, "validated_at": 99, "saved_at": 99}, {}, {Duty.VALIDATE, Duty.SAVE}),
    ],
)
def test_what_is_due(pause: Any, settings: Any, expected: set[Duty]) -> None:
    assert _due(replace(PAUSE, **pause), **settings) == expected
