"""Validation: the workers evaluate the validation rows, the driver receives the metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import numpy as np

from sparkflow.spark.control.replicas import open_sessions
from sparkflow.spark.graphs.evaluation import EvaluationGraph
from sparkflow_runtime.master.driver import Master
from sparkflow_runtime.master.loops.step_loop import Loop
from sparkflow_runtime.protos.graph_pb2 import GraphDef

_POLL_S = 0.5


class Validation:
    """The evaluation sessions of one run. Used while no training step is running.

    Args:
        master: The driver's master.
        graph: The evaluation graph of the workers.
        steps: The number of validation batches of each worker; may be 0.
        stack: Closes the sessions.
    """

    def __init__(
        self,
        master: Master,
        graph: EvaluationGraph,
        steps: Sequence[int],
        stack: contextlib.ExitStack,
    ) -> None:
        self._graph = graph
        self._steps = tuple(steps)
        graphs = [_of_worker(graph.graph_def, index) for index in range(len(steps))]
        self._sessions = open_sessions(master, graphs, stack, graph.num_stages, beside_first=True)
        for session in self._sessions if graph.session_initializers else ():
            session.run([], {}, list(graph.session_initializers))

    def evaluate(
        self, saw_steps: Callable[[int], None], idle: Callable[[], None]
    ) -> dict[str, float]:
        """Goes once over all validation rows and returns the metrics; `loss` is among them.

        Args:
            saw_steps: Called with a worker's index when it has evaluated some batches.
            idle: Called when there was no event for a while; an exception ends the evaluation.

        Raises:
            OpError: A step failed.
        """
        graph = self._graph
        self._sessions[0].run([], {}, [graph.reset])
        loops: dict[int, Loop] = {}
        try:
            for worker, steps in enumerate(self._steps):
                if steps:
                    loops[worker] = self._sessions[worker].start_loop(
                        [graph.num_rows], [graph.update], steps
                    )
            for worker, loop in loops.items():
                for update in loop.poll(_POLL_S):
                    if update is None:
                        idle()
                    else:
                        saw_steps(worker)
        except BaseException:
            for loop in loops.values():
                loop.cancel()
            raise
        values = self._sessions[0].run(list(graph.values.values()), {}, [])
        return {
            name: float(np.asarray(value, np.float64))
            for name, value in zip(graph.values, values, strict=True)
            if np.ndim(value) == 0
        }


def _of_worker(graph_def: GraphDef, worker: int) -> GraphDef:
    """Returns the graph with nodes of `/job:worker` on this worker unless they name another one."""
    own = GraphDef()
    own.CopyFrom(graph_def)
    for node in own.node:
        if node.device.startswith("/job:worker") and "task:" not in node.device:
            rest = node.device.removeprefix("/job:worker")
            node.device = f"/job:worker/task:{worker}{rest}"
    return own
