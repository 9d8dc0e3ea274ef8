"""Runs from beginning to end in every mode, with workers in threads of this process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow.spark.graphs.training import TrainingMode

MODES = {
    "async": TrainingMode("async"),
    "sync": TrainingMode("sync"),
    "backup": TrainingMode("sync", backup_workers=1),
    "ssp": TrainingMode("ssp", staleness=1),
    "allreduce": TrainingMode("allreduce"),
}


@pytest.mark.parametrize("shares", [(20, 20), (21, 9), (17, 0)], ids=str)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_every_row_counts_once_per_epoch_in_every_mode(rig: Any, mode: Any, shares: Any) -> None:
    if mode.backup_workers and not all(shares):
        shares = (17, 1)  # of a step that needs one worker, the one with rows may come late
    result = rig.but(mode=mode, shares=shares).train()
    assert sum(result.history.rows) == 2 * sum(shares)
    assert result.history.epochs == 2
    assert all(np.isfinite(value).all() for value in result.values.values())
    assert not np.allclose(result.values["bias"], 0)
