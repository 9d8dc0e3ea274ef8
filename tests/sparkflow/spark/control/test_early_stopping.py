"""The direction of the watched metric decides which values are kept."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("metric", "mode", "best"),
    [("closeness", "auto", 20), ("loss", "auto", 20), ("closeness", "min", 5), ("loss", "max", 5)],
)
def test_early_stopping_goes_that_way_and_the_history_says_which_model_it_is(
    rig: Any, metric: str, mode: str, best: int
) -> None:
    """The bias passes 10, where the loss is minimal, after step 20 of 50."""
    rig = rig.but(model_fn=rig.diverging, shares=(20,), epochs=10, validation=(4,)).but(
        early_stopping_patience=3, early_stopping_metric=metric, early_stopping_mode=mode
    )
    result = rig.train()
    history = result.history
    found = history.best
    assert found["step"] == history.best_step == best
    assert found["epoch"] == best / 5
    (measured,) = [each for each in history.validation if each["step"] == best]
    assert found["metrics"] == {"loss": measured["loss"], "closeness": measured["closeness"]}
    assert type(history).from_dict(history.to_dict()).best == found
    assert result.values["bias"].tolist() == [best / 2]
