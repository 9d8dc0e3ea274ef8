"""`rt[...]`: rows, slices of rows, and parts of what is in them."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op, convert_to_tensor, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ragged.registered import of_ragged
from sparkflow.ragged.taking import expand_dims, gather
from sparkflow.ragged.tensor import RaggedTensor


@of_ragged
def sliced(ragged: RaggedTensor, key: Any) -> Any:
    """The part that Python's brackets mean.

    Raises:
        ValueError: A single place of a dimension with rows of different lengths, or steps there.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    if Ellipsis in [each for each in keys if each is Ellipsis]:
        place = next(n for n, each in enumerate(keys) if each is Ellipsis)
        missing = (ragged.shape.ndims or 0) - sum(each is not None for each in keys) + 1
        keys[place : place + 1] = [slice(None)] * missing
    return _at(ragged, keys)


def _at(value: Any, keys: list[Any]) -> Any:
    if not keys:
        return value
    if not isinstance(value, RaggedTensor):
        return value[tuple(keys)]
    first, rest = keys[0], keys[1:]
    if first is None:
        return expand_dims(_at(value, rest), 0)
    if isinstance(first, slice):
        if first != slice(None):
            places = apply_op("Range", 0, apply_op("Cast", value.nrows(), DstT="int32"), 1)[first]
            value = gather(value, places)
        return _inside(value, rest)
    start, end = value.row_splits[:-1][first], value.row_splits[1:][first]
    return _at(value.values[start:end], rest)


def _inside(value: RaggedTensor, keys: list[Any]) -> Any:
    """The same part of every row."""
    if not keys:
        return value
    first, rest = keys[0], keys[1:]
    if first is None:
        return expand_dims(_inside(value, rest), 1)
    if not isinstance(first, slice):
        raise ValueError("Cannot index into an inner ragged dimension.")
    if first.step not in (None, 1):
        raise ValueError("Rows of different lengths are sliced without a step")
    if first.start is not None or first.stop is not None:
        lengths = value.row_lengths()
        begin = _bound(first.start, lengths, 0)
        end = _bound(first.stop, lengths, lengths)
        kept = apply_op("Maximum", end - begin, apply_op("ZerosLike", begin))
        value = value._cut(value.row_starts() + begin, kept)
    if not rest:
        return value
    if isinstance(value.values, RaggedTensor):
        return value.with_values(_inside(value.values, rest))
    return value.with_values(value.values[(slice(None), *rest)])


def _bound(given: Any, lengths: Tensor, default: Any) -> Tensor:
    zeros = apply_op("ZerosLike", lengths)
    if given is None:
        found: Tensor = zeros + default
        return found
    bound = apply_op("Cast", convert_to_tensor(given), DstT=lengths.dtype.base)
    bound = zeros + bound
    if not isinstance(given, Tensor) and given < 0:
        bound = lengths + bound
    return output_of("Minimum", apply_op("Maximum", bound, zeros), lengths)
