"""The plan of a training run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkflow.spark.data.feed_plan import ARRIVAL, PERMUTED


@pytest.mark.parametrize("mode", ["async", "ssp"])
def test_rows_are_fed_as_they_arrive_only_if_no_run_can_resume(
    rig: Any, tmp_path: Path, mode: str
) -> None:
    rig = rig.but(sync_mode=mode, staleness=1, max_steps=3)
    plan = rig.plan()
    assert plan.order == ARRIVAL
    assert not plan.waits_for_rows
    # The run saves at its end, which is in the middle of its first epoch.
    plan = rig.but(checkpoint_dir=str(tmp_path)).plan()
    assert plan.order == plan.position_rule["order"] == PERMUTED
    assert plan.waits_for_rows


@pytest.mark.parametrize("mode", ["sync", "allreduce"])
def test_workers_in_step_always_feed_in_an_order_that_repeats(rig: Any, mode: str) -> None:
    plan = rig.but(sync_mode=mode, num_ps=int(mode == "sync")).plan()
    assert plan.order == PERMUTED
    assert plan.waits_for_rows
