"""Validation: the workers evaluate the rows that validate, the driver gets the metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import numpy as np

from sparkflow.spark.graphs.evaluation import EvaluationGraph
from sparkflow.spark.run.replicas import open_sessions
from sparkflow_runtime.master.driver import DriverMaster
from sparkflow_runtime.master.loops import Loop
from sparkflow_runtime.protos.graph_pb2 import GraphDef

_POLL_S = 0.5


class Validation:
    """The evaluating sessions of one run. Used while no training step is under way.

    Args:
        master: The driver's master.
        graph: What the workers evaluate with.
        steps: Per worker the batches of a pass over its validation rows; 0 for one without.
        stack: Closes the sessions.
    """

    def __init__(
        self,
        master: DriverMaster,
        graph: EvaluationGraph,
        steps: Sequence[int],
        stack: contextlib.ExitStack,
    ) -> None:
        self._graph = graph
        self._steps = tuple(steps)
        graphs = [_of_worker(graph.graph_def, index) for index in range(len(steps))]
        self._sessions = open_sessions(master, graphs, stack, beside_first=True)
        for session in self._sessions if graph.session_initializers else ():
            session.run([], {}, list(graph.session_initializers))

    def evaluate(self, meanwhile: Callable[[], None]) -> dict[str, float]:
        """Goes once over all validation rows and returns the metrics; `loss` is among them.

        Args:
            meanwhile: Called again and again while workers evaluate; what it raises ends it.

        Raises:
            OpError: A step failed.
        """
        graph = self._graph
        self._sessions[0].run([], {}, [graph.reset])
        loops: list[Loop] = []
        try:
            for session, steps in zip(self._sessions, self._steps, strict=True):
                if steps:
                    loops.append(session.start_loop([graph.num_rows], [graph.update], steps))
            for loop in loops:
                _wait(loop, meanwhile)
        except BaseException:
            for loop in loops:
                loop.cancel()
            raise
        values = self._sessions[0].run(list(graph.values.values()), {}, [])
        return {
            name: float(np.asarray(value, np.float64))
            for name, value in zip(graph.values, values, strict=True)
            if np.ndim(value) == 0
        }


def _wait(loop: Loop, meanwhile: Callable[[], None]) -> None:
    while True:
        try:
            loop.wait(_POLL_S)
        except TimeoutError:
            meanwhile()
        else:
            return


def _of_worker(graph_def: GraphDef, worker: int) -> GraphDef:
    """The graph with every node of `/job:worker` on this worker, unless it names another one."""
    own = GraphDef()
    own.CopyFrom(graph_def)
    for node in own.node:
        if node.device.startswith("/job:worker") and "task:" not in node.device:
            rest = node.device.removeprefix("/job:worker")
            node.device = f"/job:worker/task:{worker}{rest}"
    return own
