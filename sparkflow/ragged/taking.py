"""Parts of ragged tensors, and ragged tensors put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.scopes import apply_op, convert_to_tensor, name_scope, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ragged import rows
from sparkflow.ragged.registered import of_ragged
from sparkflow.ragged.tensor import RaggedTensor
from sparkflow_runtime.dtypes import int32, int64


@of_ragged
def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Any:
    """The rows of `params` at `indices`; either may be ragged.

    Raises:
        ValueError: Another axis than the first, or more than one batch dimension.
    """
    if batch_dims == 1:
        return batch_gather(params, indices, name)
    if axis not in (None, 0) or batch_dims:
        raise ValueError("Of ragged tensors only rows are gathered: axis 0, batch_dims 0 or 1")
    if isinstance(indices, RaggedTensor):
        return indices.with_values(gather(params, indices.values))
    if not isinstance(params, RaggedTensor):
        return apply_op("GatherV2", params, indices, 0, name=name)
    with name_scope(name, "RaggedGather", [params.flat_values]):
        places = convert_to_tensor(indices, dtype_hint=int64)
        if places.shape.ndims not in (1, None):
            if places.shape.ndims == 0:
                return params[places]
            flat = gather(params, apply_op("Reshape", places, [-1]))
            for size in reversed(places.shape.as_list()[1:]):
                flat = RaggedTensor.from_uniform_row_length(flat, size)
            return flat
        starts = apply_op("GatherV2", params.row_starts(), places, 0)
        lengths = apply_op("GatherV2", params.row_lengths(), places, 0)
        return params._cut(starts, lengths)


@of_ragged
def batch_gather(params: Any, indices: Any, name: str | None = None) -> Any:
    """Of row i of `params` the values at `indices[i]`."""
    with name_scope(name, "RaggedBatchGather", [getattr(params, "flat_values", params)]):
        if not isinstance(params, RaggedTensor):
            params = RaggedTensor.from_tensor(params, row_splits_dtype=indices.row_splits.dtype)
        if not isinstance(indices, RaggedTensor):
            dense = convert_to_tensor(indices)
            if dense.shape.ndims == 1:
                return gather(params.values, params.row_starts() + _as(dense, params))
            indices = RaggedTensor.from_tensor(dense, row_splits_dtype=params.row_splits.dtype)
        starts = apply_op("GatherV2", params.row_starts(), indices.value_rowids(), 0)
        places = starts + apply_op("Cast", indices.values, DstT=starts.dtype.base)
        return indices.with_values(gather(params.values, places))


@of_ragged
def gather_nd(params: Any, indices: Any, name: str | None = None) -> Any:
    """The parts of `params` at coordinates [..., depth]."""
    if isinstance(indices, RaggedTensor):
        return indices.with_values(gather_nd(params, indices.values))
    places = convert_to_tensor(indices)
    depth = places.shape[-1].value
    if not isinstance(params, RaggedTensor):
        return apply_op("GatherNd", params, places, name=name)
    if depth is None or places.shape.ndims != 2:
        raise ValueError(f"indices must be [count, depth] of known depth, got {places.shape}")
    found: Any = params
    columns = [places[:, place] for place in range(depth)]
    at = _as(columns[0], params)
    for column in columns[1:]:
        if not isinstance(found, RaggedTensor):
            rest = apply_op(
                "Pack",
                [
                    at,
                    *[
                        apply_op("Cast", c, DstT=at.dtype.base)
                        for c in columns[columns.index(column) :]
                    ],
                ],
                axis=1,
            )
            return apply_op("GatherNd", found, rest, name=name)
        at = apply_op("GatherV2", found.row_starts(), at, 0) + _as(column, found)
        found = found.values
    return gather(found, at)


@of_ragged
def concat(values: Sequence[Any], axis: Any, name: str | None = None) -> Any:
    """Joined rows (axis 0), or the rows of all side by side (axis 1).

    Raises:
        ValueError: Another axis, or nothing to join.
    """
    parts = [each if isinstance(each, RaggedTensor) else convert_to_tensor(each) for each in values]
    like = next(each for each in parts if isinstance(each, RaggedTensor))
    rank = like.shape.ndims
    axis = axis + rank if axis < 0 and rank is not None else axis
    with name_scope(name, "RaggedConcat", [like.flat_values]):
        ragged = [_as_ragged(each, like) for each in parts]
        if axis == 0:
            return _rows_after_rows(ragged)
        if axis == 1:
            joined = _rows_after_rows(ragged)
            count = like.nrows()
            order = apply_op(
                "Reshape",
                apply_op(
                    "Transpose",
                    apply_op(
                        "Reshape",
                        _below(count * len(ragged)),
                        apply_op(
                            "Pack", [apply_op("Cast", len(ragged), DstT=count.dtype.base), count]
                        ),
                    ),
                    [1, 0],
                ),
                [-1],
            )
            turned = gather(joined, order)
            return RaggedTensor(
                turned.values,
                apply_op("GatherV2", turned.row_splits, _below(count + 1) * len(ragged), 0),
            )
        inner = [each.values for each in ragged]
        return like.with_values(concat(inner, axis - 1))


@of_ragged
def stack(values: Sequence[Any], axis: Any = 0, name: str | None = None) -> Any:
    """A ragged tensor of ragged tensors (axis 0), or of rows beside each other (axis 1)."""
    parts = [each if isinstance(each, RaggedTensor) else convert_to_tensor(each) for each in values]
    ragged_parts = [each for each in parts if isinstance(each, RaggedTensor)]
    with name_scope(name, "RaggedStack", [getattr(parts[0], "flat_values", parts[0])]):
        if not ragged_parts and parts[0].shape.ndims == 1 and axis == 0:
            lengths = apply_op(
                "Pack", [apply_op("Shape", each, out_type=int64)[0] for each in parts]
            )
            return RaggedTensor.from_row_lengths(apply_op("ConcatV2", parts, 0), lengths)
        if not ragged_parts:
            ragged_parts = [RaggedTensor.from_tensor(each) for each in parts]
            parts = [*ragged_parts]
        if axis == 0:
            ragged = [_as_ragged(each, ragged_parts[0]) for each in parts]
            lengths = apply_op("Pack", [each.nrows() for each in ragged])
            return RaggedTensor.from_row_lengths(_rows_after_rows(ragged), lengths)
        return concat([expand_dims(each, axis) for each in parts], axis)


@of_ragged
def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """A dimension of size 1 at `axis`."""
    axis = dim if axis is None else axis
    if not isinstance(input, RaggedTensor):
        return apply_op("ExpandDims", input, axis)
    rank = input.shape.ndims
    if axis < 0 and rank is not None:
        axis += rank + 1
    if axis == 0:
        count = apply_op("ExpandDims", input.nrows(), 0)
        return RaggedTensor.from_row_lengths(input, count)
    if axis == 1:
        splits = _below(input.nrows() + 1)
        return RaggedTensor(input, splits)
    return input.with_values(expand_dims(input.values, axis - 1))


@of_ragged
def tile(input: Any, multiples: Any, name: str | None = None) -> Any:
    """The rows, and what is in them, repeated as `multiples` [rank] numbers say."""
    times = [int(each) for each in multiples]
    result = input
    for axis in range(len(times) - 1, -1, -1):
        if times[axis] != 1:
            result = concat([result] * times[axis], axis)
    return result


@of_ragged
def size(input: Any, name: str | None = None, out_type: Any = int32) -> Tensor:
    """How many values there are."""
    return output_of("Size", input.flat_values, out_type=out_type, name=name)


@of_ragged
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Values of `x` where `condition` holds, of `y` elsewhere; without both, coordinates."""
    if x is None and y is None:
        places = condition._coordinates()
        chosen = apply_op("Reshape", apply_op("Where", condition.flat_values), [-1])
        return apply_op("GatherV2", places, chosen, 0)
    return next(e for e in (condition, x, y) if isinstance(e, RaggedTensor))._elementwise(
        "SelectV2", [condition, x, y], {}, name
    )


