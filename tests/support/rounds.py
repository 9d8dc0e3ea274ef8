"""How often a fault is tried in nightly tests: set by a test, or by the environment."""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "SPARKFLOW_FAULT_ROUNDS"


def rounds_of(usual: int) -> int:
    """Returns the rounds of a nightly test, see `SPARKFLOW_FAULT_ROUNDS=20 scripts/run_tests ...`.

    Args:
        usual: The number for which a night has time.
    """
    return int(os.environ.get(VARIABLE, usual))
