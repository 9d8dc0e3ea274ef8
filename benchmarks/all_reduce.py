"""All-reduce of one array between two processes on this machine, compared with PyTorch's gloo.

    python benchmarks/all_reduce.py --torch-python PYTHON [--record]

The rate is the size of the array divided by the time until both processes have the sum.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from all_reduce_competitor import CASES, NUM_RANKS
from competitor import add_interpreter_options, compare, interpreters, started
from report import Report, Table, add_options, rate_text, ratio_text
from timing import measured

OURS = "sparkflow"
COMPETITORS = (OURS, "torch")
PACKAGES = ("numpy", "grpcio", "torch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=9)
    parser.add_argument("--round-s", type=float, default=0.3, help="seconds of calls per round")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    add_interpreter_options(parser)
    options = parser.parse_args()
    report = Report("all_reduce", PACKAGES, options)
    script = str(Path(__file__).with_name("all_reduce_competitor.py"))
    commands = {name: [script, name] for name in COMPETITORS}
    rows: list[list[str]] = []
    with started(commands, 1, interpreters(options)) as competitors:
        for case in options.cases:
            times = compare(competitors, case, options.rounds, options.round_s)
            row = [case]
            for name in COMPETITORS:
                if name not in times:
                    row += ["-", "-"]
                    continue
                rates = measured([4 * CASES[case] / each / 1e9 for each in times[name].rounds])
                row += [f"{times[name].median * 1e6:,.0f}", rate_text(rates, 2)]
            both = len(times) == len(COMPETITORS)
            rows.append([*row, ratio_text(times["torch"].over(times[OURS])) if both else "-"])
            print(case, "done", file=sys.stderr)
    headings = ["array"]
    for name in COMPETITORS:
        headings += [f"{name} µs", f"{name} GB/s"]
    caption = (
        f"{NUM_RANKS} processes, median of {options.rounds} rounds; × is how many times as fast"
    )
    report.finish({caption: Table([*headings, "× torch"], rows)})


if __name__ == "__main__":
    main()
