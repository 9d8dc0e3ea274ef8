"""Half an hour of fits with faults: see `scripts/soak.py`, which checks the results itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "scripts" / "soak.py"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(2700)
def test_half_an_hour_of_faults(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    report = tmp_path / "soak.md"
    done = subprocess.run(
        [sys.executable, str(SOAK), "--minutes", "30", "--report", str(report)], check=False
    )
    said = report.read_text("utf-8")
    record_property("soak", said.partition("\n\n")[2].partition("\n")[0])
    assert done.returncode == 0, said
