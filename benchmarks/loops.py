"""What loops cost: `tf.while_loop`, its gradient, and a recurrent network, beside TensorFlow.

    python benchmarks/loops.py [--record]

TensorFlow is left out where it is not installed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from competitor import compare, started
from report import Report, Table, add_options, ratio_text, time_text

COMPETITORS = ("sparkflow", "TensorFlow")
CASES = {
    "while": "while_loop, 1,000 turns of y * a + x on (64, 128)",
    "while_gradient": "its gradient",
    "lstm": "LSTM of 128 units, 50 steps, batch 64, SGD step",
}
PACKAGES = ("numpy", "tensorflow")
_COMPETITOR = str(Path(__file__).with_name("loops_competitor.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=9)
    parser.add_argument("--round-s", type=float, default=0.5, help="seconds of calls per round")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    options = parser.parse_args()
    report = Report("loops", PACKAGES, options)
    rows = []
    for threads in options.threads:
        commands = {name: [_COMPETITOR, name, str(threads)] for name in COMPETITORS}
        with started(commands, threads) as competitors:
            for case in options.cases:
                times = compare(competitors, case, options.rounds, options.round_s)
                ours, theirs = times["sparkflow"], times.get("TensorFlow")
                other = "-" if theirs is None else time_text(theirs)
                ratio = "-" if theirs is None else ratio_text(theirs.over(ours))
                rows.append([CASES[case], str(threads), time_text(ours), other, ratio])
    table = Table(["case", "threads", *COMPETITORS, "TensorFlow / sparkflow"], rows)
    report.finish({f"Time per call, median of {options.rounds} rounds": table})


if __name__ == "__main__":
    main()
