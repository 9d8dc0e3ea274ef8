"""Runs the fault suite and writes a report: what is done, what must hold, and whether it did.

    python scripts/run_faults.py [--short] [--rows F1,F6] [--report build/faults.md]

The rows and their tests are in tests/faults/rows.toml. `--short` leaves out the tests that take
minutes. The exit status is 1 where a test of a row failed.
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Runs the rows one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="without the nightly tests")
    parser.add_argument("--rows", default="", help="such as F1,F6; all without it")
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "faults.md")
    options = parser.parse_args()
    rows = tomllib.loads((ROOT / "tests/faults/rows.toml").read_text("utf-8"))
    chosen = options.rows.split(",") if options.rows else list(rows)
    lines = []
    failed = False
    for name in chosen:
        row = rows[name]
        tests = row.get("short", []) + ([] if options.short else row.get("nightly", []))
        print(f"==== {name}: {row['fault']}", flush=True)
        result, seconds, is_good = run(tests)
        failed |= not is_good
        print(f"==== {name}: {result} in {seconds:.0f} s", flush=True)
        lines.append(
            f"| {name} | {row['fault']} | {row['holds']} | {result} | {seconds:.0f} s | "
            f"{row.get('open', '')} |"
        )
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(report(lines), "utf-8")
    print(f"The report is {options.report}")
    return 1 if failed else 0


def run(tests: list[str]) -> tuple[str, float, bool]:
    """Runs the tests of a row; what came of it, how long it took, whether all is well."""
    if not tests:
        return "no test", 0.0, True
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", *tests]
    started = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    last = (done.stdout.splitlines() or [""])[-1]
    counts = re.findall(r"(\d+) (passed|failed|errors?|skipped)", last)
    text = ", ".join(f"{count} {what}" for count, what in counts) or last
    if done.returncode:
        text = f"**{text}** (pytest ended with {done.returncode})"
    return text, time.monotonic() - started, not done.returncode


def report(lines: list[Any]) -> str:
    """The report as Markdown."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    head = "| row | fault | must hold | result | time | not tested |\n|---|---|---|---|---|---|\n"
    return (
        f"# Faults\n\n{when}, commit {commit}, Python {platform.python_version()} on "
        f"{platform.platform()}\n\n{head}" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    sys.exit(main())
