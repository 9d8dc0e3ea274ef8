"""The command that runs the suite: its report contains what tests measure."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("tomllib")  # Python 3.11 has it
_spec = importlib.util.spec_from_file_location("run_faults", ROOT / "scripts/run_faults.py")
assert _spec is not None
assert _spec.loader is not None
run_faults = importlib.util.module_from_spec(_spec)
sys.modules["run_faults"] = run_faults  # dataclasses look up the module there
_spec.loader.exec_module(run_faults)


def test_what_tests_measure_is_in_the_report(tmp_path: Path) -> None:
    test = tmp_path / "test_measured.py"
    test.write_text(
        "def test_measured(record_property):\n    record_property('back after (s)', 1.5)\n"
    )
    (case,), is_good = run_faults.run([str(test)], ["-p", "no:cacheprovider", "-W", "error"])
    assert is_good
    result = run_faults.result_of([case], [f"{case.get('classname')}::test_measured"])
    assert result.figures == {"back after (s)": "1.5"}
    assert "back after (s): 1.5" in run_faults.report(
        {"F1": {"fault": "one", "holds": "all"}}, {"F1": result}, 1.0
    )
