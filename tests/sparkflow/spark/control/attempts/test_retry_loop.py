"""Attempts of one training."""

import itertools

import pytest

from sparkflow.spark.control.attempts.retry_loop import RetryLoop
from sparkflow.spark.errors import LostTaskError


def _is_loss(error: BaseException) -> bool:
    return isinstance(error, LostTaskError)


def test_losses_are_made_up_for() -> None:
    reasons: list[str] = []

    def attempt(number: int) -> str:
        if number < 2:
            raise LostTaskError(f"worker {number} was killed\nwith details")
        return f"attempt {number}"

    assert RetryLoop(attempt, 3, _is_loss, reasons.append).run() == "attempt 2"
    assert reasons == ["worker 0 was killed", "worker 1 was killed"]


def test_other_errors_come_out_at_once() -> None:
    numbers: list[int] = []

    def attempt(number: int) -> None:
        numbers.append(number)
        raise ValueError("bad rows")

    with pytest.raises(ValueError, match="bad rows") as caught:
        RetryLoop(attempt, 3, _is_loss).run()
    assert numbers == [0]
    assert not hasattr(caught.value, "__notes__")


def test_the_last_loss_comes_out_with_those_before() -> None:
    counts = itertools.count()

    def attempt(number: int) -> None:
        raise LostTaskError(f"loss {next(counts)}")

    with pytest.raises(LostTaskError, match="loss 2") as caught:
        RetryLoop(attempt, 2, _is_loss).run()
    notes = getattr(caught.value, "__notes__", ["Restarted 2 times"])
    assert "Restarted 2 times" in notes[0]


def test_restarts_that_needed_no_attempt_count_as_well() -> None:
    made = ["worker 1 came back", "worker 0 came back"]

    def attempt(number: int) -> str:
        made.append(f"loss {number}")
        raise LostTaskError("another loss")

    with pytest.raises(LostTaskError) as caught:
        RetryLoop(attempt, 3, _is_loss, made=lambda: made).run()
    assert len(made) == 3
    (note,) = getattr(caught.value, "__notes__", ["1. worker 1 came back"])
    assert "1. worker 1 came back" in note


def test_ctrl_c_is_no_loss() -> None:
    def attempt(number: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RetryLoop(attempt, 3, lambda error: True).run()
