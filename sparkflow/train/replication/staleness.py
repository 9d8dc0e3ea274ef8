"""Bounded staleness: asynchronous updates, but no replica runs far ahead of the slowest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sparkflow._api import export
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.train.optimizers.strategy import TIMEOUT_S, Replication, plain_update
from sparkflow_runtime.errors import InvalidArgumentError

SCOPE: Final = "bounded_staleness"


@export("train.BoundedStaleness")
class BoundedStaleness(Replication):
    """Every replica updates the shared variables on its own, within a bound.

    A replica that has made c steps begins the next one only when every other replica has made at
    least c - `staleness` (Ho et al., "More Effective Distributed ML via a Stale Synchronous
    Parallel Parameter Server", NIPS 2013). With 0 all replicas make their steps side by side,
    though each still applies its own gradients; with a large bound this is asynchronous training.

    Args:
        staleness: The bound, in steps.
        graph: The replica's graph; the default graph when None.
        replica: The replica's number.
        num_replicas: How many there are.
        timeout_s: How long a replica waits for slower ones; then its step fails with
            DeadlineExceededError, which says who was missing.

    Raises:
        InvalidArgumentError: There is no such replica, or the bound is negative.
    """

    def __init__(
        self,
        staleness: int,
        graph: Graph | None = None,
        *,
        replica: int = 0,
        num_replicas: int = 1,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        super().__init__(graph, replica=replica, num_replicas=num_replicas)
        if staleness < 0:
            raise InvalidArgumentError(
                message=f"The staleness is {staleness}; a replica may be 0 or more steps ahead"
            )
        self._staleness = staleness
        self._timeout_s = timeout_s

    def apply_gradients(
        self,
        optimizer: Optimizer,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
        condition: Any = None,
    ) -> Operation:
        """The optimizer's plain update, and then the wait for slower replicas."""
        updated = plain_update(optimizer, grads_and_vars, global_step, name, condition)
        graph = self.graph
        attrs = {
            "num_replicas": self.num_replicas,
            "staleness": self._staleness,
            "timeout_s": self._timeout_s,
        }
        home = next(each for gradient, each in grads_and_vars if gradient is not None)
        mine = {"replica": self.replica}
        with graph.name_scope(SCOPE) as scope, graph.device(home.device):
            with self.beside_the_step():
                clock = graph.apply(
                    "StalenessClock", (), {**attrs, "shared_name": f"{scope}clock"}, "clock"
                )
                self.join_ops.append(graph.add_node("StalenessClockJoin", (clock,), mine, "join"))
                self.leave_ops.append(
                    graph.add_node("StalenessClockLeave", (clock,), mine, "leave")
                )
            with graph.control_dependencies([updated]):
                return graph.add_node("StalenessClockAdvance", (clock,), mine, "advance")
