"""Updates of variables by optimizers, compared with TensorFlow, PyTorch and memory bandwidth.

    python benchmarks/updates.py --torch-python /path/to/python [--record]

One large variable, limited by bytes, and many small ones, limited by calls. Gradients of rows move
the other rows, too: moments decay (PyTorch's sparse Adam leaves them as they are, and is not
compared). The column "group" is sparkflow's kernel for many variables, called without a session;
"limit" copies as many bytes as the update reads and writes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from competitor import add_interpreter_options, compare, interpreters, started
from report import Report, Table, add_options, ratio_text, time_text

CASES = {
    "sgd_large": "SGD of one variable of 1.8 million",
    "adam_large": "Adam of the same",
    "sgd_small": "SGD of 200 variables of 1,000",
    "adam_small": "Adam of the same",
    "adam_rows_large": "Adam of a table of 100,000 × 64 by gradients of 512 rows",
    "adam_rows_small": "Adam of 26 tables of 1,000 × 16, the same",
}
OURS = "sparkflow"
COMPETITORS = (OURS, "group", "TensorFlow", "torch", "limit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=7)
    parser.add_argument("--round-s", type=float, default=0.15, help="seconds of calls per round")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    add_interpreter_options(parser)
    options = parser.parse_args()
    report = Report("updates", ("numpy", "llvmlite", "tensorflow"), options)
    own = str(Path(__file__).with_name("updates_competitor.py"))
    rows = []
    for threads in options.threads:
        commands = {name: [own, name, str(threads)] for name in COMPETITORS}
        with started(commands, threads, interpreters(options)) as competitors:
            for case, text in CASES.items():
                times = compare(competitors, case, options.rounds, options.round_s)
                ratios = [times[OURS].over(times[o]) if o in times else None for o in COMPETITORS]
                rows.append(
                    [
                        text,
                        str(threads),
                        *(time_text(times[name]) if name in times else "-" for name in COMPETITORS),
                        *("-" if ratio is None else ratio_text(ratio) for ratio in ratios[1:]),
                    ]
                )
    headings = ["case", "threads", *COMPETITORS, *(f"/ {name}" for name in COMPETITORS[1:])]
    report.finish({f"Time per update, median of {options.rounds} rounds": Table(headings, rows)})


if __name__ == "__main__":
    main()
