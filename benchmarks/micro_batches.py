"""The cost of dividing a batch on one core, without stages: the lower bound of `model_parallel`.

    python benchmarks/micro_batches.py [--record]

The network of `model_parallel.py`, one thread, no other task: gradients of m parts, one after
another, added up, and one update, compared with the whole batch; and its forward products alone.
Any further cost of a stage's parts is due to the interference of two processes on one machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import machine
import model_parallel
import numpy as np
from report import Report, Table, add_options, ratio_text
from timing import Measured, measured

PARTS = (1, 4, 8)
STEPS = 4


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=5)
    options = parser.parse_args()
    report = Report("micro_batches", ("numpy",), options)
    steps = {name: _steps(trains) for name, trains in (("forward", False), ("step", True))}
    taken: dict[tuple[str, int], list[float]] = {}
    for _ in range(options.rounds + 1):
        for name, run in steps.items():
            for parts in PARTS:
                taken.setdefault((name, parts), []).append(run(parts))
    found = {case: measured(times[1:]) for case, times in taken.items()}
    rows = [_row(parts, found) for parts in PARTS]
    headings = ["parts", "forward, ms", "of whole", "step, ms", "of whole", "bound of two stages"]
    report.finish({"8 dense layers of 1024, batch 512, one thread": Table(headings, rows)})


def _row(parts: int, found: dict[tuple[str, int], Measured]) -> Sequence[str]:
    row = [str(parts)]
    for name in ("forward", "step"):
        each = found[name, parts]
        row += [f"{1e3 * each.median:.1f}", ratio_text(each.over(found[name, 1]))]
    # Of the bound by the pipeline bubble, if two stages did not interfere.
    cost = found["step", parts].over(found["step", 1]).median
    return [*row, "" if parts == 1 else f"{1 / cost:.2f}"]


def _steps(trains: bool) -> Callable[[int], float]:
    """Returns the seconds of a step in this many parts."""
    import sparkflow as tf

    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, model_parallel.WIDTH])
        h = x
        for _ in range(model_parallel.LAYERS):
            h = tf.layers.dense(h, model_parallel.WIDTH, tf.nn.relu)
        loss = tf.reduce_mean(tf.square(tf.reduce_mean(h, 1)))
        weights = tf.trainable_variables()
        sums = [tf.Variable(tf.zeros(each.shape), trainable=False) for each in weights]
        pairs = list(zip(sums, tf.gradients(loss, weights), strict=True))
        add = tf.group(*(tf.assign_add(total, each) for total, each in pairs))
        only = tf.group(*(tf.assign(total, each) for total, each in pairs))
        update = tf.group(
            *(tf.assign_sub(each, 1e-9 * total) for each, total in zip(weights, sums, strict=True))
        )
        session = tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1))
        session.run(tf.global_variables_initializer())
        runs = {
            whole: session.make_callable(only if whole else add, [x]) for whole in (True, False)
        }
        forward, make = session.make_callable(loss, [x]), session.make_callable(update)
    shape = model_parallel.BATCH, model_parallel.WIDTH
    data = np.random.default_rng(0).random(shape, np.float32)

    def run(parts: int) -> float:
        pieces: list[Any] = np.array_split(data, parts)
        step = runs[parts == 1] if trains else forward
        started = time.perf_counter()
        for _ in range(STEPS):
            for piece in pieces:
                step(piece)
            if trains:
                make()
        return (time.perf_counter() - started) / STEPS

    return run


if __name__ == "__main__":
    main()