@of_ragged
def boolean_mask(data: Any, mask: Any, name: str | None = None, axis: Any = None) -> Any:
    """The rows, or values of rows, for which the mask holds; ragged where the mask has rows."""
    with name_scope(name, "RaggedMask", [getattr(data, "flat_values", data)]):
        if not isinstance(mask, RaggedTensor):
            mask = convert_to_tensor(mask)
            if mask.shape.ndims == 1:
                return gather(data, apply_op("Reshape", apply_op("Where", mask), [-1]))
            mask = RaggedTensor.from_tensor(mask, ragged_rank=mask.shape.ndims - 1)
        if not isinstance(data, RaggedTensor):
            data = RaggedTensor.from_tensor(data, ragged_rank=mask.ragged_rank)
        if mask.ragged_rank > 1:
            return data.with_values(boolean_mask(data.values, mask.values))
        held = apply_op("Cast", mask.values, DstT=data.row_splits.dtype.base)
        sums = apply_op("Pad", apply_op("Cumsum", held, 0), [[1, 0]])
        splits = apply_op("GatherV2", sums, mask.row_splits, 0)
        chosen = apply_op("Reshape", apply_op("Where", mask.values), [-1])
        return RaggedTensor(gather(data.values, chosen), splits)


def _rows_after_rows(parts: Sequence[RaggedTensor]) -> RaggedTensor:
    inner = [each.values for each in parts]
    values: Any
    if isinstance(inner[0], RaggedTensor):
        values = _rows_after_rows(inner)
    else:
        values = apply_op("ConcatV2", inner, 0)
    dtype = parts[0].row_splits.dtype.base
    lengths = apply_op(
        "ConcatV2", [apply_op("Cast", each.row_lengths(), DstT=dtype) for each in parts], 0
    )
    return RaggedTensor(values, rows.splits_of_lengths(lengths))


def _as_ragged(value: Any, like: RaggedTensor) -> RaggedTensor:
    if isinstance(value, RaggedTensor):
        return value
    return RaggedTensor.from_tensor(
        value, ragged_rank=like.ragged_rank, row_splits_dtype=like.row_splits.dtype.base
    )


def _as(places: Any, ragged: RaggedTensor) -> Tensor:
    return output_of("Cast", places, DstT=ragged.row_splits.dtype.base)


def _below(count: Tensor) -> Tensor:
    dtype = count.dtype.base
    return output_of("Range", convert_to_tensor(0, dtype), count, convert_to_tensor(1, dtype))
