"""A competitor of `parameter_servers.py`: `ps_loop_competitor.py TRANSPORT [WORKERS]`, our loops.

TRANSPORT may be "tls" as well: TCP within TLS.

The tasks are processes; this one is the driver, as with `SparkTrainer`: it starts a loop on every
worker and receives losses while the loops run. A loop has the steps of a round.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import machine
import numpy as np
import ps_programs
from competitor import Case, serve

THREADS = 1


class SyncLoops:
    """Synchronous updates by `SyncReplication`, for `ps_programs.build`.

    Args:
        tf: sparkflow.
        replica: The replica's index.
        num_replicas: The number of replicas.
    """

    def __init__(self, tf: Any, replica: int, num_replicas: int) -> None:
        self._tf = tf
        self._replica = replica
        self._num_replicas = num_replicas

    def minimize(
        self, optimizer: Any, build_loss: Callable[[], Any], rows: int
    ) -> tuple[Any, Any, Any, list[Any]]:
        """See `ps_programs.Meeting`."""
        from sparkflow.train.optimizers import strategy as replication
        from sparkflow.train.replication.sync import SyncReplication

        weight = self._tf.constant(float(rows))
        strategy = SyncReplication(
            weight=weight, replica=self._replica, num_replicas=self._num_replicas
        )
        loss = build_loss()
        with replication.scope(strategy):
            update = optimizer.minimize(loss)
        return loss, update, None, strategy.join_ops


class Driver:
    """Builds cases on a cluster.

    Args:
        tf: sparkflow.
        master: The target of the driver's sessions.
        workers: The number of training workers.
    """

    def __init__(self, tf: Any, master: Any, workers: int) -> None:
        self._tf = tf
        self._master = master
        self._workers = workers
        self._sessions: list[Any] = []

    def make(self, name: str) -> Case:
        """Returns the case with this name after closing the sessions of the last one."""
        for session in self._sessions:
            session.close()
        self._sessions.clear()
        count = self._workers if ps_programs.uses_all_workers(name) else 1
        replicas = [self._replica(name, index) for index in range(count)]
        chief, program = replicas[0]
        chief.run([], {}, [program.initializer.name])
        for session, each in replicas:
            session.run([], {}, [each.local_initializer.name, *(op.name for op in each.before)])
        run = _Steps([(session, each.fetches, each.targets) for session, each in replicas])
        together = name.endswith("_sync")
        alone = run if together else _Steps([(chief, program.fetches, program.targets)])
        values = alone(ps_programs.CHECKED_STEPS)
        check = values if ps_programs.uses_all_workers(name) else values[-1:].ravel()
        if program.checked is not None:
            check = chief.run([program.checked.name], {}, [])[0]
        run.done = alone.done if alone is run else 0
        steps = ps_programs.steps_per_round(name)
        return Case(lambda: run(steps), check, share=1 / steps)

    def _replica(self, name: str, index: int) -> tuple[Any, ps_programs.Program]:
        graph = self._tf.Graph()
        loops = SyncLoops(self._tf, index, self._workers)
        with graph.as_default():
            program = ps_programs.build(self._tf, name, index, loops)
        filters = ["/job:ps", f"/job:worker/task:{index}"]
        session = self._master.create_session(graph.as_graph_def(), device_filters=filters)
        self._sessions.append(session)
        return session, program


class _Steps:
    """Loops of several sessions with the same number of steps."""

    def __init__(self, parts: list[tuple[Any, list[Any], list[Any]]]) -> None:
        self._parts = [
            (session, [each.name for each in fetches], [each.name for each in targets])
            for session, fetches, targets in parts
        ]
        self.done = 0

    def __call__(self, count: int) -> Any:
        """Returns the values fetched by the first session's steps, stacked along axis 0."""
        loops = [
            session.start_loop(fetches, targets, count, self.done)
            for session, fetches, targets in self._parts
        ]
        updates = [list(loop.updates()) for loop in loops]
        self.done += count
        made = [sum(update.num_steps for update in each) for each in updates]
        if min(made) != count:
            raise RuntimeError(f"Of {count} steps each, loops made {made}")
        return np.concatenate(
            [update.values[0] if update.values else np.empty(0) for update in updates[0]]
        )


def main() -> None:
    transport, *rest = sys.argv[1:]
    workers = int(rest[0]) if rest else ps_programs.NUM_WORKERS
    import sparkflow as tf
    from sparkflow_runtime.master.driver import DriverMaster
    from sparkflow_runtime.testing.local_cluster import LocalCluster

    os.environ.update(machine.clean_environment(THREADS))  # inherited by all tasks
    own: dict[str, Any] = {"transport": transport} if transport != "auto" else {}
    if transport == "tls":
        own = {"transport": "tcp", "tls": True}
    with LocalCluster(1, workers, processes=True, **own) as cluster:
        master = DriverMaster(cluster.cluster, cluster.credentials)
        try:
            serve(Driver(tf, master, workers).make, f"sparkflow {tf.__version__}")
        finally:
            master.close()


if __name__ == "__main__":
    main()
