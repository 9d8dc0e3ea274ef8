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
SUSPENDED_S = 120.0


@pytest.mark.timeout(60 + 180 * ROUNDS)
def test_one_and_two_of_three_executors_at_random_moments(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    calm, *rounds = outcomes(PROGRAM, tmp_path, ROUNDS, "15", timeout_s=50 + 180 * ROUNDS)
    assert len(rounds) == ROUNDS
    for each in rounds:
        assert each["equal"], each
        assert [kill["executors"] for kill in each["kills"]] == [1, 2]
        # One for each loss: two executors lost at the same time are one loss.
        assert len(each["restarts"]) == 2, each
        assert each["restarts"] == each["told"]
        assert each["steps"] == calm["steps"]
        assert each["left"] == 0
    # Two that are killed when all steps are done leave nothing to continue.
    away = [
        [each["kills"][kill]["back_s"] for each in rounds if "back_s" in each["kills"][kill]]
        for kill in range(2)
    ]
    assert min(map(len, away)) > ROUNDS / 2
    record_property("one of three, back after at most (s)", max(away[0]))
    record_property("two of three, back after at most (s)", max(away[1]))
    assert max(map(max, away)) < BACK_S


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_executor_that_stands_still_for_two_minutes(
    tmp_path: Path, mode: str, record_property: Callable[[str, object], None]
) -> None:
    """Suspends all of it: its JVM, its Python workers and training processes, like the machine."""
    (found,) = outcomes(SUSPENDED, tmp_path, mode, SUSPENDED_S, timeout_s=850)
    assert found["noticed_s"] < NOTICED_S, found
    # In `async` the others continue without it, and some time later all restart: a second restart.
    assert 1 <= len(found["restarts"]) <= (1 if mode == "sync" else 2), found
    assert all("has not answered for" in each for each in found["restarts"]), found
    # What was suspended has ended by itself, and nothing that it did late was used.
    assert found["victim_left"] == found["left"] == 0, found
    what = f"{mode}, an executor suspended for {SUSPENDED_S:g} s"
    record_property(f"{what}: noticed after (s)", found["noticed_s"])
    record_property(f"{what}: its worker back after (s)", found["back_s"])
    # Spark waits for it, too, and for its rows, until it gives it up.
    assert found["back_s"] < SUSPENDED_S + BACK_S, found
    if mode == "sync":
        assert found["equal"], found
        return
    assert found["applied"] == found["rows"], found
    # Each worker repeats its rows: none of them was left out or used twice.
    assert len(found["counts"]) <= 4, found
