"""How rows are written: as splits, lengths, starts, limits or the number of each value's row."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op, convert_to_tensor, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import as_dtype, int32, int64


def splits_of_lengths(lengths: Any) -> Tensor:
    """[rows + 1], from [rows]."""
    lengths = index(lengths)
    return output_of("Pad", apply_op("Cumsum", lengths, 0), [[1, 0]])


def lengths_of_ids(ids: Any, rows: Any, dtype: Any) -> Tensor:
    """[rows], how many values have each number."""
    ones = apply_op("Cast", apply_op("OnesLike", ids), DstT=dtype)
    return output_of("UnsortedSegmentSum", ones, ids, rows)


def row_splits_to_segment_ids(splits: Any, name: str | None = None, out_type: Any = None) -> Tensor:
    """The number of the row of each value: [values], from [rows + 1].

    Args:
        splits: int32 or int64, sorted, the first 0.
        name: Accepted.
        out_type: The dtype of the result; that of `splits` when None.

    Raises:
        ValueError: They are no integers.
    """
    splits = index(splits)
    places = apply_op("Range", _like(0, splits), splits[-1], _like(1, splits))
    wide = splits.dtype.base
    found = apply_op(
        "UpperBound",
        apply_op("ExpandDims", splits[1:], 0),
        apply_op("ExpandDims", places, 0),
        out_type=wide,
    )
    ids: Tensor = apply_op("Squeeze", found, squeeze_dims=[0])
    return ids if out_type is None else apply_op("Cast", ids, DstT=as_dtype(out_type))


def segment_ids_to_row_splits(
    segment_ids: Any, num_segments: Any = None, out_type: Any = None, name: str | None = None
) -> Tensor:
    """Where the rows begin and end: [rows + 1], from the number of the row of each value.

    Args:
        segment_ids: [values] sorted integers.
        num_segments: How many rows; the last number plus one when None.
        out_type: The dtype of the result; that of `segment_ids` when None.
        name: Accepted.
    """
    ids = index(segment_ids)
    dtype = ids.dtype.base if out_type is None else as_dtype(out_type)
    if num_segments is None:
        last = apply_op(
            "Max", apply_op("ConcatV2", [ids, apply_op("Cast", [-1], DstT=ids.dtype.base)], 0), [0]
        )
        num_segments = last + _like(1, last)
    return splits_of_lengths(lengths_of_ids(ids, num_segments, dtype))


def positions(starts: Tensor, lengths: Tensor) -> Tensor:
    """`starts[i], starts[i] + 1, ...` for `lengths[i]` numbers, row after row."""
    splits = splits_of_lengths(lengths)
    rows = row_splits_to_segment_ids(splits)
    places = apply_op("Range", _like(0, splits), splits[-1], _like(1, splits))
    found: Tensor = apply_op("GatherV2", starts - splits[:-1], rows, 0) + places
    return found


def index(value: Any) -> Tensor:
    """`value` as an int32 or int64 tensor; Python's numbers as int64.

    Raises:
        ValueError: It is of another dtype.
    """
    tensor = value if isinstance(value, Tensor) else convert_to_tensor(value, dtype_hint=int64)
    if tensor.dtype.base not in (int32, int64):
        raise ValueError(f"Row splits and their like must be int32 or int64, got {tensor!r}")
    return tensor


def _like(number: int, tensor: Tensor) -> Any:
    return convert_to_tensor(number, tensor.dtype.base)
