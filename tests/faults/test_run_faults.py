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


def test_the_report_of_a_run_of_all_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--log`: the results of tests of rows in the log of any run, and the exit status."""
    test = "tests/faults/test_guard_pages.py::test_what_is_beyond"
    (tmp_path / "tests/faults").mkdir(parents=True)
    (tmp_path / "tests/faults/rows.toml").write_text(
        f'[F9]\nfault = "one"\nholds = "all"\nshort = ["{test}"]\n'
    )
    monkeypatch.setattr(run_faults, "ROOT", tmp_path)
    log, written = tmp_path / "tests.xml", tmp_path / "build/faults.md"
    for what, status in (("", 0), ("<failure/>", 1)):
        log.write_text(
            "<testsuite><testcase classname='tests.faults.test_guard_pages' time='2'"
            f" name='test_what_is_beyond[1]'>{what}</testcase>"
            "<testcase classname='tests.test_other' name='test_it'><failure/></testcase>"
            "</testsuite>"
        )
        options = ["run_faults.py", "--log", str(log), "--report", str(written)]
        monkeypatch.setattr(sys, "argv", options)
        assert run_faults.main() == status
        assert ("1 failed" if what else "1 passed") in written.read_text()


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
