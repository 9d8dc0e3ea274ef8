"""Nodes that change variables: assign and scatter."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.state.state import *  # noqa: F403
from sparkflow.graph.operators import Held
from sparkflow.graph.scopes import apply_op, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.shape import arrays, constants
from sparkflow_runtime.dtypes import int32


@export("assign")
def assign(
    ref: Any,
    value: Any,
    validate_shape: bool | None = None,
    use_locking: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Assigns a new value to a variable.

    Args:
        ref: A variable.
        value: A tensor of its dtype, and of its shape unless `validate_shape` is off.
        validate_shape: Reject another shape; true if None.
        use_locking: Exclude concurrent updates; true if None.
        name: Name of the node.

    Returns:
        The variable, with the value after the assignment.
    """
    if not (ref.dtype.is_ref or isinstance(ref, Held)):
        result: Tensor = ref.assign(value, name=name)
        return result
    result = apply_op(
        "Assign",
        ref,
        value,
        validate_shape=True if validate_shape is None else validate_shape,
        use_locking=True if use_locking is None else use_locking,
        name=name,
    )
    return result


@export("assign_add")
def assign_add(
    ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None
) -> Tensor:
    """Adds to a variable. Returns the variable, with the new value."""
    return output_of("AssignAdd", ref, value, use_locking=bool(use_locking), name=name)


@export("assign_sub")
def assign_sub(
    ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None
) -> Tensor:
    """Subtracts from a variable. Returns the variable, with the new value."""
    return output_of("AssignSub", ref, value, use_locking=bool(use_locking), name=name)


def _scatter(
    op_type: str, ref: Any, indices: Any, updates: Any, use_locking: bool, name: str | None
) -> Tensor:
    return output_of(op_type, ref, indices, updates, use_locking=use_locking, name=name)


@export("scatter_update")
def scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """Replaces rows of a variable: `ref[indices] = updates`."""
    return _scatter("ScatterUpdate", ref, indices, updates, use_locking, name)


@export("scatter_add")
def scatter_add(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Adds to rows of a variable; repeated indices add up."""
    return _scatter("ScatterAdd", ref, indices, updates, use_locking, name)


@export("scatter_sub")
def scatter_sub(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Subtracts from rows of a variable; repeated indices add up."""
    return _scatter("ScatterSub", ref, indices, updates, use_locking, name)


@export("scatter_mul")
def scatter_mul(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Multiplies rows of a variable."""
    return _scatter("ScatterMul", ref, indices, updates, use_locking, name)


@export("scatter_div")
def scatter_div(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Divides rows of a variable."""
    return _scatter("ScatterDiv", ref, indices, updates, use_locking, name)


@export("scatter_min")
def scatter_min(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Sets rows of a variable to their minimum with the updates."""
    return _scatter("ScatterMin", ref, indices, updates, use_locking, name)


@export("scatter_max")
def scatter_max(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Sets rows of a variable to their maximum with the updates."""
    return _scatter("ScatterMax", ref, indices, updates, use_locking, name)


@export("scatter_nd_update")
def scatter_nd_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """Sets slices of a variable at the index vectors in the last dimension of `indices`."""
    return _scatter("ScatterNdUpdate", ref, indices, updates, use_locking, name)


@export("scatter_nd_add")
def scatter_nd_add(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Adds to slices of a variable; repeated index vectors add up."""
    return _scatter("ScatterNdAdd", ref, indices, updates, use_locking, name)


@export("scatter_nd_sub")
def scatter_nd_sub(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Subtracts from slices of a variable; repeated index vectors add up."""
    return _scatter("ScatterNdSub", ref, indices, updates, use_locking, name)


@export("batch_scatter_update")
def batch_scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """`ref[b, indices[b, i]] = updates[b, i]` for each index `b` of the leading dimensions.

    Args:
        ref: A variable of shape `batch + [rows] + rest`.
        indices: `batch + [n]` integers.
        updates: `batch + [n] + rest`.
        use_locking: Exclude concurrent updates.
        name: Name of the node.
    """
    graph = graph_of((ref, indices, updates))
    with graph.name_scope(name or "batch_scatter_update"):
        indices = graph.convert(indices, None, "indices")
        rank = indices.shape.ndims
        if rank is None:
            raise ValueError("batch_scatter_update needs indices of known rank")
        sizes = arrays.shape(indices, out_type=indices.dtype)
        parts = []
        for axis in range(rank - 1):
            counts = constants.range(sizes[axis], dtype=indices.dtype)
            column = [1] * axis + [-1] + [1] * (rank - axis - 1)
            counts = arrays.reshape(counts, graph.convert(column, int32))
            parts.append(counts + constants.zeros_like(indices))
        vectors = arrays.stack([*parts, indices], axis=-1)
        return scatter_nd_update(ref, vectors, updates, use_locking)
