"""A master's work before the first step of many tasks: optimize, partition, register.

    python benchmarks/register_graph.py [--record]

The graph is one network in-graph replicated: parameter servers (one of ten tasks) hold its
variables, every other task computes a tower, the gradients meet on the parameter servers. The tasks
are in this process: "answering at once" tasks receive the bytes that would be sent over the network
and ignore them, which leaves the master's part; "compiling" tasks register them like workers, all
under one interpreter lock, whereas tasks of a cluster do this in parallel.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import machine
from report import Report, Table, add_options, ratio_text, time_text
from timing import Measured, measured

machine.clean_own_environment()

import sparkflow as tf  # noqa: E402  (after the environment is clean)
from sparkflow_runtime.ir.function import Function  # noqa: E402
from sparkflow_runtime.ir.function_def import export_program  # noqa: E402
from sparkflow_runtime.ir.graph_def import import_graph  # noqa: E402
from sparkflow_runtime.ir.node import Node  # noqa: E402
from sparkflow_runtime.master.links import LocalLink, WorkerLink  # noqa: E402
from sparkflow_runtime.master.session import MasterSession  # noqa: E402
from sparkflow_runtime.worker.worker import Worker  # noqa: E402

PACKAGES = ("numpy", "protobuf")
GOAL_S, GOAL_TASKS = 3.0, 1000
TASKS_PER_PS = 10
WIDTH = 8


class Answering(LocalLink):
    """A worker that receives a partition's bytes and compiles nothing."""

    def register(
        self, session: str, nodes: Sequence[Node], functions: Mapping[str, Function]
    ) -> str:
        """See `WorkerLink`."""
        export_program(nodes, functions).SerializeToString()
        return self.worker.task


LINKS: Mapping[str, Callable[[Worker], WorkerLink]] = {
    "answering at once": Answering,
    "compiling": LocalLink,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=3)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 100, 1000])
    options = parser.parse_args()
    report = Report("register_graph", PACKAGES, options)
    rows = []
    for kind, link in LINKS.items():
        per_task: list[Measured] = []
        for tasks in options.tasks:
            graph_def, train = graph(tasks)
            rounds = [seconds(link, tasks, graph_def, train) for _ in range(options.rounds)]
            total = measured(rounds)
            per_task.append(measured([value / tasks for value in rounds]))
            cells = [kind, str(tasks), f"{len(graph_def.node):,}", time_text(total)]
            growth = ratio_text(per_task[-1].over(per_task[0]))
            rows.append([*cells, time_text(per_task[-1]), growth, _verdict(tasks, total)])
    headings = ["tasks", "number", "nodes", "first step made ready", "per task"]
    first = options.tasks[0]
    table = Table(
        [*headings, f"per task / that of {first}", f"goal: {GOAL_TASKS:,} in {GOAL_S:g} s"], rows
    )
    report.finish({f"Sessions over many tasks, median of {options.rounds} rounds": table})


def graph(tasks: int) -> tuple[Any, str]:
    """Returns the GraphDef for a number of tasks, and the name of its training operation."""
    num_ps = max(1, tasks // TASKS_PER_PS)
    built = tf.Graph()
    with built.as_default():
        towers = []
        with tf.device(tf.train.replica_device_setter(ps_tasks=num_ps)):
            weights = [tf.Variable(tf.zeros([WIDTH, WIDTH])) for _ in range(num_ps)]
        for worker in range(tasks - num_ps):
            with tf.device(f"/job:worker/task:{worker}"):
                x = tf.random_normal([WIDTH, WIDTH], seed=worker)
                weight = weights[worker % num_ps]
                towers.append((weight, tf.matmul(x, tf.nn.relu(tf.matmul(x, weight)))))
        updates = []
        for weight in weights:
            gradients = [each for used, each in towers if used is weight]
            if gradients:
                with tf.device(weight.device):
                    updates.append(tf.assign_sub(weight, tf.add_n(gradients)).op)
        with tf.device("/job:ps/task:0"):
            train = tf.group(*updates)
    return built.as_graph_def(), train.name


def seconds(link: Callable[[Worker], WorkerLink], tasks: int, graph_def: Any, train: str) -> float:
    """Returns the time from a client's graph to partitions registered with all tasks."""
    num_ps = max(1, tasks // TASKS_PER_PS)
    names = [("ps", i) for i in range(num_ps)] + [("worker", i) for i in range(tasks - num_ps)]
    workers = [Worker(job, index) for job, index in names]
    links = {worker.task: link(worker) for worker in workers}
    nodes = import_graph(graph_def)
    gc.collect()
    began = time.perf_counter()
    session = MasterSession(links, default_task=workers[0].task)
    session.extend(nodes)
    session.prepare([], [], [train])
    spent = time.perf_counter() - began
    session.close()
    return spent


def _verdict(tasks: int, total: Measured) -> str:
    if tasks != GOAL_TASKS:
        return "-"
    return "met" if total.median <= GOAL_S else "missed"


if __name__ == "__main__":
    main()
