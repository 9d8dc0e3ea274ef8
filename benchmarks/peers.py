"""All cases in one process compared with TensorFlow, JAX and PyTorch, in the README's table.

    python benchmarks/peers.py --record --tensorflow-python P --torch-python P --jax-python P

TensorFlow runs with as many inter-op as intra-op threads, and with no inter-op threads
(`inter_op_parallelism_threads=-1`); the better time counts. PyTorch is eager and compiled, JAX
under jit. The last column names the fastest, and by how much sparkflow leads or trails.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from competitor import (
    Competitor,
    Disagreement,
    add_interpreter_options,
    compare,
    interpreters,
    started,
)
from peers_competitor import INLINE
from report import Report, Table, add_call_options, ratio_text, time_text
from timing import Measured

OURS, THEIRS = "sparkflow", "TensorFlow"
COMPETITORS = (OURS, THEIRS, INLINE, "JAX", "torch", "torch.compile")
COLUMNS = (OURS, THEIRS, "JAX", "torch", "torch.compile")
CASES = {
    "add": "one addition, 10 floats",
    "chain": "200 chained elementwise ops, 10 floats",
    "mlp": "MLP 784-256-128-10, batch 100, SGD",
    "mlp_large": "MLP 784-1024-1024-10, batch 512, Adam",
    "cnn": "CNN of two 5×5 convolutions, batch 64, SGD",
    "embedding": "embedding 1M × 64, 4,096 ids, Adagrad",
    "transformer": "transformer encoder layer, width 256, 4 heads, 16 × 128, SGD",
    "residual_nhwc": "residual block of 128 channels, 8 × 28 × 28, batch norm, NHWC, SGD",
    "residual_nchw": "the same, NCHW",
    "recommender": "26 embeddings, interactions, MLP, batch 512, SGD",
    "cell": "while_loop, 128 turns of tanh(h w + x), (8, 16)",
    "cell_gradient": "its gradient",
    "lstm": "LSTM of 128 units, 50 steps, batch 64, SGD",
    "dynamic_rnn": "the same by tf.nn.dynamic_rnn",
}
PACKAGES = ("numpy", "llvmlite")


def main() -> None:
    compare_all("peers", __doc__, CASES, "peers_competitor.py")


def compare_all(name: str, description: str | None, cases: Mapping[str, str], script: str) -> None:
    """Runs the cases with all competitors, and prints the table.

    Args:
        name: The name of the benchmark.
        description: For `--help`.
        cases: The texts of the cases, by name.
        script: The competitors' script.
    """
    parser = argparse.ArgumentParser(description=description)
    add_call_options(parser, 5, 0.15, cases)
    parser.add_argument("--competitors", nargs="+", default=list(COMPETITORS), choices=COMPETITORS)
    add_interpreter_options(parser, "jax")
    options = parser.parse_args()
    pythons = interpreters(options)
    pythons |= {INLINE: pythons[THEIRS]}
    report = Report(name, PACKAGES, options)
    rows: list[list[str]] = []
    software: dict[str, None] = {}

    def tables() -> dict[str, Table]:
        caption = f"Time per call, median of {options.rounds} rounds ({', '.join(software)})"
        headings = ["case", "threads", *COLUMNS, "fastest other / sparkflow", "fastest"]
        return {caption: Table(headings, rows)}

    path = str(Path(__file__).parent / script)
    with report.measuring(tables):
        for threads in options.threads:
            commands = {each: [path, each, str(threads)] for each in options.competitors}
            with started(commands, threads, pythons) as competitors:
                software |= dict.fromkeys(each.software for each in competitors if each.software)
                for case in options.cases:
                    times, failed = times_of_case(report, competitors, case, options)
                    rows.append(row(cases[case], threads, times, failed))
                    print(case, threads, "done", file=sys.stderr)


def times_of_case(
    report: Report, competitors: Sequence[Competitor], case: str, options: argparse.Namespace
) -> tuple[dict[str, Measured], list[str]]:
    """Returns the times of a case by competitor, and which have failed; adds reasons to the report.

    There are no times if they compute different results.
    """
    failed: dict[str, str] = {}
    times: dict[str, Measured] = {}
    try:
        times = compare(competitors, case, options.rounds, options.round_s, failed)
    except Disagreement as error:
        print(error, file=sys.stderr)
        report.failures.append(str(error))
    report.failures += [f"{name} in {case}: {why}" for name, why in failed.items()]
    return best_of_theirs(times), list(failed)


def best_of_theirs(times: Mapping[str, Measured]) -> dict[str, Measured]:
    """Returns the times, TensorFlow's with the better setting for the case."""
    both = [times[name] for name in (THEIRS, INLINE) if name in times]
    found = {name: time for name, time in times.items() if name not in (THEIRS, INLINE)}
    return found | ({THEIRS: min(both, key=lambda time: time.median)} if both else {})


def row(
    text: str, threads: int, times: Mapping[str, Measured], failed: Collection[str] = ()
) -> list[str]:
    """Returns a line of the table.

    Args:
        text: The text of the case.
        threads: The number of threads.
        times: The times by competitor, see `best_of_theirs`.
        failed: Competitors that have failed.
    """
    without = dict.fromkeys(failed, "failed") | ({THEIRS: "failed"} if INLINE in failed else {})
    cells = [
        time_text(times[name]) if name in times else without.get(name, "-") for name in COLUMNS
    ]
    others = [name for name in times if name != OURS]
    best = min(others, key=lambda name: times[name].median, default=None)
    if best is None or OURS not in times:
        return [text, str(threads), *cells, "-", "-"]
    ratio = times[best].over(times[OURS])
    first = OURS if ratio.median >= 1 else best
    return [text, str(threads), *cells, ratio_text(ratio), first]


if __name__ == "__main__":
    main()
