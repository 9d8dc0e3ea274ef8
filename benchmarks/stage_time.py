"""Processor time of a step in two stages and in one task: `model_parallel.py` without waiting.

    python benchmarks/stage_time.py [--record]

The same network and batch, on a cluster within this process, one thread per task. Processor time is
least affected by other programs. It is measured between all bundles that a task sends and receives,
and determines the minimum time of a step with one core per task and no transfer time: a receiver
continues when the bundle has been sent. "of the bound" is this speedup as a fraction of the limit
by filling and draining of 1F1B.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import machine
import model_parallel
import numpy as np
from report import Report, Table, add_options, ratio_text, time_text
from timing import Measured, measured

PARTS = (4, 8)
WARM_UP, STEPS = 3, 6


@dataclass
class Run:
    """One run of a task's part of the graph: its processor time, at the end and at each bundle."""

    task: str
    bundles: list[tuple[str, bool, float]] = field(default_factory=list)
    """The key, whether it was received, and when."""
    seconds: float = 0.0


_runs: defaultdict[int, list[Run]] = defaultdict(list)
"""The marks by step."""
_running = threading.local()


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=3)
    options = parser.parse_args()
    report = Report("stage_time", ("numpy", "llvmlite"), options)
    _put_clocks()
    found: dict[int, list[dict[str, float]]] = defaultdict(list)
    for _ in range(options.rounds):
        for parts in (1, *PARTS):
            found[parts].append(_step(parts))
    one = _of(found[1], "worker 0")
    rows = [["1", "1", time_text(one), "", "", "1", ""]]
    for parts in PARTS:
        stages = [_of(found[parts], f"worker {index}") for index in range(2)]
        least = _of(found[parts], "step")
        speed = one.over(least)
        bound = f"{speed.median * (parts + 1) / (2 * parts):.2f}"
        texts = [time_text(each) for each in (*stages, least)]
        rows.append(["2", str(parts), *texts, ratio_text(speed), bound])
    headings = ["tasks", "parts", "first stage", "second stage", "step at least", "of one task"]
    name = f"Processor time of a step, {model_parallel.LAYERS} dense layers of "
    name += f"{model_parallel.WIDTH}, Adam, batch {model_parallel.BATCH}"
    report.finish({name: Table([*headings, "of the bound"], rows)})


def _put_clocks() -> None:
    """Makes every run of a partition on a task record its thread's processor time and when."""
    from sparkflow_runtime.compiler.program import Program
    from sparkflow_runtime.worker.step import Step

    run, send, receive = Program.run, Step.send, Step.receive

    def clocked(self: Any, step: Any, args: Any) -> Any:
        made = Run("worker 0" if step is None else step._local_task)
        _runs[0 if step is None else step.step_id].append(made)
        _running.now, started = made, time.thread_time()
        results = run(self, step, args)
        made.seconds = time.thread_time() - started
        made.bundles = [(key, came, at - started) for key, came, at in made.bundles]
        return results

    def sending(self: Any, key: str, *rest: Any) -> None:
        send(self, key, *rest)
        _running.now.bundles.append((key, False, time.thread_time()))

    def receiving(self: Any, key: str, source: str) -> Any:
        values = receive(self, key, source)
        _running.now.bundles.append((key, True, time.thread_time()))
        return values

    Program.run = clocked  # type: ignore[method-assign]
    Step.send = sending  # type: ignore[method-assign, assignment]
    Step.receive = receiving  # type: ignore[method-assign]


