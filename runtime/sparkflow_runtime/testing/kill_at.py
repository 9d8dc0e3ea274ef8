"""Kills a task's process when training reaches a chosen step."""

from __future__ import annotations

import threading

from sparkflow_runtime.testing.local_cluster import LocalCluster


class KillAt:
    """Kills one process of a cluster once. Thread-safe; the program reports its steps.

    kill = KillAt(cluster, "ps", 0, step=20, restart=True)
    while step < 100:
        _, step = sess.run([train_op, global_step])
        kill.reached(step)

    Args:
        cluster: A cluster of processes.
        job: The job of the task that dies.
        index: Its index.
        step: It dies when this step or a later one is reached.
        restart: Whether to restart it at once, at its old port.

    Attributes:
        done: Whether it has died, and, if requested, serves again.
    """

    def __init__(
        self, cluster: LocalCluster, job: str, index: int, *, step: int, restart: bool = False
    ) -> None:
        self._cluster = cluster
        self._task = (job, index)
        self._step = step
        self._restart = restart
        self._lock = threading.Lock()
        self._begun = False
        self.done = False

    def reached(self, step: int) -> None:
        """Reports a step; at the chosen one, returns when the task is dead, or serves again."""
        with self._lock:
            if self._begun or step < self._step:
                return
            self._begun = True
        if self._restart:
            self._cluster.restart(*self._task)
        else:
            self._cluster.kill(*self._task)
        self.done = True
