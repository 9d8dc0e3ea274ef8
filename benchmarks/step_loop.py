"""Training steps of one parameter server and two workers, compared with the limit of the wire.

    python benchmarks/step_loop.py [--record]

All tasks are processes on this machine with one thread for numpy. Every step pulls and pushes all
parameters of the network in `mlp.py` (940 KB each way); the batch is a constant, so that nothing
but the loop is measured.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import machine
import mlp
import wire
from report import Report, Table, add_options, rate_text, ratio_text
from timing import Measured, measured, seconds_per_call

NUM_WORKERS = 2
PACKAGES = ("numpy", "grpcio", "protobuf")
MODES = {
    "apart": "no parameter server: each worker trains variables of its own",
    "async": "asynchronous",
    "sync": "synchronous",
}
PARAMETERS = sum(value.size for value in mlp.initial_values())
_WARM_UP_STEPS = 20
_TRIPS_S = 0.3


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed of all workers together.

    Attributes:
        steps_per_s: Steps per second of all workers.
        waited: The fraction of the workers' time spent waiting for other tasks.
    """

    steps_per_s: float
    waited: float


def main() -> None:
    machine.clean_own_environment()
    os.environ.update(machine.clean_environment(threads=1))  # inherited by all tasks
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=7)
    parser.add_argument("--steps", type=int, default=500, help="per worker and round")
    options = parser.parse_args()
    report = Report("step_loop", PACKAGES, options)
    size_bytes = 4 * PARAMETERS
    paces: dict[str, list[Pace]] = {mode: [] for mode in MODES}
    exchanges: dict[str, list[float]] = {kind: [] for kind in wire.KINDS}
    trips: dict[str, list[float]] = {kind: [] for kind in wire.KINDS}
    with ExitStack() as stack:
        runs = {mode: start(mode, stack) for mode in MODES}
        wires = {kind: stack.enter_context(wire.connected(kind)) for kind in wire.KINDS}
        for run in runs.values():
            run(_WARM_UP_STEPS)
        for _ in range(options.rounds):
            for mode, run in runs.items():
                paces[mode].append(run(options.steps))
            for kind, exchange in wires.items():
                trips[kind].append(seconds_per_call(partial(exchange, 4, 4), _TRIPS_S))
            for kind in wire.KINDS:
                exchanges[kind].append(
                    wire.exchanges_per_second(kind, size_bytes, NUM_WORKERS, options.steps)
                )
    report.finish(
        {
            f"Steps of {NUM_WORKERS} workers and 1 parameter server, {size_bytes:,} bytes each way "
            f"per step, median of {options.rounds} rounds": _paces_table(paces, exchanges),
            "Round trip between two processes": _trips_table(trips),
        }
    )


def start(mode: str, stack: ExitStack) -> Callable[[int], Pace]:
    """Starts a cluster and returns a function that runs a number of steps on each worker."""
    from sparkflow_runtime.master.driver import DriverMaster
    from sparkflow_runtime.testing.local_cluster import LocalCluster

    num_ps = 0 if mode == "apart" else 1
    cluster = stack.enter_context(LocalCluster(num_ps, NUM_WORKERS, processes=True))
    master = DriverMaster(cluster.cluster, cluster.credentials)
    stack.callback(master.close)
    graph = build(mode)

    def session(worker: int) -> Any:
        filters = ["/job:ps", f"/job:worker/task:{worker}"][1 - num_ps :]
        opened = master.create_session(graph.replica(worker), device_filters=filters)
        stack.callback(opened.close)
        return opened

    sessions = [session(worker) for worker in range(NUM_WORKERS)]
    for each in sessions if mode == "apart" else sessions[:1]:
        each.run([], {}, [graph.initializer])
    done = 0

    def run(steps: int) -> Pace:
        nonlocal done
        began = time.perf_counter()
        loops = [each.start_loop([graph.loss], [graph.train_op], steps, done) for each in sessions]
        pace = _follow(loops, steps, began)
        done += steps
        return pace

    return run


@dataclass(frozen=True, slots=True)
class ReplicaGraph:
    """Returns the graph that every worker trains."""

    replica: Callable[[int], Any]
    initializer: str
    loss: str
    train_op: str


def build(mode: str) -> ReplicaGraph:
    """Returns the replicas' graph as built by `SparkTrainer`, but with a constant batch."""
    import sparkflow as tf
    from sparkflow.train.optimizers import strategy as replication
    from sparkflow.train.replication.sync import SyncReplication

    graph = tf.Graph()
    worker = "/job:worker"
    setter = tf.train.replica_device_setter(ps_tasks=1, worker_device=worker)
    images, labels = mlp.batch()
    with graph.as_default(), graph.device(worker if mode == "apart" else setter):
        x, y = tf.constant(images), tf.constant(labels)
        strategy = SyncReplication(graph, tf.constant(float(mlp.BATCH))) if mode == "sync" else None
        loss = mlp.loss(tf, x, y, mlp.initial_values())
        optimizer = tf.train.GradientDescentOptimizer(mlp.LEARNING_RATE)
        if strategy is None:
            train_op = optimizer.minimize(loss)
        else:
            with replication.scope(strategy):
                train_op = optimizer.minimize(loss)
        initializer = tf.global_variables_initializer()
    graph_def = graph.as_graph_def()

    def replica(index: int) -> Any:
        return strategy.specialised(graph_def, index, NUM_WORKERS) if strategy else graph_def

    return ReplicaGraph(replica, initializer.name, loss.name, train_op.name)


def _follow(loops: Sequence[Any], steps: int, began: float) -> Pace:
    """Waits for the end of all loops."""
    updates: list[Any] = []

    def listen(loop: Any) -> None:
        updates.extend(loop.updates())

    threads = [threading.Thread(target=listen, args=(loop,)) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = time.perf_counter()
    done = sum(len(update.values[0]) for update in updates)
    if done != steps * len(loops):
        raise RuntimeError(f"{len(loops)} workers made {done} steps, not {steps} each")
    waited = sum(each.waited_s for each in updates) / sum(each.elapsed_s for each in updates)
    return Pace(done / (ended - began), waited)


def _paces_table(paces: dict[str, list[Pace]], exchanges: dict[str, list[float]]) -> Table:
    rates = {mode: measured([pace.steps_per_s for pace in paces[mode]]) for mode in MODES}
    alone = rates["apart"]
    rows = []
    for mode, rate in rates.items():
        waited = measured([pace.waited for pace in paces[mode]])
        share = f"{waited.median:.0%}"
        rows.append(
            [
                MODES[mode],
                rate_text(rate),
                _megabytes(rate, mode),
                share,
                ratio_text(rate.over(alone)),
            ]
        )
    for kind, found in exchanges.items():
        rate = measured(found)
        what = f"the exchange alone, {wire.KINDS[kind]}"
        rows.append(
            [what, rate_text(rate), _megabytes(rate, kind), "", ratio_text(rate.over(alone))]
        )
    headings = ["what", "steps/s", "MB/s", "time waited", "/ no parameter server"]
    return Table(headings, rows)


def _megabytes(rate: Measured, mode: str) -> str:
    return "" if mode == "apart" else f"{rate.median * 2 * 4 * PARAMETERS / 1e6:,.0f}"


def _trips_table(trips: dict[str, list[float]]) -> Table:
    rows = [
        [wire.KINDS[kind], f"{measured(found).median * 1e6:.0f} µs ±{measured(found).spread:.0%}"]
        for kind, found in trips.items()
    ]
    return Table(["4 bytes there and back", "time"], rows)


if __name__ == "__main__":
    main()
