from collections.abc import Callable
from typing import Any

import pytest

from sparkflow_runtime.errors import CancelledError, InvalidArgumentError, OpError
from sparkflow_runtime.master.repeated_runs.server_side import (
    RepeatedRuns,
    pack_call,
    unpack_call,
)


class Waiting:
    """An executable that ends when it is cancelled, or at once."""

    def __init__(self, waits: bool) -> None:
        self.waits = waits
        self.begun: list[Callable[[OpError], None]] = []

    def run(self, args: Any, on_begin: Callable[[Callable[[OpError], None]], None]) -> list[Any]:
        reasons: list[OpError] = []
        on_begin(reasons.append)
        if self.waits and reasons:
            raise reasons[0]
        return list(args)


def test_a_call_is_a_session_and_a_number() -> None:
    assert unpack_call(pack_call("direct;ä", 7)) == ("direct;ä", 7)


@pytest.mark.parametrize("text", [b"", b"1234567", b"12345678\xff"])
def test_what_is_no_call_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="malformed"):
        unpack_call(text)


def test_a_step_whose_client_went_before_it_began_is_cancelled() -> None:
    found: dict[tuple[str, int], Any] = {("s", 1): Waiting(True)}
    runs = RepeatedRuns(lambda session, number: found[session, number])
    runs.cancel(5)
    with pytest.raises(CancelledError, match="client of this step is gone"):
        runs.call(5, pack_call("s", 1), [])
    assert runs.call(6, pack_call("s", 1), [1, 2]) == [1, 2]


def test_no_more_than_some_cancelled_steps_are_remembered() -> None:
    runs = RepeatedRuns(lambda session, number: Waiting(True))  # type: ignore[arg-type, return-value]  # is run alone
    for step in range(5000):
        runs.cancel(step)
    assert runs.call(0, pack_call("s", 1), [3]) == [3]
    with pytest.raises(CancelledError):
        runs.call(4999, pack_call("s", 1), [])
