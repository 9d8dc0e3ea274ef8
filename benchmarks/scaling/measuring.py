"""Measures the simulation's constants, and the throughput that it must predict, on this machine.

A step is measured without a parameter server, split into gradients and update, on one thread, in
processor time, which other processes disturb less. Messages are measured between a parameter server
and one worker over TCP, in step loops: a round trip, with few or many bytes, costs four message
ends.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import embedding
import machine
import mlp
import numpy as np
import ps_programs
from competitor import Competitor
from scaling.model import Channel, Constants, Model
from timing import measured

FLOAT_BYTES, ID_BYTES = 4, 8
TRANSPORT = "tcp"
TOWER_SIZES = (embedding.WIDTH, 256, 128, 10)
"""The dense part of the sparse model."""
_SMALL, _LARGE = "kilobytes_10", "kilobytes_1000"
_ENDS = 4
_HERE = Path(__file__).resolve().parents[1]


def constants(rounds: int, round_s: float) -> Constants:
    """Measures all constants.

    Args:
        rounds: The number of rounds, whose median is taken.
        round_s: The seconds per round.
    """

    def time_of(call: Callable[[], Any]) -> float:
        return measured([_processor_seconds(call, round_s) for _ in range(rounds)]).median

    facts = machine.describe(("numpy",))
    source = f"{facts['machine']}, commit {facts['commit']}"
    return Constants(_models(time_of), _channel(rounds, round_s), source)


def trained_steps_per_s(workers: int, case: str, rounds: int, round_s: float) -> float:
    """Measures the throughput of a cluster with one parameter server, over all workers.

    Args:
        workers: The number of worker processes.
        case: See `parameter_servers.TRAINING`.
        rounds: The number of rounds, whose median is taken.
        round_s: The seconds per round.
    """
    competitor = _loops(workers)
    try:
        competitor.prepare(case)
        times = [competitor.measure(case, round_s) for _ in range(rounds)]
    finally:
        competitor.close()
    return workers / measured(times).median


def _models(time_of: Callable[..., float]) -> dict[str, Model]:
    rows = _sparse(time_of)
    tower = _dense(time_of, TOWER_SIZES, rows.examples)
    recommender = Model(
        f"{rows.text}, under {tower.text}",
        rows.examples,
        rows.compute_s + tower.compute_s,
        rows.pull_bytes + tower.pull_bytes,
        rows.push_bytes + tower.push_bytes,
        rows.apply_s + tower.apply_s,
        sparse=True,
    )
    return {
        "dense": _dense(time_of, mlp.LARGE_SIZES, mlp.LARGE_BATCH),
        "small": _dense(time_of, mlp.SIZES, mlp.BATCH),
        "rows": rows,
        "sparse": recommender,
    }


def _processor_seconds(call: Callable[[], Any], round_s: float) -> float:
    call()
    calls = 0
    begun, began = time.process_time(), time.perf_counter()
    while time.perf_counter() - began < round_s:
        call()
        calls += 1
    return (time.process_time() - begun) / calls


def _channel(rounds: int, round_s: float) -> Channel:
    competitor = _loops(1)
    costs = {}
    try:
        for case in (_SMALL, _LARGE):
            competitor.prepare(case)
            times = [competitor.measure(case, round_s) for _ in range(rounds)]
            costs[case] = measured(times).median
    finally:
        competitor.close()
    size = {case: np.prod(ps_programs.exchange_shape(case)) * FLOAT_BYTES for case in costs}
    per_byte_s = (costs[_LARGE] - costs[_SMALL]) / (size[_LARGE] - size[_SMALL]) / _ENDS
    message_s = costs[_SMALL] / _ENDS - per_byte_s * size[_SMALL]
    if per_byte_s <= 0 or message_s <= 0:
        raise RuntimeError(f"The machine is too busy to measure messages: {costs}")
    return Channel(float(message_s), float(1 / per_byte_s))


def _loops(workers: int) -> Competitor:
    command = [str(_HERE / "ps_loop_competitor.py"), TRANSPORT, str(workers)]
    return Competitor("sparkflow", command, threads=1)


def _dense(time_of: Callable[..., float], sizes: tuple[int, ...], rows: int) -> Model:
    import sparkflow as tf

    features, labels = mlp.batch(rows=rows)
    features = np.ascontiguousarray(features[:, : sizes[0]])
    values = mlp.initial_values(sizes)
    large = sizes == mlp.LARGE_SIZES
    with tf.Graph().as_default(), tf.Session() as session:
        loss = mlp.loss(tf, tf.constant(features), tf.constant(labels), values)
        optimizer = (
            tf.train.AdamOptimizer(mlp.ADAM_LEARNING_RATE)
            if large
            else tf.train.GradientDescentOptimizer(mlp.LEARNING_RATE)
        )
        variables = tf.trainable_variables()
        gradients = tf.gradients(loss, variables)
        given = [tf.constant(value * 1e-3) for value in values]
        update = optimizer.apply_gradients(list(zip(given, variables, strict=True)))
        session.run(tf.global_variables_initializer())
        compute_s = time_of(lambda: session.run(gradients))
        apply_s = time_of(lambda: session.run(update))
    size = sum(value.size for value in values) * FLOAT_BYTES
    layers = "-".join(map(str, sizes))
    kind = "Adam" if large else "SGD"
    return Model(f"MLP {layers}, batch {rows}, {kind}", rows, compute_s, size, size, apply_s)


def _sparse(time_of: Callable[..., float]) -> Model:
    import sparkflow as tf

    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.placeholder(tf.int64, [embedding.IDS])
        table = tf.Variable(ps_programs.table())
        rows = tf.constant(embedding.targets())
        pulled = tf.Variable(embedding.targets() + 1)
        gradient = tf.gradients(embedding.loss(tf, pulled, rows), pulled)
        looked_up = tf.nn.embedding_lookup(table, ids)
        optimizer = tf.train.AdagradOptimizer(
            embedding.LEARNING_RATE, embedding.INITIAL_ACCUMULATOR
        )
        shape = tf.constant([embedding.ROWS, embedding.WIDTH])
        update = optimizer.apply_gradients([(tf.IndexedSlices(rows, ids, shape), table)])
        session.run(tf.global_variables_initializer())
        sets = itertools.cycle(embedding.id_sets())
        compute_s = time_of(lambda: session.run(gradient))
        # The parameter server gathers rows, too.
        apply_s = time_of(lambda: session.run([update, looked_up], {ids: next(sets)}))
    size = embedding.IDS * embedding.WIDTH * FLOAT_BYTES
    text = "embedding 1M × 64, batch 4096, Adagrad"
    with_ids = size + 2 * embedding.IDS * ID_BYTES  # requested, then updated
    return Model(text, embedding.IDS, compute_s, size, with_ids, apply_s, sparse=True)
