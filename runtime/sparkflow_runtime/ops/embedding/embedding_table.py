"""Embedding tables that grow with the ids they see. All are ours; TensorFlow has none.

A table is a handle (`EmbeddingTable`, at run time an `EmbeddingRows`: the mapping of ids to rows)
and variables on its device: the values, and the slots that optimizers add, which are found by their
names, `values/...`. A lookup assigns a row in all of them to unseen ids; the usual ops that update
rows of variables then update these. All have the same number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import FailedPreconditionError, InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.embedding.embedding_rows import (
    FIRST_ROW,
    FRESH_ROW,
    SPARE_ROW,
    Contents,
    EmbeddingRows,
    Found,
    Policy,
    shards_of,
)
from sparkflow_runtime.ops.inference import same_as, scalars, sizes
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.native import row_kernels
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.optimizers.update import LockOrder
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, string_attr, type_attr
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.resources.variable import Variable
from sparkflow_runtime.shapes import Shape

_VALUES = type_attr(dtypes.FLOATING)
_INT64: Shape = (None,)


class _TableOp(Op):
    stateful = True
    keeps_inputs = False
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable


@register
class EmbeddingTable(_TableOp):
    """The table of this name on the task, created at first use."""

    is_ours = True
    outputs = "handle: resource"
    attrs = {
        "container": string_attr(""),
        "shared_name": string_attr(""),
        "admit_after": int_attr(1, minimum=1),
        "capacity": int_attr(0, minimum=0),
        "evict_oldest": bool_attr(False),
        "steps_to_live": int_attr(0, minimum=0),
    }
    infer = scalars

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Finds or creates the table; the kernel returns it.

        Raises:
            InvalidArgumentError: It exists with a different policy.
        """
        attrs = node.attrs
        name = attrs["shared_name"] or node.name
        policy = Policy(
            attrs["admit_after"], attrs["capacity"], attrs["evict_oldest"], attrs["steps_to_live"]
        )
        table = context.resources.get_or_create(
            attrs["container"], name, EmbeddingRows, lambda: EmbeddingRows(name, policy)
        )
        if table.policy != policy:
            raise InvalidArgumentError(
                message=f"Embedding table {name!r} exists on {context.device_name} with "
                f"{table.policy}, but was asked for with {policy}; use another name or reset the "
                "task"
            )
        return lambda: table


