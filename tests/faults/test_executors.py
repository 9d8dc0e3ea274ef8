"""Executors are killed at random moments, or suspended. See the programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.programs import outcomes
from support.rounds import rounds_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly]

PROGRAM = Path(__file__).with_name("executors_program.py")
SUSPENDED = Path(__file__).with_name("suspended_program.py")
ROUNDS = rounds_of(3)
BACK_S = 30.0
NOTICED_S = 10.0


@pytest.mark.timeout(60 + 180 * ROUNDS)
def test_one_and_two_of_three_executors_at_random_moments(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    calm, *rounds = outcomes(PROGRAM, tmp_path, ROUNDS, "15", timeout_s=50 + 180 * ROUNDS)
    assert len(rounds) == ROUNDS
    for each in rounds:
        assert each["equal"], each
        assert [kill["executors"] for kill in each["kills"]] == [1, 2]
        # One for each loss: two executors that are lost in one go are one.
        assert len(each["restarts"]) == 2, each
        assert each["restarts"] == each["told"]
        assert each["steps"] == calm["steps"]
        assert each["left"] == 0
    # Two that are killed when all steps are made leave nothing to go on with.
    away = [
        [each["kills"][kill]["back_s"] for each in rounds if "back_s" in each["kills"][kill]]
        for kill in range(2)
    ]
    assert min(map(len, away)) > ROUNDS / 2
    record_property("one of three, back after at most (s)", max(away[0]))
    record_property("two of three, back after at most (s)", max(away[1]))
    assert max(map(max, away)) < BACK_S


@pytest.mark.timeout(900)
@pytest.mark.parametrize("executors", [3, 4])
def test_an_executor_that_stands_still_for_two_minutes(
    tmp_path: Path, executors: int, record_property: Callable[[str, object], None]
) -> None:
    """All of it: its JVM, its Python workers and what trains, as on a machine that is suspended."""
    sync, others = outcomes(SUSPENDED, tmp_path, executors, "sync,async", 120, timeout_s=850)
    for each in (sync, others):
        assert each["noticed_s"] < NOTICED_S, each
        assert len(each["restarts"]) == 1, each
        assert "has not answered for" in each["restarts"][0]
        # What was suspended has ended by itself, and nothing that it did late was used.
        assert each["victim_left"] == each["left"] == 0, each
        what = f"{each['mode']}, an executor of {executors} suspended for 120 s"
        record_property(f"{what}: noticed after (s)", each["noticed_s"])
        record_property(f"{what}: its worker back after (s)", each["back_s"])
        if executors > 3:  # with one to spare, training does not wait for it
            assert each["back_s"] < 120, each
            assert each["steps_meanwhile"] > 0, each
    assert sync["equal"]
    assert others["applied"] == others["rows"]
    assert len(others["counts"]) <= 4, others
