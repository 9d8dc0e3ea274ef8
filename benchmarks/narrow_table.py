"""A table stored as bfloat16, compared with float32: time, memory and training result.

    python benchmarks/narrow_table.py --record

The table of `embedding.py`, by Adagrad: 4,096 of 1,000,000 rows of 64 numbers per step. Updates are
computed in float32 in both cases. Then a smaller table is trained to convergence with decreasing
steps: "left" is the mean squared distance of its rows from their targets.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import machine
from report import Report, Table, add_call_options, time_text
from timing import measured, seconds_per_call

PACKAGES = ("numpy", "llvmlite")
STORED = {
    "float32": ("float32", None),
    "bfloat16, stochastic": ("bfloat16", "stochastic"),
    "bfloat16, nearest": ("bfloat16", "nearest"),
}
SMALL_ROWS, SMALL_STEPS, SMALL_RATE = 2_000, 3_000, 0.3


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_call_options(parser, 5, 0.3, STORED)
    options = parser.parse_args()
    report = Report("narrow_table", PACKAGES, options)
    tables = {}
    for threads in options.threads:
        rows = [row(name, threads, options.rounds, options.round_s) for name in options.cases]
        headings = ["table stored as", "time of a step", "table and slots", "left"]
        tables[f"On {threads} threads"] = Table(headings, rows)
    report.finish(tables)


def row(name: str, threads: int, rounds: int, round_s: float) -> list[str]:
    """The measurements of a table."""
    import embedding
    import numpy as np

    import sparkflow as tf

    dtype, rounding = STORED[name]
    config = tf.ConfigProto(intra_op_parallelism_threads=threads)

    def trained(start: Any, rate: float) -> tuple[Any, ...]:
        held = tf.Variable(tf.cast(start, dtype))
        if rounding:
            tf.train.set_rounding(held, rounding)
        ids = tf.placeholder(tf.int64, [None])
        wanted = tf.placeholder(tf.float32, [None, start.shape[1]])
        rows = tf.cast(tf.nn.embedding_lookup(held, ids), tf.float32)
        loss = embedding.loss(tf, rows, wanted)
        optimizer = tf.train.AdagradOptimizer(rate, embedding.INITIAL_ACCUMULATOR)
        return ids, wanted, held, [loss, optimizer.minimize(loss)]

    with tf.Graph().as_default(), tf.Session(config=config) as session:
        start = tf.placeholder(tf.float32, [embedding.ROWS, embedding.WIDTH])
        ids, wanted, held, step = trained(start, embedding.LEARNING_RATE)
        session.run(tf.global_variables_initializer(), {start: embedding.table()})
        sets, targets = itertools.cycle(embedding.id_sets()), embedding.targets()

        def call() -> None:
            session.run(step, {ids: next(sets), wanted: targets})

        time = measured([seconds_per_call(call, round_s) for _ in range(rounds)])
        sizes = [each.dtype.size * each.shape.num_elements() for each in tf.global_variables()]
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        tf.set_random_seed(1)
        generator = np.random.default_rng(3)
        start = tf.constant(generator.random((SMALL_ROWS, 16), np.float32))
        ids, wanted, held, step = trained(start, SMALL_RATE)
        session.run(tf.global_variables_initializer())
        targets = generator.random((SMALL_ROWS, 16), np.float32) + np.float32(1)
        for _ in range(SMALL_STEPS):
            session.run(step, {ids: np.arange(SMALL_ROWS), wanted: targets})
        left = float(np.mean((session.run(held).astype(np.float32) - targets) ** 2))
    return [name, time_text(time), f"{sum(sizes) / 1e6:.0f} MB", f"{left:.2g}"]


if __name__ == "__main__":
    main()
