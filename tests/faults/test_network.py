"""The cable between two machines is pulled for half a minute. See the program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.network import why_not
from support.programs import outcomes

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

PROGRAM = Path(__file__).with_name("network_program.py")
BREAK_S = 30.0
NOTICED_S = 10.0


@pytest.mark.parametrize("tls", ["plain", "tls"])
def test_half_a_minute_without_a_network(
    tmp_path: Path, tls: str, record_property: Callable[[str, object], None]
) -> None:
    sync, others = outcomes(PROGRAM, tmp_path, "sync,async", tls, BREAK_S, timeout_s=1100)
    for each in (sync, others):
        assert each["far"] == 1, each  # a task's process was cut off
        # In async mode the others continue, and restart after 20 s without a sign of the machine.
        assert 1 <= len(each["restarts"]) <= (1 if each is sync else 2), each
        assert all("the network to it is broken" in reason for reason in each["restarts"])
        assert each["noticed_s"] < NOTICED_S, each
        # What was disconnected has ended by itself, and nothing that it did late was used.
        assert each["far_left"] == each["left"] == 0, each
        record_property(f"{each['mode']}, {tls}: noticed after (s)", each["noticed_s"])
        record_property(f"{each['mode']}, {tls}: on the way again after (s)", each["back_s"])
    assert sync["equal"]
    assert others["applied"] == others["rows"]
    # Each worker repeats its rows: none of them was left out or used twice.
    assert len(others["counts"]) <= 4, others
