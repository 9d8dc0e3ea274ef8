"""The overhead of a step beyond its arithmetic: sparkflow, TensorFlow and hand-written numpy.

    python benchmarks/session_overhead.py [--record]

TensorFlow is left out if it is not installed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from competitor import compare, started
from report import Report, Table, add_call_options, ratio_text, time_text
from timing import Measured

COMPETITORS = ("sparkflow", "TensorFlow", "numpy")
CASES = {
    "add": "Session.run of one add, 10 floats fed",
    "add_callable": "the same through make_callable",
    "chain": "200 chained elementwise ops, 10 floats",
    "mlp": "MLP 784-256-128-10, batch 100, SGD step",
}
PACKAGES = ("numpy", "tensorflow")
_COMPETITOR = str(Path(__file__).with_name("session_competitor.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_call_options(parser, 15, 0.3, CASES)
    options = parser.parse_args()
    report = Report("session_overhead", PACKAGES, options)
    rows = []
    for threads in options.threads:
        commands = {name: [_COMPETITOR, name, str(threads)] for name in COMPETITORS}
        with started(commands, threads) as competitors:
            for case in options.cases:
                times = compare(competitors, case, options.rounds, options.round_s)
                rows.append([CASES[case], str(threads), *_cells(times)])
    others = [f"{name} / sparkflow" for name in COMPETITORS[1:]]
    table = Table(["case", "threads", *COMPETITORS, *others], rows)
    report.finish({f"Time per call, median of {options.rounds} rounds": table})


def _cells(times: dict[str, Measured]) -> list[str]:
    ours = times["sparkflow"]
    shown = [time_text(times[name]) if name in times else "-" for name in COMPETITORS]
    ratios = [
        ratio_text(times[name].over(ours)) if name in times else "-" for name in COMPETITORS[1:]
    ]
    return shown + ratios


if __name__ == "__main__":
    main()
