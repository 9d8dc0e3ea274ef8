"""Synchronous replication: what turns an optimizer's update into one update for all replicas.

The gradients of a variable meet in an accumulator beside it. Each replica pushes its mean gradient
with its number of rows and waits for a token; a loop of its own, the chief's, takes the weighted
mean once all replicas contributed, applies it, and hands out one token per replica. Both follow the
same step numbers, so that a late or repeated push can never count for another step. Model functions
stay as they are: `Optimizer.apply_gradients` asks for the active strategy (see `replication`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sparkflow.graph.graph import Graph
from sparkflow.graph.indexed_slices import IndexedSlices
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import dtypes
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.tensor_proto import export_tensor

SCOPE: Final = "sync_replication"


class SyncReplication:
    """Builds synchronous updates in one graph.

    Args:
        graph: The graph model functions build in.
        weight: [] float32, the number of rows of the replica's batch; 0 makes it arrive without
            contributing.

    Attributes:
        chief_ops: What the chief's loop must run in every step, beside the replicas' loops.
    """

    def __init__(self, graph: Graph, weight: Tensor) -> None:
        self._graph = graph
        self._weight = weight
        self.chief_ops: list[Operation] = []
        with graph.name_scope(SCOPE + "/"):
            self._replica = self._constant(0, dtypes.int64, "replica")
            self._num_replicas = self._constant(1, dtypes.int32, "num_replicas")

    def apply_gradients(
        self,
        optimizer: Any,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Operation:
        """The replica's side of an update: push the gradients, wait until all are applied.

        Args:
            optimizer: Its `apply_dense_and_sparse` makes the update itself.
            grads_and_vars: Pairs of gradient (a Tensor, IndexedSlices or None) and variable.
            global_step: A variable the chief increments with every update, or None.
            name: Of the update.

        Returns:
            The operation a replica runs in every step.
        """
        graph = self._graph
        averages: list[tuple[Any, Any]] = []
        pushes: dict[str, list[Operation]] = {}
        with graph.name_scope(SCOPE) as scope:
            for gradient, variable in grads_and_vars:
                if gradient is None:
                    continue
                with graph.colocate_with(variable.op, ignore_existing=True):
                    push, average = self._meet(gradient, variable, scope)
                pushes.setdefault(variable.device, []).append(push)
                averages.append((average, variable))
        applied = optimizer.apply_dense_and_sparse(averages, global_step, name)
        with graph.name_scope(scope):
            tokens = [
                self._hand_over(device, pushed, applied, f"{scope}tokens_{index}")
                for index, (device, pushed) in enumerate(pushes.items())
            ]
            with graph.device(next(iter(pushes))), graph.control_dependencies(tokens):
                done: Operation = graph.create_op("NoOp", (), {}, "updated")
        return done

    def specialised(self, graph_def: GraphDef, replica: int, num_replicas: int) -> GraphDef:
        """The graph as one of `num_replicas` replicas runs it; the chief's is that of replica 0."""
        specialised = GraphDef()
        specialised.CopyFrom(graph_def)
        values = {
            self._replica.op.name: np.asarray(replica, np.int64),
            self._num_replicas.op.name: np.asarray(num_replicas, np.int32),
        }
        for node in specialised.node:
            if node.name in values:
                node.attr["value"].tensor.CopyFrom(export_tensor(values[node.name]))
        return specialised

    def _meet(self, gradient: Any, variable: Any, scope: str) -> tuple[Operation, Any]:
        """The replica's push into an accumulator, and the chief's average out of it.

        Replicas are sessions of their own: they meet by the resource's name on the task.
        """
        graph = self._graph
        step = graph.apply("StepNumber", (), {})
        attrs = {"dtype": variable.dtype.base, "shape": variable.op.get_attr("shape")}
        named = {**attrs, "shared_name": scope + variable.op.name}
        if isinstance(gradient, IndexedSlices):
            handle = graph.apply("SparseWeightedAccumulator", (), named)
            push = graph.apply(
                "SparseWeightedAccumulatorApply",
                (handle, step, self._replica, self._weight, gradient.indices, gradient.values),
                {},
            )
            indices, values = graph.apply(
                "SparseWeightedAccumulatorTake",
                (handle, step, self._num_replicas),
                {**attrs, "Tindices": gradient.indices.dtype},
            )
            return push, IndexedSlices(values, indices, gradient.dense_shape)
        handle = graph.apply("WeightedAccumulator", (), named)
        push = graph.apply(
            "WeightedAccumulatorApply", (handle, step, self._replica, self._weight, gradient), {}
        )
        return push, graph.apply(
            "WeightedAccumulatorTake", (handle, step, self._num_replicas), attrs
        )

    def _hand_over(
        self, device: str, pushed: list[Operation], applied: Operation, name: str
    ) -> Operation:
        """Tokens of one parameter server: the chief puts in, each replica takes one out."""
        graph = self._graph
        with graph.device(device):
            attrs = {"component_types": [dtypes.int64], "shapes": [()], "shared_name": name}
            queue = graph.apply("FIFOQueueV2", (), attrs, "tokens")
            with graph.control_dependencies([applied]):
                count = graph.apply("Reshape", (self._num_replicas, [1]), {})
                step = graph.apply("StepNumber", (), {})
                tokens = graph.apply("Fill", (count, step), {})
                self.chief_ops.append(graph.apply("QueueEnqueueManyV2", (queue, [tokens]), {}))
            with graph.control_dependencies(pushed):
                (token,) = _as_tuple(
                    graph.apply(
                        "QueueDequeueV2", (queue,), {"component_types": [dtypes.int64]}, "token"
                    )
                )
        return token.op  # type: ignore[no-any-return]  # an Operation

    def _constant(self, value: int, dtype: dtypes.DType, name: str) -> Tensor:
        array = np.asarray(value, dtype.as_numpy_dtype)
        op = self._graph.create_op("Const", (), {"value": array, "dtype": dtype}, name)
        return op.outputs[0]


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)
