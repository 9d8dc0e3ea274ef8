"""Compares two versions of sparkflow: the cost of a change.

    python benchmarks/pairwise.py --before ../earlier-clone [--record]

The earlier version is another clone with its own environment (`scripts/set_up.sh` there). Both run
the cases of the benchmarks below, each by its own code, in rounds that alternate.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import data_pipeline
import executor
import loops
import parameter_servers
import updates
from competitor import compare, started
from report import Report, Table, add_options, ratio_text, time_text

BEFORE, AFTER = "before", "after"


@dataclass(frozen=True, slots=True)
class Suite:
    """Cases of one competitor.

    Attributes:
        script: The competitor's script.
        cases: The names of the cases.
        options: Its options; None for the number of threads.
    """

    script: str
    cases: Sequence[str]
    options: Sequence[str] | None = None


_EXCHANGES = list(parameter_servers.EXCHANGES)
_TRAINING = ["mlp_async", "mlp_sync", "embedding_async"]
SUITES = {
    "executor": Suite("executor", list(executor.CASES)),
    "updates": Suite("updates", list(updates.CASES)),
    "loops": Suite("loops", list(loops.CASES)),
    "data": Suite("data", list(data_pipeline.CASES)),
    "servers": Suite("ps_graph", _EXCHANGES, ["sparkflow", "auto"]),
    "servers_tcp": Suite("ps_graph", _EXCHANGES, ["sparkflow", "tcp"]),
    "training": Suite("ps_loop", _TRAINING, ["auto"]),
    "training_tcp": Suite("ps_loop", _TRAINING, ["tcp"]),
    "servers_tls": Suite("ps_loop", _EXCHANGES, ["tls"]),
    "training_tls": Suite("ps_loop", _TRAINING, ["tls"]),
}
PACKAGES = ("numpy", "llvmlite")
ALLOWED = 1.03
"""The maximum slowdown of a change without an explanation in RESULTS.md."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=11)
    parser.add_argument("--before", type=Path, required=True, help="the earlier clone")
    parser.add_argument("--round-s", type=float, default=0.3, help="seconds of calls per round")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--suites", nargs="+", default=list(SUITES), choices=SUITES)
    parser.add_argument(
        "--cases", nargs="+", help="of the suites, these only: an earlier clone may lack others"
    )
    options = parser.parse_args()
    report = Report("pairwise", PACKAGES, options)
    before = options.before.resolve()
    rows = []
    for threads in options.threads:
        for name in options.suites:
            suite = SUITES[name]
            script = f"{suite.script}_competitor.py"
            here = str(Path(__file__).with_name(script))
            there = str(before / "benchmarks" / script)
            told = suite.options or ["sparkflow", str(threads)]
            commands = {BEFORE: [there, *told], AFTER: [here, *told]}
            pythons = {BEFORE: str(before / ".venv" / "bin" / "python"), AFTER: sys.executable}
            with started(commands, threads, pythons) as competitors:
                for case in (c for c in suite.cases if c in (options.cases or suite.cases)):
                    times = compare(competitors, case, options.rounds, options.round_s)
                    ratio = times[AFTER].over(times[BEFORE])
                    rows.append(
                        [
                            f"{name}: {case}",
                            str(threads),
                            time_text(times[BEFORE]),
                            time_text(times[AFTER]),
                            ratio_text(ratio),
                            "slower" if ratio.median > ALLOWED else "",
                        ]
                    )
    headings = ["case", "threads", BEFORE, AFTER, f"{AFTER} / {BEFORE}", ""]
    report.finish({f"Time per call, median of {options.rounds} rounds": Table(headings, rows)})


if __name__ == "__main__":
    main()
