"""Runs the fault suite and writes a report: each fault, what must hold, and whether it did.

    python scripts/run_faults.py [--short] [--rows F1,F6] [--report build/faults.md]
    python scripts/run_faults.py --log LOG

The rows and their tests are in tests/faults/rows.toml. `--short` leaves out the tests that take
minutes, and runs the others three at a time. With `--log`, the results are those of a run of all
tests, as in CI: `scripts/run_tests -o junit_family=xunit1 --junitxml=LOG`. The exit status is 1 if
a test of a row failed.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parents[1]
SHORT_OPTIONS = ("-n", "3", "--dist", "loadfile")  # most of them wait


@dataclass
class Result:
    """The results of the tests of a row.

    Attributes:
        counts: The numbers of passed, failed and skipped tests.
        seconds: Their total time.
        figures: Their measurements by name.
        failed: The names of failed tests.
    """

    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    figures: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        if self.failed:
            text = f"**{text}**: {', '.join(self.failed)}"
        return text or "no test"


def main() -> int:
    """Runs the rows and reports the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="without the nightly tests")
    parser.add_argument("--rows", default="", help="such as F1,F6; all without it")
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "faults.md")
    parser.add_argument("--log", type=Path, help="the results of tests that have run")
    options = parser.parse_args()
    rows = tomllib.loads((ROOT / "tests/faults/rows.toml").read_text("utf-8"))
    chosen = {name: rows[name] for name in options.rows.split(",") if name} or rows
    began = time.monotonic()
    results: dict[str, Result] = {}
    is_good = True
    if options.log or options.short:
        if options.log:
            cases = logged(options.log)
        else:
            tests = [each for row in chosen.values() for each in row.get("short", ())]
            cases, is_good = run(list(dict.fromkeys(tests)), SHORT_OPTIONS)
        for name, row in chosen.items():
            results[name] = result_of(cases, row.get("short", ()))
        is_good &= not any(each.failed for each in results.values())
    else:
        for name, row in chosen.items():
            print(f"==== {name}: {row['fault']}", flush=True)
            tests = [*row.get("short", ()), *row.get("nightly", ())]
            cases, is_well = run(tests) if tests else ([], True)
            is_good &= is_well
            results[name] = result_of(cases, tests)
            print(f"==== {name}: {results[name]}", flush=True)
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(report(chosen, results, time.monotonic() - began), "utf-8")
    print(f"The report is {options.report}")
    return 0 if is_good else 1


def run(tests: Sequence[str], options: Iterable[str] = ()) -> tuple[list[ET.Element], bool]:
    """Runs tests; returns each as a JUnit element, and whether all passed."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "tests.xml")
        # The newer JUnit family has no place for measurements of tests: each would be an error.
        log_options = ["-o", "junit_family=xunit1", f"--junitxml={log}"]
        command = [sys.executable, "-m", "pytest", "-q", "-m", "", *log_options, *options]
        done = subprocess.run([*command, *tests], cwd=ROOT, check=False)
        cases = logged(log) if log.exists() else []
    return cases, done.returncode == 0


def logged(log: Path) -> list[ET.Element]:
    """Returns the tests of a JUnit log."""
    return list(ET.parse(log).iter("testcase"))  # noqa: S314  ours


def result_of(cases: Iterable[ET.Element], tests: Iterable[str]) -> Result:
    """Returns the results of some of the tests that ran."""
    result = Result()
    names = {
        (path.removesuffix(".py").replace("/", "."), test) for path, test in map(_parts, tests)
    }
    for case in cases:
        name = case.get("name", "")
        module = case.get("classname", "")
        if (module, name.partition("[")[0]) not in names and (module, "") not in names:
            continue
        kinds = {each.tag for each in case}
        kind = "failed" if kinds & {"failure", "error"} else "passed"
        result.counts["skipped" if "skipped" in kinds else kind] += 1
        result.seconds += float(case.get("time", "0"))
        if kind == "failed":
            result.failed.append(name)
        for each in case.iter("property"):
            result.figures[each.get("name", "")] = each.get("value", "")
    return result


def _parts(test: str) -> tuple[str, str]:
    path, _, name = test.partition("::")
    return path, name


def report(rows: Mapping[str, Any], results: Mapping[str, Result], seconds: float) -> str:
    """Returns the report as Markdown."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    lines = [
        f"# Faults\n\n{when}, commit {commit}, Python {platform.python_version()} on "
        f"{platform.platform()}, {seconds:.0f} s\n",
        "| row | fault | must hold | result | time | measured | not tested |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        found = results[name]
        figures = "; ".join(f"{key}: {value}" for key, value in found.figures.items())
        lines.append(
            f"| {name} | {row['fault']} | {row['holds']} | {found} | {found.seconds:.0f} s | "
            f"{figures} | {row.get('open', '')} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