def _least(runs: list[Run]) -> float:
    """Returns the seconds of a step of these, each on its own core."""
    sent: dict[str, float] = {}
    late = dict.fromkeys(range(len(runs)), 0.0)
    todo = {number: list(each.bundles) for number, each in enumerate(runs)}
    while any(todo.values()):
        before = sum(map(len, todo.values()))
        for number, bundles in todo.items():
            while bundles:
                key, came, at = bundles[0]
                if came and key not in sent:
                    break
                if came:
                    late[number] = max(late[number], sent[key] - at)
                else:
                    sent[key] = at + late[number]
                bundles.pop(0)
        if sum(map(len, todo.values())) == before:
            raise RuntimeError(f"Nobody sends {[each[0] for each in todo.values() if each]}")
    return max(each.seconds + late[number] for number, each in enumerate(runs))


def _of(found: list[dict[str, float]], task: str) -> Measured:
    return measured([each[task] for each in found])


def _step(parts: int) -> dict[str, float]:
    """Returns a step's processor seconds by task: `worker 1`, `ps 0`; and `step`."""
    import sparkflow as tf
    from sparkflow_runtime.codegen.machine import threads
    from sparkflow_runtime.testing.local_cluster import LocalCluster

    threads.set_count(1)
    shape = model_parallel.BATCH, model_parallel.WIDTH
    data = np.random.default_rng(0).random(shape, np.float32)
    with LocalCluster(2, 2) as cluster, tf.Graph().as_default():
        fed, train = _model(tf, parts)
        with tf.Session(cluster.target("worker", 0)) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(WARM_UP):
                session.run(train, {fed: data})
            _runs.clear()
            for _ in range(STEPS):
                session.run(train, {fed: data})
    times: defaultdict[str, list[float]] = defaultdict(list)
    for runs in _runs.values():
        for each in runs:
            times[_short(each.task)].append(each.seconds)
        if parts > 1:
            times["step"].append(_least(runs))
    return {task: statistics.median(each) for task, each in times.items()}


def _short(task: str) -> str:
    job, _, index = task.replace("/job:", "").replace("/replica:0", "").partition("/task:")
    return f"{job} {index}" if index else task


def _model(tf: Any, parts: int) -> tuple[Any, Any]:
    """Returns the placeholder of a batch, and the training step in a number of parts."""
    from sparkflow.train.optimizers.strategy import AsyncReplication
    from sparkflow.train.replication.micro_batches import MicroBatches

    layers = model_parallel.LAYERS

    def place(stage: int) -> Any:
        """Places layers on their stage and variables next to it; all on one task for one part."""

        def device(op: Any) -> str:
            is_variable = op.type == "VariableV2"
            job = "ps" if is_variable and parts > 1 else "worker"
            return f"/job:{job}/task:{stage if parts > 1 else 0}"

        return tf.device(device)

    def loss_of(h: Any) -> Any:
        for layer in range(layers):
            with place(layer * 2 // layers):
                h = tf.layers.dense(h, model_parallel.WIDTH, tf.nn.relu)
        with place(1):
            return tf.reduce_mean(tf.square(tf.reduce_mean(h, 1) - 1.0))

    with tf.device("/job:worker/task:0"):
        fed = tf.placeholder(tf.float32, [None, model_parallel.WIDTH])
    if parts == 1:
        return fed, tf.train.AdamOptimizer(1e-4).minimize(loss_of(fed))
    with tf.device("/job:worker/task:0"):
        size = tf.shape(fed)[0] // parts
        starts = [tf.stack([size * number, 0]) for number in range(parts)]
        cut = [tf.slice(fed, start, tf.stack([size, -1])) for start in starts]
        batches = [[tf.placeholder_with_default(each, [None, each.shape[1]])] for each in cut]
        rows = [tf.cast(size, tf.float32)] * parts
    strategy = MicroBatches(
        AsyncReplication(), batches, rows, _stage_of, 2, None, [size] * parts, [batches[0][0].name]
    )
    with strategy.scope():
        return fed, tf.train.AdamOptimizer(1e-4).minimize(loss_of(batches[0][0]))


def _stage_of(op: Any) -> int | None:
    task = op.device.partition("/job:worker/task:")[2].partition("/")[0]
    return int(task) if task else None


if __name__ == "__main__":
    main()
