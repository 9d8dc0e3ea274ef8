"""All-reduce replication: every worker has its own copy of the variables, and no ps is needed.

Each worker computes gradients on its own batch; their mean over all workers, weighted by rows, is
what every worker updates its copy with. The means are the same bit for bit on every worker, so the
copies stay so, too. They begin as those of worker 0.

Dense gradients travel in buckets of a few megabytes, filled in the order in which a backward pass
makes them: while one travels, the next is computed. Of sparse gradients only rows travel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control.ordering import group
from sparkflow.train.optimizers.strategy import Replication, nodes_of, plain_update
from sparkflow.train.replication.gradient_accumulation import (
    GradientAccumulationOptimizer,
    rows_where,
)
from sparkflow.train.session_run_hook import SessionRunArgs, SessionRunHook
from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError
from sparkflow_runtime.protos.graph_pb2 import GraphDef

SCOPE: Final = "all_reduce_replication"
BUCKET_BYTES: Final = 4 << 20
GROUP_KEY: Final = 0x5F00
"""Of the first device of a worker; further devices follow."""


@export("train.AllReduceReplication")
class AllReduceReplication(Replication):
    """Builds updates that are the same on all workers, in one graph.

    The graph may be built once for all workers, or by each of them: worker `i` is task `i` of its
    job, whatever the job is called. Nothing in the graph says which worker it is for.

    Args:
        graph: The graph model functions build in; the default graph when None.
        weight: [] float32, the number of rows of the worker's batch; with 0 the worker takes part
            without contributing. All batches weigh the same when None.
        replica: The worker's number.
        num_replicas: How many workers there are.
        bucket_bytes: How much travels at once.
        timeout_s: How long a worker waits for the others; then its step fails with
            DeadlineExceededError, which says who was missing.

    Raises:
        InvalidArgumentError: There is no such worker, or buckets would hold nothing.
    """

    def __init__(
        self,
        graph: Graph | None = None,
        weight: Tensor | None = None,
        *,
        replica: int = 0,
        num_replicas: int = 1,
        bucket_bytes: int = BUCKET_BYTES,
        timeout_s: float = 0.0,
    ) -> None:
        super().__init__(graph, replica=replica, num_replicas=num_replicas)
        if bucket_bytes < 1:
            raise InvalidArgumentError(
                message=f"bucket_bytes is {bucket_bytes}; a bucket holds at least a byte"
            )
        self._weight = weight
        self._bucket_bytes = bucket_bytes
        self._timeout_s = timeout_s
        self._instances = 0
        self._devices: dict[str, int] = {}
        self._updated: dict[Any, None] = {}
        self._joining: tuple[tuple[Any, ...], list[Operation]] = (), []

    def apply_gradients(
        self,
        optimizer: Any,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
        condition: Any = None,
    ) -> Operation:
        """The update of this worker's copy by the mean gradients of all workers."""
        pairs = [(grad, variable) for grad, variable in grads_and_vars if grad is not None]
        made_before = set(self._variables())
        any_rows: Any = None
        with self.graph.name_scope(SCOPE):
            means = self._means(pairs, rows_where(condition, self._known_weight()))
            if condition is not None:
                any_rows = self.rows_of_all(pairs[0][1], condition) > 0
            if isinstance(optimizer, GradientAccumulationOptimizer):
                # It adds up means over all workers, with weights that are the same on all of them.
                optimizer = optimizer.weighed_by(self.rows_of_all(pairs[0][1], condition))
        averages = [(means[id(variable)], variable) for _, variable in pairs]
        applied = plain_update(optimizer, averages, global_step, name, any_rows)
        made = [each for each in self._variables() if each not in made_before]
        counted = [] if global_step is None else [global_step]
        self._updated.update(dict.fromkeys([*(each for _, each in pairs), *made, *counted]))
        return applied

    @property
    def join_ops(self) -> list[Operation]:
        """The operation that sets all variables that exist now to the values of worker 0."""
        if not self._updated:
            return []
        variables = tuple(self._variables())
        if variables != self._joining[0]:
            self._joining = variables, [self.broadcast_variables(variables)]
        return self._joining[1]

    def rows_of_all(self, variable: Any, condition: Any = None) -> Tensor:
        """[] float32: the rows that all workers have in this step, the same on each.

        Args:
            variable: On whose device they are counted.
            condition: As in `apply_gradients`.
        """
        rows = rows_where(condition, self._known_weight())
        rows = self.graph.convert(rows, dtypes.float32)
        ops = {"merge_op": "Add", "final_op": "Id"}
        total: Tensor = self._collective("CollectiveReduce", (rows,), variable, **ops)
        return total

    def broadcast_variables(self, variables: Iterable[Any] | None = None) -> Operation:
        """The operation that broadcasts the values of worker 0 to all workers.

        All workers run it together, when their variables have some values.

        Args:
            variables: Which; all variables of the graph when None, with the slots of optimizers.
        """
        chosen = list(self._variables() if variables is None else variables)
        updates = []
        with self.beside_the_step() as graph, graph.name_scope(f"{SCOPE}/broadcast"):
            for bucket in self._buckets([(variable, variable) for variable in chosen]):
                values = [variable.value() for variable, _ in bucket]
                received = self._collective("CollectiveBroadcast", (values,), bucket[0][1], root=0)
                for (variable, _), value in zip(bucket, received, strict=True):
                    updates.append(variable.assign(value).op)
            return group(*updates, name="variables")

    def fingerprints(self, variables: Iterable[Any] | None = None) -> Tensor:
        """[num_replicas, n] int64: checksums of the variables on every worker, see `differences`.

        Args:
            variables: Which; those that optimizers update, slots and `global_step` when None.
                Others, such as moving averages, are each worker's own.
        """
        chosen = list(self._kept_equal() if variables is None else variables)
        with self.beside_the_step() as graph, graph.name_scope(f"{SCOPE}/check"):
            with graph.colocate_with(chosen[0].op, ignore_existing=True):
                own = graph.apply("Fingerprints", ([each.value() for each in chosen],), {})
                row = graph.apply("ExpandDims", (own, 0), {})
            gathered: Tensor = self._collective("CollectiveGather", (row,), chosen[0], shape=[0])
            return gathered

    def make_session_run_hook(self, check_every_steps: int = 0) -> SessionRunHook:
        """The hook that every worker's `MonitoredTrainingSession` needs.

        Variables begin with the values of worker 0, also when a session had to begin again.

        Args:
            check_every_steps: After so many steps it is checked that all copies are equal bit for
                bit, which costs a read of all variables; 0 for never.
        """
        return _KeepsCopiesEqual(self, check_every_steps)

    def specialised(self, graph_def: GraphDef, replica: int, num_replicas: int) -> GraphDef:
        """The graph, built once, as one of `num_replicas` workers runs it."""
        specialised = GraphDef()
        specialised.CopyFrom(graph_def)
        keys = range(GROUP_KEY, GROUP_KEY + len(self._devices))
        for node in nodes_of(specialised):
            if "group_key" in node.attr and node.attr["group_key"].i in keys:
                node.attr["group_size"].i = num_replicas
        return specialised

    def _means(self, pairs: Sequence[tuple[Any, Any]], weight: Any) -> dict[int, Any]:
        """The mean gradients by the identity of their variables."""
        found: dict[int, Any] = {}
        dense = [pair for pair in pairs if not isinstance(pair[0], IndexedSlices)]
        # A backward pass ends with the variables that were made first.
        for bucket in self._buckets(dense[::-1]):
            gradients = [gradient for gradient, _ in bucket]
            means = self._collective("CollectiveWeightedMean", (weight, gradients), bucket[0][1])
            for (_, variable), mean in zip(bucket, means, strict=True):
                found[id(variable)] = mean
        for gradient, variable in pairs:
            if isinstance(gradient, IndexedSlices):
                rows = (weight, gradient.indices, gradient.values)
                indices, values = self._collective("CollectiveWeightedRows", rows, variable)
                found[id(variable)] = IndexedSlices(values, indices, gradient.dense_shape)
        return found

    def _buckets(self, pairs: Iterable[tuple[Any, Any]]) -> list[list[tuple[Any, Any]]]:
        """Pairs of tensor and variable that travel together: of one dtype, on one device."""
        buckets: list[list[tuple[Any, Any]]] = []
        open_buckets: dict[tuple[Any, str], tuple[list[tuple[Any, Any]], int]] = {}
        for tensor, variable in pairs:
            key = (tensor.dtype.base, variable.device)
            bucket, size = open_buckets.get(key, ([], self._bucket_bytes))
            if size >= self._bucket_bytes:
                bucket, size = [], 0
                buckets.append(bucket)
            bucket.append((tensor, variable))
            elements = shapes.num_elements(variable.op.attr("shape"))
            more = self._bucket_bytes if elements is None else elements * tensor.dtype.base.size
            open_buckets[key] = bucket, size + more
        return buckets

    def _collective(self, op_type: str, inputs: Sequence[Any], variable: Any, **attrs: Any) -> Any:
        """One collective on the device of a variable."""
        key = GROUP_KEY + self._devices.setdefault(variable.device, len(self._devices))
        self._instances += 1
        attrs |= {
            "group_size": self.num_replicas,
            "group_key": key,
            "instance_key": self._instances,
            "timeout_seconds": self._timeout_s,
        }
        with self.graph.colocate_with(variable.op, ignore_existing=True):
            return self.graph.apply(op_type, tuple(inputs), attrs)

    def _known_weight(self) -> Any:
        return np.float32(1) if self._weight is None else self._weight

    def _kept_equal(self) -> list[Any]:
        """What optimizers update; all variables where there are none."""
        return list(self._updated) or self._variables()

    def _variables(self) -> list[Any]:
        found = self.graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
        return [each for each in found if each.dtype.base in dtypes.PLAIN]


