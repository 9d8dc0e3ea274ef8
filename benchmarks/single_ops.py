"""Single ops and their gradients compared with TensorFlow, JAX and PyTorch, worst first.

    python benchmarks/single_ops.py --record --tensorflow-python P --torch-python P --jax-python P

The ops are in `single_ops_cases.py` and the modules that it names, on random data of usual sizes;
their results are compared. Times are the total over all processors. `--match` selects ops by a
regular expression that is searched in their text.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from competitor import add_interpreter_options, interpreters, started
from peers import OURS, PACKAGES, THEIRS, row, times_of_case
from peers_competitor import INLINE
from report import Report, Table, add_options
from single_ops_cases import all_ops

COMPETITORS = (OURS, THEIRS, INLINE, "JAX", "torch")
HEADINGS = (
    "op",
    "threads",
    OURS,
    THEIRS,
    "JAX",
    "torch",
    "fastest other / sparkflow",
    "fastest",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, 3)
    parser.add_argument("--round-s", type=float, default=0.01, help="seconds of calls per round")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--match", default="", help="a regular expression of the ops to measure")
    parser.add_argument("--competitors", nargs="+", default=list(COMPETITORS), choices=COMPETITORS)
    add_interpreter_options(parser, "jax")
    options = parser.parse_args()
    pythons = interpreters(options)
    pythons |= {INLINE: pythons[THEIRS]}
    report = Report("single_ops", PACKAGES, options)
    path = str(Path(__file__).with_name("single_ops_competitor.py"))
    rows: list[list[str]] = []
    software: dict[str, None] = {}

    def tables() -> dict[str, Table]:
        found = sorted(rows, key=lambda cells: float(cells[-2]) if cells[-2] != "-" else 0.0)
        caption = f"Processor time per call, median of {options.rounds} rounds"
        return {f"{caption} ({', '.join(software)})": Table(HEADINGS, found)}

    with report.measuring(tables):
        for threads in options.threads:
            commands = {each: [path, each, str(threads)] for each in options.competitors}
            with started(commands, threads, pythons) as competitors:
                software |= dict.fromkeys(each.software for each in competitors if each.software)
                for name in all_ops():
                    if not re.search(options.match, name):
                        continue
                    times, failed = times_of_case(report, competitors, name, options)
                    if OURS in times or OURS in failed:
                        *cells, compiled, ratio, first = row(name, threads, times, failed)
                        rows.append([*cells, ratio, first])
                        assert compiled == "-"


if __name__ == "__main__":
    main()
