"""Sums, means and extremes of ragged tensors over one dimension or several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sparkflow.graph.scopes import apply_op, name_scope
from sparkflow.ragged.registered import of_ragged
from sparkflow.ragged.taking import expand_dims
from sparkflow.ragged.tensor import RaggedTensor
from sparkflow_runtime.dtypes import int32
from sparkflow_runtime.ops import registry


@of_ragged
def reduced(op_type: str, ragged: RaggedTensor, axis: Any, keepdims: Any, name: str | None) -> Any:
    """A reduction over `axis`: `Mean`, `Any`, `All`, or one that can be done by segment.

    Args:
        op_type: The reduction.
        ragged: What is reduced.
        axis: A dimension or several; all when None.
        keepdims: Whether they stay, with size 1.
        name: A name scope.

    Raises:
        ValueError: The dimensions are kept in a ragged result.
        TypeError: The op cannot reduce rows of several lengths.
    """
    with name_scope(name, f"RaggedReduce{op_type}", [ragged.flat_values]):
        if axis is None:
            whole = apply_op(
                op_type, ragged.flat_values, list(range(ragged.flat_values.shape.ndims or 1))
            )
            return (
                apply_op("Reshape", whole, [1] * (ragged.shape.ndims or 1)) if keepdims else whole
            )
        rank = ragged.shape.ndims
        axes = [axis] if isinstance(axis, int) else [int(each) for each in axis]
        axes = sorted({each + rank if each < 0 and rank is not None else each for each in axes})
        if _COMPOSED.get(op_type) is _mean and len(axes) > 1:
            total = reduced("Sum", ragged, axes, keepdims, None)
            ones = ragged.with_flat_values(apply_op("OnesLike", ragged.flat_values))
            count = reduced("Sum", ones, axes, keepdims, None)
            return total / count
        result: Any = ragged
        for each in reversed(axes):
            result = _over(op_type, result, each)
            if keepdims:
                result = expand_dims(result, each)
        return result


def _over(op_type: str, value: Any, axis: int) -> Any:
    if not isinstance(value, RaggedTensor):
        return apply_op(op_type, value, [axis])
    if axis > 1:
        return value.with_values(_over(op_type, value.values, axis - 1))
    if op_type in _COMPOSED:
        return _COMPOSED[op_type](value, axis)
    if axis == 0:
        # Column j gathers the j-th values of all rows.
        places = apply_op("Cast", value._coordinates()[:, 1], DstT=value.row_splits.dtype.base)
        if isinstance(value.values, RaggedTensor):
            raise ValueError(
                "Over the first dimension only ragged tensors of ragged_rank 1 are reduced"
            )
        count = value.bounding_shape(1)
        return apply_op(_by_segment(op_type), value.values, places, count)
    if isinstance(value.values, RaggedTensor):
        return _merged_rows(op_type, value)
    return apply_op(_by_segment(op_type), value.values, value.value_rowids(), value.nrows())


def _by_segment(op_type: str) -> str:
    """The op that reduces the rows of each segment.

    Raises:
        TypeError: There is none.
    """
    found = registry.lookup(op_type).by_segment
    if found is None:
        raise TypeError(f"{op_type} does not reduce ragged tensors: it says no `by_segment`")
    return found


def _mean(value: RaggedTensor, axis: int) -> Any:
    ones = value.with_flat_values(apply_op("OnesLike", value.flat_values))
    return _over("Sum", value, axis) / _over("Sum", ones, axis)


def _any(value: RaggedTensor, axis: int) -> Any:
    return apply_op("Greater", _over("Max", _as_numbers(value), axis), 0)


def _all(value: RaggedTensor, axis: int) -> Any:
    return apply_op("GreaterEqual", _over("Min", _as_numbers(value), axis), 1)


def _as_numbers(value: RaggedTensor) -> RaggedTensor:
    return value.with_flat_values(apply_op("Cast", value.flat_values, DstT=int32))


_COMPOSED: Final[Mapping[str, Callable[[RaggedTensor, int], Any]]] = {
    "Mean": _mean,
    "Any": _any,
    "All": _all,
}
"""Reductions that are made of others."""


def _merged_rows(op_type: str, value: RaggedTensor) -> RaggedTensor:
    """Over the rows of rows: what stands at one place of all rows of a row comes together."""
    inner = value.values
    longest = value.with_values(inner.row_lengths())
    lengths = _over("Max", longest, 1)
    lengths = apply_op("Maximum", lengths, apply_op("ZerosLike", lengths))
    target = RaggedTensor.from_row_lengths(_count_of(lengths), lengths)
    outer = apply_op("GatherV2", value.value_rowids(), inner.value_rowids(), 0)
    places = inner._coordinates()[:, 1]
    at = apply_op("GatherV2", target.row_starts(), outer, 0) + apply_op(
        "Cast", places, DstT=lengths.dtype.base
    )
    total = target.row_splits[-1]
    return target.with_values(apply_op(_by_segment(op_type), inner.values, at, total))


def _count_of(lengths: Any) -> Any:
    return apply_op("Range", 0, apply_op("Cast", apply_op("Sum", lengths, [0]), DstT=int32), 1)
