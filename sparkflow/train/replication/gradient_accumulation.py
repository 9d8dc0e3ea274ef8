"""Gradient accumulation: the gradients of several small batches make one update.

What is summed up lies beside the replica's own computation, in local variables: nothing crosses to
a parameter server before the update is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import get_default_graph, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control.cond import cond
from sparkflow.ops.control.ordering import group, identity, no_op
from sparkflow.ops.elementwise import comparison, elementwise
from sparkflow.ops.shape import arrays, constants
from sparkflow.ops.state import state
from sparkflow.train.optimizers.conditional_update import Part, by_device, update_when
from sparkflow.train.optimizers.optimizer import Optimizer, WrappingOptimizer
from sparkflow.train.replication.replica_variable import replica_variable
from sparkflow_runtime import dtypes


@export("train.GradientAccumulationOptimizer")
class GradientAccumulationOptimizer(WrappingOptimizer):
    """Makes another optimizer apply the gradients of `num_batches` steps as one update.

    The update is that of one step on all rows of these batches, where the loss is a mean over rows.
    Steps that make no update leave variables, slots and `global_step` as they are. What was summed
    up when training ends is lost, as is what a checkpoint does not hold: local variables. Among
    replicas, a step that a `tf.cond` leaves out counts as a batch without rows. Steps of one
    session must follow one another: those of several threads at once lose parts of the sums.

    Args:
        opt: The optimizer that makes the updates.
        num_batches: How many steps make an update.
        rows: [] float, the number of rows of a batch, where batches differ; 0 for one that does not
            count. Among replicas it is the `weight` of their strategy.
        name: Name of the scope.

    Raises:
        ValueError: `num_batches` is below 1.
    """

    def __init__(
        self,
        opt: Optimizer,
        num_batches: int,
        rows: Any = None,
        name: str = "GradientAccumulation",
    ) -> None:
        super().__init__(opt, False, name)
        if num_batches < 1:
            raise ValueError(f"num_batches must be at least 1, got {num_batches}")
        self._num_batches = num_batches
        self._rows = rows

    def weighed_by(self, rows: Any) -> GradientAccumulationOptimizer:
        """The same with other numbers of rows."""
        return GradientAccumulationOptimizer(self._opt, self._num_batches, rows, self._name)

    def apply_dense_and_sparse(
        self,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Operation:
        """The operation of one step: adds the gradients, updates when enough are in.

        Args:
            grads_and_vars: As `compute_gradients` gives them.
            global_step: A variable to count updates in, None for none.
            name: Name of the scope.
        """
        given = self.collect(grads_and_vars, self._rows)
        assert given.ready is not None
        # Batches without a row leave the slots alone, too.
        due = comparison.logical_and(given.ready, comparison.greater(given.weight, 0))
        parts = [Part(device, due, pairs) for device, pairs in by_device(given.pairs).items()]
        return group(*update_when(given.optimizer, parts, global_step, name))

    def apply_where(
        self,
        condition: Tensor,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Operation:
        """As `apply_dense_and_sparse`; a batch where the condition does not hold has no rows."""
        given_rows, self._rows = self._rows, rows_where(condition, self._rows)
        try:
            return self.apply_dense_and_sparse(grads_and_vars, global_step, name)
        finally:
            self._rows = given_rows

    def collect(self, grads_and_vars: Sequence[tuple[Any, Any]], rows: Any) -> Collected:
        """Adds the gradients of one batch; what an update may be made of.

        Args:
            grads_and_vars: Pairs of gradient and variable.
            rows: [] float, the number of rows of the batch; None for equal batches.
        """
        pairs = [(gradient, each) for gradient, each in grads_and_vars if gradient is not None]
        graph = graph_of([each for _, each in pairs])
        with graph.as_default(), graph.name_scope(self._name):
            return self._collect(pairs, rows)

    def _devices(self, pairs: Sequence[tuple[Any, Any]]) -> set[str]:
        """Where an update changes variables: those it sums up in, too."""
        with get_default_graph().init_scope():
            here = no_op(name="here").device
        return {here, *super()._devices(pairs)}

    def _collect(self, pairs: Sequence[tuple[Any, Any]], rows: Any) -> Collected:
        graph = graph_of([each for _, each in pairs])
        weight = graph.convert(1.0 if rows is None else rows)
        count = replica_variable(lambda: constants.zeros([], dtypes.int64), "batches")
        position = elementwise.mod(
            count.read_value(), constants.constant(self._num_batches, dtypes.int64)
        )
        is_first = comparison.equal(position, 0)
        is_last = comparison.equal(position, self._num_batches - 1)
        summed_rows = _sum(is_first, weight, "rows")
        sums = [(_summed(is_first, _widened(gradient), weight), each) for gradient, each in pairs]
        stored = [each for gradient, _ in sums for each in _tensors(gradient)]
        with graph.control_dependencies([summed_rows, *stored]):
            advanced = state.assign_add(count, constants.constant(1, dtypes.int64))
        means = [
            (elementwise.cast(_mean(is_last, total, summed_rows), gradient.dtype), each)
            for (total, each), (gradient, _) in zip(sums, pairs, strict=True)
        ]
        with graph.control_dependencies([advanced]):
            ready = identity(is_last)
        return Collected(self._opt, means, summed_rows, ready)


@dataclass(frozen=True, slots=True)
class Collected:
    """What an update may be made of.

    Attributes:
        optimizer: What makes it.
        pairs: Gradients with variables; without elements where it is not `ready`.
        weight: [] float, the number of rows.
        ready: [] bool, whether the update is due; None where it always is.
    """

    optimizer: Optimizer
    pairs: Sequence[tuple[Any, Any]]
    weight: Tensor
    ready: Tensor | None


def collected(optimizer: Optimizer, pairs: Sequence[tuple[Any, Any]], weight: Tensor) -> Collected:
    """The gradients of a step, or of several if the optimizer accumulates them."""
    if isinstance(optimizer, GradientAccumulationOptimizer):
        return optimizer.collect(pairs, weight)
    return Collected(optimizer, pairs, weight, None)


def rows_where(condition: Any, rows: Any) -> Any:
    """The rows of a batch, 0 where a condition does not hold; of equal batches for `rows` None."""
    if condition is None:
        return rows
    graph = graph_of((condition,))
    given = graph.convert(1.0 if rows is None else rows)
    return comparison.where(condition, given, constants.zeros_like(given))


def _widened(gradient: Any) -> Any:
    """The gradient as it is added up: a sum of 16 bits would stand still after some batches."""
    narrow = gradient.dtype.base in (dtypes.float16, dtypes.bfloat16)
    return elementwise.cast(gradient, dtypes.float32) if narrow else gradient


def _tensors(gradient: Any) -> tuple[Tensor, ...]:
    if isinstance(gradient, IndexedSlices):
        return gradient.values, gradient.indices
    return (gradient,)


def _sum(is_first: Tensor, value: Tensor, name: str) -> Tensor:
    """The sum of the values since the first batch, this one included; kept for the next."""
    known = value.shape.is_fully_defined()
    shape = value.shape.as_list() if known else [0] * (value.shape.ndims or 0)
    dtype = value.dtype.base
    kept = replica_variable(lambda: constants.zeros(shape, dtype), name, is_sized=known)
    total = cond(is_first, lambda: identity(value), lambda: kept.read_value() + value)
    return state.assign(kept, total, validate_shape=known)


def _summed(is_first: Tensor, gradient: Any, weight: Tensor) -> Any:
    """The sum of the gradients times their rows since the first batch."""
    if isinstance(gradient, IndexedSlices):
        rows = _joined(is_first, _scaled(gradient.values, weight), "values")
        indices = _joined(is_first, gradient.indices, "indices")
        return IndexedSlices(rows, indices, gradient.dense_shape)
    return _sum(is_first, _scaled(gradient, weight), "sum")


def _joined(is_first: Tensor, value: Tensor, name: str) -> Tensor:
    """The values of all batches since the first one, one after the other."""
    row = (value.shape.as_list() if value.shape.ndims else [0])[1:]
    shape, dtype = [0, *[size or 0 for size in row]], value.dtype.base
    kept = replica_variable(lambda: constants.zeros(shape, dtype), name, is_sized=False)
    total = cond(
        is_first,
        lambda: identity(value),
        lambda: arrays.concat([kept.read_value(), value], 0),
    )
    return state.assign(kept, total, validate_shape=False)


def _scaled(value: Tensor, weight: Tensor) -> Tensor:
    """The value times the rows; zeros for no rows, whatever the value is."""
    rows = elementwise.cast(weight, value.dtype.base)
    counts = comparison.greater(weight, 0)
    scaled: Tensor = cond(counts, lambda: value * rows, lambda: constants.zeros_like(value))
    return scaled


def _mean(is_last: Tensor, total: Any, rows: Tensor) -> Any:
    """The mean over all rows where the update is due, else something without elements."""
    if isinstance(total, IndexedSlices):
        return IndexedSlices(
            _divided(is_last, total.values, rows),
            _emptied(is_last, total.indices, total.indices),
            total.dense_shape,
        )
    return _divided(is_last, total, rows)


def _divided(is_last: Tensor, total: Tensor, rows: Tensor) -> Tensor:
    count = elementwise.cast(rows, total.dtype.base)
    return _emptied(is_last, elementwise.div_no_nan(total, count), total)


def _emptied(is_last: Tensor, value: Tensor, like: Tensor) -> Tensor:
    shape = [0] * (like.shape.ndims or 0)
    empty: Any = constants.zeros(shape, like.dtype.base)
    sent: Tensor = cond(is_last, lambda: identity(value), lambda: identity(empty))
    return sent