def differences(fingerprints: Any, names: Sequence[str]) -> list[str]:
    """The variables that are not equal on all workers, each with the workers that differ from 0.

    Args:
        fingerprints: [num_replicas, n], the value of `AllReduceReplication.fingerprints`.
        names: [n], of the variables.

    >>> differences(np.array([[1, 2], [1, 3]]), ["a", "b"])
    ['b (worker 1)']
    """
    found = []
    for name, column in zip(names, np.asarray(fingerprints).T, strict=True):
        workers = [str(worker) for worker in np.flatnonzero(column != column[0])]
        if workers:
            found.append(f"{name} (worker {', '.join(workers)})")
    return found


class _KeepsCopiesEqual(SessionRunHook):
    """Gives all variables the values of worker 0, and checks later that they still agree."""

    def __init__(self, strategy: AllReduceReplication, check_every_steps: int) -> None:
        self._strategy = strategy
        self._every = check_every_steps
        self._steps = 0
        self._broadcast: Operation | None = None
        self._fingerprints: Tensor | None = None
        self._names: list[str] = []

    def begin(self) -> None:
        """Builds what is run later, now that all variables are there."""
        self._broadcast = self._strategy.broadcast_variables()
        if self._every:
            variables = self._strategy._kept_equal()
            self._names = [variable.op.name for variable in variables]
            self._fingerprints = self._strategy.fingerprints(variables)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Begins from worker 0's values."""
        session.run(self._broadcast)

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        """Counts the step."""
        self._steps += 1
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Compares the copies, when it is time.

        Raises:
            DataLossError: They differ; the text names variables and workers.
        """
        if not self._every or self._steps % self._every:
            return
        found = differences(run_context.session.run(self._fingerprints), self._names)
        if found:
            raise DataLossError(
                message=f"After {self._steps} steps of this session the workers' copies differ: "
                f"{'; '.join(found[:10])}. An update that is not the same on every worker "
                "(random, or outside the optimizer) changed them"
            )
