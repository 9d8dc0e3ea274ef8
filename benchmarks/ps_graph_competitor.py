"""A competitor of `parameter_servers.py`: `ps_graph_competitor.py FRAMEWORK TRANSPORT`.

Between-graph replication as in TensorFlow 1's guide: a server in the process of every task, a
session of every worker on its own server, one `Session.run` per step. sparkflow and TensorFlow run
the same program.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import ps_programs
import session_competitor
from competitor import Case, serve
from ps_programs import Program
from ps_tasks import Answer, Task, free_ports, together

THREADS = 1
Cluster = Mapping[str, Sequence[str]]


class Worker:
    """A worker's server and its prepared case.

    Args:
        tf: The framework.
        cluster: The addresses of all tasks.
        index: The worker's index.
        transport: The transport of sparkflow's tensors.
    """

    def __init__(self, tf: Any, cluster: Cluster, index: int, transport: str) -> None:
        self._tf = tf
        self._index = index
        self._server = _server(tf, cluster, "worker", index, transport)
        self._run: Callable[[], Any] = list

    def prepare(self, case: str) -> tuple[Any, Program]:
        """Builds a case and returns its session and program."""
        tf = self._tf
        with tf.Graph().as_default():
            program = ps_programs.build(tf, case, self._index, ps_programs.Synchronous(tf))
            session = tf.Session(self._server.target, config=_config(tf))
        self._run = partial(session.run, [*program.fetches, *program.targets])
        return session, program

    def coordinator(self) -> Any:
        """Stops threads."""
        return self._tf.train.Coordinator()

    def steps(self, count: int) -> list[list[float]]:
        """Runs a number of steps and returns the numbers that each fetched."""
        found = [self._run() for _ in range(count)]
        return [_numbers(each) for each in found]


def main() -> None:
    framework, transport = sys.argv[1:]
    tf = session_competitor.load(framework)
    if tf is None:
        return
    ports = free_ports(1 + ps_programs.NUM_WORKERS)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    cluster = {"ps": addresses[:1], "worker": addresses[1:]}
    tasks = [Task(_start_ps, framework, cluster, transport)]
    tasks += [
        Task(_start_worker, framework, cluster, index, transport)
        for index in range(1, ps_programs.NUM_WORKERS)
    ]
    worker = Worker(tf, cluster, 0, transport)
    for task in tasks:
        task.ask("ready")
    try:
        serve(partial(_case, worker, tasks[1:]), f"{framework} {tf.__version__}")
    finally:
        for task in tasks:
            task.end()
        # TensorFlow's sessions wait forever for runs on a parameter server that has exited.
        sys.stderr.flush()
        os._exit(0)


def _case(worker: Worker, others: Sequence[Task], name: str) -> Case:
    session, program = worker.prepare(name)
    session.run(program.initializer)
    session.run(program.local_initializer)
    for op in program.before:
        session.run(op)
    if not ps_programs.uses_all_workers(name):
        return _alone(worker, session, program)
    for task in others:
        task.ask(("prepare", name))
    count = ps_programs.CHECKED_STEPS
    if program.chief_runner is not None:
        stop = worker.coordinator()  # notices silently that the parameter server has ended
        program.chief_runner.create_threads(session, stop, daemon=True, start=True)
        losses: list[float] = []
        together(others, ("steps", count), lambda: losses.extend(_losses(worker, count)))
    else:
        losses = _losses(worker, count)
    steps = ps_programs.steps_per_round(name)

    def call() -> None:
        together(others, ("steps", steps), lambda: worker.steps(steps))

    return Case(call, losses, share=1 / steps)


def _alone(worker: Worker, session: Any, program: Program) -> Case:
    found = worker.steps(ps_programs.CHECKED_STEPS)[-1]
    if program.checked is not None:
        found = [float(value) for value in session.run(program.checked)]
    return Case(lambda: worker.steps(1), found)


def _losses(worker: Worker, count: int) -> list[float]:
    return [loss for (loss,) in worker.steps(count)]


def _numbers(values: Sequence[Any]) -> list[float]:
    """Returns the fetched values; targets yield None."""
    return [float(number) for value in values if value is not None for number in value.flat]


def _start_ps(framework: str, cluster: Cluster, transport: str) -> Answer:
    server = _server(session_competitor.load(framework), cluster, "ps", 0, transport)
    return lambda _: server.target


def _start_worker(framework: str, cluster: Cluster, index: int, transport: str) -> Answer:
    worker = Worker(session_competitor.load(framework), cluster, index, transport)

    def answer(request: Any) -> str:
        match request:
            case ("prepare", name):
                session, program = worker.prepare(name)
                session.run(program.local_initializer)
            case ("steps", count):
                worker.steps(count)
        return "done"

    return answer


def _server(tf: Any, cluster: Cluster, job: str, index: int, transport: str) -> Any:
    own = {"transport": transport} if transport != "auto" else {}
    return tf.train.Server(cluster, job, index, config=_config(tf), **own)


def _config(tf: Any) -> Any:
    return tf.ConfigProto(
        intra_op_parallelism_threads=THREADS, inter_op_parallelism_threads=THREADS
    )


if __name__ == "__main__":
    main()
