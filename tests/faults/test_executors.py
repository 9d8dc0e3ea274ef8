"""Executors are killed at random moments, one of three and then two of three. See the program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.programs import outcomes
from support.rounds import rounds_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly]

PROGRAM = Path(__file__).with_name("executors_program.py")
ROUNDS = rounds_of(3)
BACK_S = 30.0


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