@register
class EmbeddingLookup(_TableOp):
    """The rows of distinct ids, and their numbers; unseen ids may get one.

    `initial` holds initial rows: an id gets the one that its number selects.
    """

    is_ours = True
    reads_parts = True
    inputs = "handle: resource, values: Ref(T), initial: T, ids: int64, counts: int32"
    outputs = "found: T, rows: int64"
    attrs = {"T": _VALUES, "dim": int_attr(minimum=1), "insert": bool_attr(True)}

    def infer(self, node: Inference) -> list[Shape]:
        """[n, dim] and [n]."""
        (count,) = node.with_rank(3, 1, "ids")
        return [(count, node.attrs["dim"]), (count,)]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel; it raises FailedPreconditionError if the values are uninitialised."""
        resources, inserts, locks = context.resources, node.attrs["insert"], LockOrder()

        def run(
            table: EmbeddingRows, values: Variable, initial: Array, ids: Array, counts: Array
        ) -> tuple[Array, Array]:
            with table.lock:
                _require_rows(table, values)
                if inserts:
                    found = table.look_up(ids, counts)
                    _fill(resources, locks, table.num_rows, values, found, initial)
                    rows = found.rows
                else:
                    rows = table.find(ids)
                array = values.read()
            taken = row_kernels.gather(array, rows)
            trained = np.where(rows == FRESH_ROW, SPARE_ROW, rows)
            return array[rows] if taken is None else taken, trained

        return run

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor, _: Any) -> tuple[Any, ...]:
        """The rows of dy, at the rows of the ids."""
        shape = g.Shape(op.inputs[1])
        return None, g.indexed_slices(dy, op.outputs[1], shape), None, None, None


def _require_rows(table: EmbeddingRows, values: Variable) -> None:
    count = values.read().shape[0]
    if count < table.num_rows:
        raise FailedPreconditionError(
            message=f"Embedding table {table.name!r} has {table.num_rows} rows, its values "
            f"{values.name!r} have {count}: initialise or restore all of it together"
        )


def _fill(
    resources: Resources,
    locks: LockOrder,
    num_rows: int,
    values: Variable,
    found: Found,
    initial: Array,
) -> None:
    """Grows the arrays, and initialises new rows."""
    arrays = (values, *_slots(resources, values))
    count = values.read().shape[0]
    if num_rows > count:
        count = max(num_rows, 2 * count)
    elif not found.new_rows.size and all(each.array.shape[0] == count for each in arrays):
        return
    held = locks.of(arrays)
    for lock in held:
        lock.acquire()
    try:
        for variable in arrays:
            array = _grown(variable, count)
            array[found.new_rows] = array[FRESH_ROW]
        values.array[found.new_rows] = initial[_numbers(found.new_keys, initial.shape[0])]
    finally:
        for lock in held:
            lock.release()


def _slots(resources: Resources, values: Variable) -> list[Variable]:
    below = resources.named(f"{values.name}/", Variable)
    return [each for each in below if each.array is not None and each.array.ndim == 2]


def _grown(variable: Variable, count: int) -> Array:
    """Returns the array of a variable whose lock is held, grown to a number of rows."""
    array = variable.read()
    if array.shape[0] >= count:
        return array
    longer = variable.allocate((count, *array.shape[1:]), array.dtype)
    longer[: array.shape[0]] = array
    longer[array.shape[0] :] = array[FRESH_ROW]
    variable.array = longer
    return longer


def _numbers(keys: Array, count: int) -> Array:
    """Returns which of `count` initial rows each id gets."""
    return shards_of(keys ^ np.int64(0x5555555555555555), count)


@register
class EmbeddingShard(Op):
    """The table, out of `num_shards`, of each id."""

    is_ours = True
    inputs = "ids: int64"
    outputs = "shards: int32"
    attrs = {"num_shards": int_attr(minimum=1)}
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable
    infer = same_as(0)

    def compute(self, xp: Any, ids: Array, *, num_shards: int) -> Array:
        """See `embedding_rows.shards_of`."""
        return shards_of(ids, num_shards)


@register
class EmbeddingEvict(_TableOp):
    """Evicts rows that are too old or whose norm is too small; returns their number."""

    is_ours = True
    inputs = "handle: resource, values: Ref(T), least_norm: T"
    outputs = "evicted: int64"
    attrs = {"T": _VALUES}
    infer = scalars

    def compute(self, xp: Any, table: EmbeddingRows, values: Variable, least_norm: Array) -> Array:
        """Euclidean norms below `least_norm` are too small."""
        with table.lock:
            count = table.drop_old()
            if least_norm > 0:
                rows = table.contents().rows
                kept = values.read()[rows].astype(np.float64)
                short = np.square(kept).sum(1) < float(least_norm) ** 2
                count += table.drop_rows(rows[short])
        return np.asarray(count, np.int64)


@register
class EmbeddingStatistics(_TableOp):
    """The numbers of ids with a row, ids counted without one, array rows, evicted rows, lookups."""

    is_ours = True
    inputs = "handle: resource"
    outputs = "numbers: int64"
    infer = sizes((5,))

    def compute(self, xp: Any, table: EmbeddingRows) -> Array:
        """[5]."""
        with table.lock:
            numbers = table.size, table.waiting, table.num_rows, table.evicted, table.clock
        return np.array(numbers, np.int64)


@register
class EmbeddingExport(_TableOp):
    """All ids of a table, those with a row first; their rows, after `FRESH_ROW`."""

    is_ours = True
    inputs = "handle: resource"
    outputs = "keys: int64, rows: int64, counts: int64, ages: int64"

    def infer(self, node: Inference) -> list[Shape]:
        """Vectors."""
        return [_INT64] * 4

    def compute(self, xp: Any, table: EmbeddingRows) -> tuple[Array, ...]:
        """[n], [m + 1], [n], [n]."""
        with table.lock:
            held = table.contents()
        rows = np.concatenate([np.array([FRESH_ROW]), held.rows])
        return held.keys, rows, held.counts, held.ages


@register
class EmbeddingImport(_TableOp):
    """Replaces the ids by those of one shard; returns where their rows go."""

    is_ours = True
    inputs = "handle: resource, keys: int64, num_rows: int64, counts: int64, ages: int64"
    outputs = "rows: int64, places: int64"
    attrs = {"shard": int_attr(minimum=0), "num_shards": int_attr(minimum=1)}

    def infer(self, node: Inference) -> list[Shape]:
        """Two vectors."""
        return [_INT64] * 2

    def compute(
        self,
        xp: Any,
        table: EmbeddingRows,
        keys: Array,
        num_rows: Array,
        counts: Array,
        ages: Array,
        *,
        shard: int,
        num_shards: int,
    ) -> tuple[Array, Array]:
        """Rows of the table, and of the checkpoint: the first, `FRESH_ROW`, is shared by all.

        Raises:
            InvalidArgumentError: The vectors do not belong together.
        """
        if not keys.shape == counts.shape == ages.shape or not 0 <= num_rows <= keys.size:
            raise InvalidArgumentError(
                message=f"Embedding table {table.name!r} cannot take {keys.shape} ids with "
                f"{num_rows} rows, {counts.shape} counts and {ages.shape} ages"
            )
        own = np.flatnonzero(shards_of(keys, num_shards) == shard)
        with_rows = own[own < num_rows]
        with table.lock:
            rows = table.restore(Contents(keys[own], with_rows, counts[own], ages[own]))
        first = np.array([FRESH_ROW])
        return np.concatenate([first, rows]), np.concatenate([first, with_rows + 1])


@register
class EmbeddingSetClock(_TableOp):
    """Sets the number of lookups of a table, so that rows expire as they would have."""

    is_ours = True
    inputs = "handle: resource, clock: int64"

    def infer(self, node: Inference) -> list[Shape]:
        """No outputs."""
        node.with_rank(1, 0, "clock")
        return []

    def compute(self, xp: Any, table: EmbeddingRows, clock: Array) -> None:
        """The ages of ids stay the same.

        Raises:
            InvalidArgumentError: The age of an id exceeds it.
        """
        with table.lock:
            table.set_clock(int(clock))


@register
class EmbeddingRestore(_TableOp):
    """Restores saved rows into a variable of a table."""

    is_ours = True
    inputs = "values: Ref(T), rows: int64, places: int64, saved: T"
    outputs = "ref: Ref(T)"
    attrs = {"T": _VALUES}
    infer = same_as(0)

    def compute(
        self, xp: Any, values: Variable, rows: Array, places: Array, saved: Array
    ) -> Variable:
        """Unassigned rows are copies of the first.

        Raises:
            InvalidArgumentError: The saved variable lacks these rows.
        """
        if saved.ndim != 2 or not saved.shape[0] or places.max(initial=0) >= saved.shape[0]:
            raise InvalidArgumentError(
                message=f"Variable {values.name!r} needs {places.max(initial=0) + 1} rows from the "
                f"checkpoint, which has {shapes.text(saved.shape)}"
            )
        count = max(int(rows.max(initial=0)) + 1, FIRST_ROW)
        with values.lock:
            array = values.allocate((count, saved.shape[1]), saved.dtype)
            array[...] = saved[0]
            array[rows] = saved[places]
            values.array = array
        return values
