"""Sorting, searching in sorted rows, sets of numbers, coordinates."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkflow._api import export
from sparkflow._generated.ops.indexing.sorting import *  # noqa: F403
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.shape import arrays
from sparkflow.ops.shape.axis_order import exchanged_with_last
from sparkflow_runtime.dtypes import as_dtype, int32

_ASCENDING, _DESCENDING = "ASCENDING", "DESCENDING"


@export("sort")
def sort(
    values: Any, axis: int = -1, direction: str = _ASCENDING, name: str | None = None
) -> Tensor:
    """The values sorted along `axis`.

    Raises:
        ValueError: A `direction` other than `ASCENDING` and `DESCENDING`; an `axis` that is no
            constant.
    """
    graph = graph_of((values,))
    with graph.as_default(), graph.name_scope(name or "sort"):
        return _sorted(values, axis, direction)[0]


@export("argsort")
def argsort(
    values: Any,
    axis: int = -1,
    direction: str = _ASCENDING,
    stable: bool = False,
    name: str | None = None,
) -> Tensor:
    """The int32 indices that sort the values along `axis`; equal elements keep their order.

    Args:
        values: Any real tensor.
        axis: The dimension to sort along.
        direction: `ASCENDING` or `DESCENDING`.
        stable: Accepted; sorting is always stable.
        name: Name of the scope.

    Raises:
        ValueError: Another `direction`; an `axis` that is no constant.
    """
    graph = graph_of((values,))
    with graph.as_default(), graph.name_scope(name or "argsort"):
        return _sorted(values, axis, direction)[1]


def _sorted(values: Any, axis: Any, direction: str) -> tuple[Tensor, Tensor]:
    if direction not in (_ASCENDING, _DESCENDING):
        raise ValueError(f"Unknown direction: {direction}. Choose {_ASCENDING} or {_DESCENDING}")
    tensor = convert_to_tensor(values, name="values")
    position = constant_value(convert_to_tensor(axis)) if isinstance(axis, Symbolic) else axis
    if position is None:
        raise ValueError("axis must be a constant scalar")
    position = int(position)
    rank = tensor.shape.ndims
    move = None
    if position not in (-1, (rank or 0) - 1):
        move = exchanged_with_last(tensor, position)
        tensor = arrays.transpose(tensor, move)
    found = list(_largest(tensor, direction == _ASCENDING))
    if move is not None:
        found = [arrays.transpose(each, move) for each in found]
    return found[0], found[1]


def _largest(tensor: Tensor, ascending: bool) -> tuple[Tensor, Tensor]:
    size = arrays.shape(tensor)[-1]
    if not ascending:
        values, indices = apply_op("TopKV2", tensor, size)
        return values, indices
    kind = tensor.dtype.base
    if not kind.is_integer:
        values, indices = apply_op("TopKV2", -tensor, size)
        return -values, indices
    # The largest of these is the smallest of the values, and nothing overflows.
    last = convert_to_tensor(kind.max if kind.min == 0 else -1, kind)
    values, indices = apply_op("TopKV2", last - tensor, size)
    return last - values, indices


@export("searchsorted")
def searchsorted(
    sorted_sequence: Any,
    values: Any,
    side: str = "left",
    out_type: Any = int32,
    name: str | None = None,
) -> Tensor:
    """Where each of the values would be put into the sorted row with the same leading indices.

    Args:
        sorted_sequence: [..., n], sorted along the last dimension.
        values: [..., m].
        side: `left` of equal elements, or `right`.
        out_type: int32 or int64.
        name: Name of the scope.

    Raises:
        ValueError: Another `side`.
    """
    graph = graph_of((sorted_sequence, values))
    with graph.as_default(), graph.name_scope(name or "searchsorted"):
        rows = convert_to_tensor(sorted_sequence, name="sorted_sequence")
        asked = convert_to_tensor(values, rows.dtype.base, name="values")
        flat_rows = arrays.reshape(rows, [-1, arrays.shape(rows)[-1]])
        flat_asked = arrays.reshape(asked, [-1, arrays.shape(asked)[-1]])
        kind = as_dtype(out_type)
        if side == "right":
            found = apply_op("UpperBound", flat_rows, flat_asked, out_type=kind)
        elif side == "left":
            found = apply_op("LowerBound", flat_rows, flat_asked, out_type=kind)
        else:
            raise ValueError(f"side must be either 'right' or 'left'.  Saw: {side}.")
        return arrays.reshape(found, arrays.shape(asked))


class ListDiff(NamedTuple):
    """The result of `setdiff1d`: the elements and their indices."""

    out: Tensor
    idx: Tensor


@export("setdiff1d")
def setdiff1d(x: Any, y: Any, index_dtype: Any = int32, name: str | None = None) -> ListDiff:
    """The elements of the vector `x` that are not in the vector `y`, and their positions in `x`."""
    return ListDiff(*apply_op("ListDiff", x, y, out_idx=as_dtype(index_dtype), name=name))


@export("listdiff")
def listdiff(x: Any, y: Any, out_idx: Any = None, name: str | None = None) -> ListDiff:
    """`setdiff1d` under its old name."""
    return setdiff1d(x, y, int32 if out_idx is None else out_idx, name)


class UniqueWithCounts(NamedTuple):
    """The distinct elements, which of them each element is, and how often each appears."""

    y: Tensor
    idx: Tensor
    count: Tensor  # type: ignore[assignment]  # TensorFlow's name; hides tuple.count


@export("unique_with_counts")
def unique_with_counts(x: Any, out_idx: Any = int32, name: str | None = None) -> UniqueWithCounts:
    """The distinct elements of a vector in order of appearance, with positions and counts."""
    found = apply_op("UniqueWithCounts", x, out_idx=as_dtype(out_idx), name=name)
    return UniqueWithCounts(*found)


@export("math.approx_max_k", "nn.approx_max_k")
def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The `k` largest elements along a dimension, and their positions; exactly, here.

    Args:
        operand: Any real tensor.
        k: How many.
        reduction_dimension: The dimension to look along.
        recall_target: Accepted: none is missed.
        reduction_input_size_override: Accepted.
        aggregate_to_topk: Accepted: there are always `k` of them.
        name: Name of the scope.
    """
    return _extreme(operand, k, reduction_dimension, name or "approx_max_k", 1)


@export("math.approx_min_k", "nn.approx_min_k")
def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The `k` smallest elements along a dimension; arguments as for `approx_max_k`."""
    return _extreme(operand, k, reduction_dimension, name or "approx_min_k", -1)


def _extreme(operand: Any, k: int, axis: int, name: str, sign: int) -> tuple[Tensor, Tensor]:
    with graph_of((operand,)).name_scope(name):
        tensor = convert_to_tensor(operand, name="operand")
        order = exchanged_with_last(tensor, axis)
        rows = arrays.transpose(tensor if sign > 0 else -tensor, order)
        values, places = apply_op("TopKV2", rows, k)
        found = arrays.transpose(values, order), arrays.transpose(places, order)
        return (found[0] if sign > 0 else -found[0]), found[1]
