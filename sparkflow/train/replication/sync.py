"""Synchronous replication: what turns an optimizer's update into one update for all replicas.

The gradients of all replicas meet on the parameter servers, one node per server. Each replica
brings its mean gradients with its number of rows, and is held until the step's update is made. One
of them is elected to make it: it gets the weighted means, and its own partition on the server runs
the optimizer. There is no other loop and no other thread. Model functions stay as they are:
`Optimizer.apply_gradients` asks for the active strategy (see `replication`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sparkflow._api import export
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control.ordering import group
from sparkflow.ops.elementwise import elementwise
from sparkflow.train.optimizers.conditional_update import Part, by_device, update_when
from sparkflow.train.optimizers.strategy import TIMEOUT_S, Replication
from sparkflow.train.replication.gradient_accumulation import collected, rows_where
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.passes.partitioning.wire_dtypes import GRADIENTS_OF
from sparkflow_runtime.protos.graph_pb2 import GraphDef

SCOPE: Final = "sync_replication"


@export("train.SyncReplication")
class SyncReplication(Replication):
    """Builds synchronous updates in one graph.

    With `replicas_to_aggregate` below the number of replicas, the first so many gradients of a step
    make its update; those that come later are dropped, and their replicas go on with the newest
    parameters (backup workers: Chen et al., "Revisiting Distributed Synchronous SGD", 2016).

    Args:
        graph: The graph model functions build in; the default graph when None.
        weight: [] float32, the number of rows of the replica's batch; 0 makes it arrive without
            contributing. All batches weigh the same when None.
        replica: The replica's number.
        num_replicas: How many there are.
        replicas_to_aggregate: How many contributions make an update; all when None.
        timeout_s: How long a replica waits for the others; then its step fails with
            DeadlineExceededError, which says who was missing.

    Raises:
        InvalidArgumentError: There is no such replica, or more are to be aggregated than there are.
    """

    def __init__(
        self,
        graph: Graph | None = None,
        weight: Tensor | None = None,
        *,
        replica: int = 0,
        num_replicas: int = 1,
        replicas_to_aggregate: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        super().__init__(graph, replica=replica, num_replicas=num_replicas)
        self._weight = weight
        self._required = replicas_to_aggregate
        self._timeout_s = timeout_s
        self._met: list[Operation] = []
        """What has run when the update that was built last is over."""
        if replicas_to_aggregate is not None and replicas_to_aggregate < 1:
            raise InvalidArgumentError(
                message=f"replicas_to_aggregate is {replicas_to_aggregate}; at least one "
                "contribution makes an update"
            )

    def apply_gradients(
        self,
        optimizer: Any,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
        condition: Any = None,
    ) -> Operation:
        """The replica's side of an update: bring the gradients, wait until all are applied.

        Updates of several optimizers meet one after the other, in the order in which they were
        built: two replicas that met in different orders would wait for each other for ever.

        Args:
            optimizer: Makes the update itself.
            grads_and_vars: Pairs of gradient (a Tensor, IndexedSlices or None) and variable.
            global_step: A variable that counts the updates, or None.
            name: Of the update.
            condition: As in `Replication.apply_gradients`.

        Returns:
            The operation a replica runs in every step.
        """
        graph = self.graph
        with graph.name_scope(SCOPE) as scope:
            weight = self._weight
            if weight is None:
                weight = graph.convert(1.0, dtypes.float32, "weight")
            given = collected(optimizer, grads_and_vars, rows_where(condition, weight))
            groups = by_device(given.pairs)
            handles = {
                device: self._rounds(device, f"{scope}rounds_{index}", len(groups))
                for index, device in enumerate(groups)
            }
            step = self._common_step(handles)
            with graph.control_dependencies(self._met):
                parts = [
                    self._meet(handles[device], device, given.ready, step, given.weight, pairs)
                    for device, pairs in groups.items()
                ]
        alone = self._required is not None
        updates = update_when(given.optimizer, parts, global_step, name, alone=alone)
        releases = []
        with graph.name_scope(scope):
            for part, updated in zip(parts, updates, strict=True):
                with graph.control_dependencies([updated]):
                    releases.append(self._by_replica("Release", part.device, handles[part.device]))
            with self.beside_the_step():
                for device, handle in handles.items():
                    self.join_ops.append(self._by_replica("Join", device, handle))
                    self.leave_ops.append(self._by_replica("Leave", device, handle))
            self._met = releases
            return group(*releases, name="updated")

    def specialised(self, graph_def: GraphDef, replica: int, num_replicas: int) -> GraphDef:
        """The graph as one of `num_replicas` replicas runs it."""
        if self._required is not None and self._required > num_replicas:
            raise InvalidArgumentError(
                message=f"{self._required} contributions are to make an update, but there are only "
                f"{num_replicas} replicas"
            )
        return super().specialised(graph_def, replica, num_replicas)

    def _rounds(self, device: str, name: str, num_tasks: int) -> Tensor:
        """The rounds of one task. Replicas are sessions of their own: they meet by name."""
        attrs = {
            "num_replicas": self.num_replicas,
            "num_required": self._required or 0,
            # Parts of one update on several tasks must be made by the same replica, whose reads of
            # the learning rate and the like come before what the update writes.
            "elects_first": num_tasks > 1 and self._required is None,
            "timeout_s": self._timeout_s,
            "shared_name": name,
        }
        with self.beside_the_step() as graph, graph.device(device):
            handle: Tensor = graph.apply("GradientRounds", (), attrs, "rounds")
        return handle

    def _common_step(self, handles: dict[str, Tensor]) -> Tensor | None:
        """The oldest step whose variables a replica may have read; None where one task says all."""
        if self._required is None or len(handles) == 1:
            return None
        steps = []
        for device, handle in handles.items():
            with self.graph.device(device):
                steps.append(
                    self.graph.apply("GradientRoundsStep", (handle,), {"replica": self.replica})
                )
        oldest: Tensor = steps[0]
        for step in steps[1:]:
            oldest = elementwise.minimum(oldest, step)
        return oldest

    def _meet(
        self,
        handle: Tensor,
        device: str,
        ready: Tensor | None,
        step: Tensor | None,
        weight: Tensor,
        pairs: Sequence[tuple[Any, Any]],
    ) -> Part:
        """The replica's contribution to one task, and the means it may get to apply."""
        graph = self.graph
        dense = [each for each in pairs if not isinstance(each[0], IndexedSlices)]
        sparse = [each for each in pairs if isinstance(each[0], IndexedSlices)]
        attrs = {
            "replica": self.replica,
            "Tweight": weight.dtype.base,
            "dense_types": [gradient.dtype.base for gradient, _ in dense],
            "index_types": [gradient.indices.dtype.base for gradient, _ in sparse],
            "value_types": [gradient.values.dtype.base for gradient, _ in sparse],
        }
        with graph.device(device):
            if ready is None:
                ready = graph.convert(True, dtypes.bool_, "ready")
            if step is None:
                step = graph.convert(-1, dtypes.int64, "no_step")
            inputs = (
                handle,
                ready,
                step,
                weight,
                [gradient for gradient, _ in dense],
                [gradient.indices for gradient, _ in sparse],
                [gradient.values for gradient, _ in sparse],
            )
            op = graph.add_node("GradientRoundsMeet", inputs, attrs, "meet")
            op._set_attr(GRADIENTS_OF, [variable.op.name for _, variable in (*dense, *sparse)])
        is_mine, *means = op.outputs
        indices = means[len(dense) : len(dense) + len(sparse)]
        values = means[len(dense) + len(sparse) :]
        applied: list[tuple[Any, Any]] = []
        for mean, (_, variable) in zip(means, dense, strict=False):
            mean.set_shape(variable.shape)
            applied.append((mean, variable))
        for row, value, (gradient, variable) in zip(indices, values, sparse, strict=True):
            applied.append((IndexedSlices(value, row, gradient.dense_shape), variable))
        return Part(device, is_mine, applied)

    def _by_replica(self, what: str, device: str, handle: Tensor) -> Operation:
        attrs = {"replica": self.replica}
        with self.graph.device(device):
            return self.graph.add_node(f"GradientRounds{what}", (handle,), attrs, what.lower())
