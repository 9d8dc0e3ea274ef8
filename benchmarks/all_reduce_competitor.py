"""A competitor of `all_reduce.py`, as a process: `all_reduce_competitor.py sparkflow|torch`.

Two ranks, each a separate process, sum a float32 array so many times that the overhead of a call is
negligible. sparkflow: a variable on each worker, `all_reduce` in a step loop. torch: gloo's
in-place `all_reduce` of a tensor.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from competitor import Case, serve, skip
from ps_tasks import Answer, Task, free_ports, together

NUM_RANKS = 2
CASES = {"1 KB": 256, "1 MB": 262_144, "100 MB": 26_214_400}
"""Elements by case."""
_CALLS = {"1 KB": 300, "1 MB": 60, "100 MB": 4}
"""Number of steps per call."""


def value(rank: int) -> float:
    """The value of every element of a rank's array."""
    return 0.5 + rank


class Sparkflow:
    """Two workers without a parameter server, driven by this process, which only waits."""

    software = "sparkflow"

    def __init__(self) -> None:
        from sparkflow_runtime.master.driver import DriverMaster
        from sparkflow_runtime.testing.local_cluster import LocalCluster

        self._cluster = LocalCluster(0, NUM_RANKS, processes=True)
        self._master = DriverMaster(self._cluster.cluster, self._cluster.credentials)
        self._sessions: list[Any] = []

    def make(self, name: str) -> Case:
        """Returns the case with this name."""
        import numpy as np

        for session in self._sessions:
            session.close()
        graphs = [self._graph(rank, CASES[name]) for rank in range(NUM_RANKS)]
        self._sessions = [
            self._master.create_session(graph, device_filters=[f"/job:worker/task:{rank}"])
            for rank, graph in enumerate(graphs)
        ]
        for session in self._sessions:
            session.run([], {}, ["initialize"])
        found: list[Any] = [None] * NUM_RANKS

        def fetch(rank: int) -> None:
            (found[rank],) = self._sessions[rank].run(["total:0"], {}, [])

        threads = [threading.Thread(target=fetch, args=(rank,)) for rank in range(NUM_RANKS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        def call() -> None:
            loops = [each.start_loop([], ["step"], _CALLS[name]) for each in self._sessions]
            for loop in loops:
                for _ in loop.updates():
                    pass

        return Case(call, [float(np.mean(each)) for each in found], 1 / _CALLS[name])

    def _graph(self, rank: int, count: int) -> Any:
        import sparkflow as tf
        from sparkflow.ops.distributed.collective import all_reduce

        with tf.Graph().as_default() as graph, tf.device(f"/job:worker/task:{rank}"):
            ones = tf.ones([count]) * value(rank)
            own = tf.Variable(ones, name=f"own_{count}")
            total = all_reduce(own, NUM_RANKS, 1, 1)
            tf.group(total, name="step")
            tf.reduce_mean(total, name="total")
            tf.group(own.initializer, name="initialize")
            return graph.as_graph_def()


class Torch:
    """This process and another one, connected by gloo."""

    def __init__(self) -> None:
        import torch

        self.software = f"torch {torch.__version__}, gloo"
        (port,) = free_ports(1)
        self._other = Task(torch_rank, 1, port)
        self._own = torch_rank(0, port)

    def make(self, name: str) -> Case:
        """Returns the case with this name."""
        self._other.begin((name, "prepare"))
        check = self._own((name, "prepare"))
        checks = [check, self._other.finish()]

        def call() -> None:
            together([self._other], (name, "run"), lambda: self._own((name, "run")))

        return Case(call, checks, 1 / _CALLS[name])


def torch_rank(rank: int, port: int) -> Answer:
    """Runs the requests to a gloo rank."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=NUM_RANKS
    )
    tensors: dict[str, Any] = {}

    def answer(request: Sequence[str]) -> float | None:
        name, what = request
        if what == "prepare":
            tensors.clear()
            first = torch.full((CASES[name],), value(rank))
            dist.all_reduce(first)
            tensors[name] = torch.zeros(CASES[name])
            return float(first.double().mean())
        for _ in range(_CALLS[name]):
            dist.all_reduce(tensors[name])
        return None

    return answer


def main() -> None:
    makers: dict[str, Callable[[], Any]] = {"sparkflow": Sparkflow, "torch": Torch}
    try:
        made = makers[sys.argv[1]]()
    except ImportError as error:
        skip(str(error))
        return
    serve(made.make, made.software)


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main()
