"""How often a fault is tried by night: what a test says, or what the environment does."""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "SPARKFLOW_FAULT_ROUNDS"


def rounds_of(usual: int) -> int:
    """The rounds of a nightly test: `SPARKFLOW_FAULT_ROUNDS=20 scripts/run_tests ...` sets them.

    Args:
        usual: What a night has time for.
    """
    return int(os.environ.get(VARIABLE, usual))
