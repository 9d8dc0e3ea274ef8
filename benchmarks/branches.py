"""What independent branches of a graph gain from running on several threads at once.

    python benchmarks/branches.py [--record]

sparkflow runs every case twice, with branches and without (`inter_op_parallelism_threads=1`).
TensorFlow is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from competitor import compare, started
from report import Report, Table, add_options, ratio_text, time_text

WITH, WITHOUT, THEIRS = "sparkflow", "without branches", "TensorFlow"
CASES = {
    "sums": "running sums of 4 tensors (1024, 512), twice each",
    "random": "4 tensors of 500,000 normal numbers, their squares' means",
    "small": "4 towers of 6 convolutions 1×1×32 on (2, 16, 16, 32), SGD step",
    "towers": "towers of convolutions 1×1, 3×3, 5×5 and a pool on (8, 28, 28, 64), SGD step",
    "chain": "one tower of the last, SGD step: nothing to run at once",
    "mlp": "MLP 784-256-128-10, batch 100, SGD step",
    "large": "MLP 784-1024-1024-10, batch 512, Adam step",
    "cnn": "CNN of `executor.py`, batch 64, SGD step",
    "wide_deep": "network of `examples/wide_deep.py`, batch 512, Adam step",
}
PACKAGES = ("numpy", "tensorflow")
_COMPETITOR = str(Path(__file__).with_name("branches_competitor.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=15)
    parser.add_argument("--round-s", type=float, default=0.3, help="seconds of calls per round")
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument(
        "--tensorflow-python", default=sys.executable, help="the Python that has TensorFlow"
    )
    options = parser.parse_args()
    report = Report("branches", PACKAGES, options)
    rows = []
    for threads in options.threads:
        commands = {
            WITH: [_COMPETITOR, WITH, str(threads), str(threads)],
            WITHOUT: [_COMPETITOR, WITH, str(threads), "1"],
            THEIRS: [_COMPETITOR, THEIRS, str(threads), str(threads)],
        }
        with started(commands, threads, {THEIRS: options.tensorflow_python}) as competitors:
            for case in options.cases:
                times = compare(competitors, case, options.rounds, options.round_s)
                ours, without, theirs = times[WITH], times[WITHOUT], times.get(THEIRS)
                found = [CASES[case], str(threads), time_text(ours), time_text(without)]
                found.append("-" if theirs is None else time_text(theirs))
                found.append(ratio_text(without.over(ours)))
                found.append("-" if theirs is None else ratio_text(theirs.over(ours)))
                rows.append(found)
    header = ["case", "threads", WITH, WITHOUT, THEIRS, f"{WITHOUT} / with", f"{THEIRS} / {WITH}"]
    report.finish({f"Time per call, median of {options.rounds} rounds": Table(header, rows)})


if __name__ == "__main__":
    main()
