"""Categories of numbers: buckets between boundaries, and crosses of the features of an example."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from sparkflow_runtime.codegen.rows.insertion_points import insertion_points
from sparkflow_runtime.codegen.strings.hashing import Hash, hashed
from sparkflow_runtime.dtypes import DType, float32, float64, int32, int64, string
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import same_as, sizes
from sparkflow_runtime.ops.op import Array, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, list_attr, type_attr
from sparkflow_runtime.ops.sparse.sparse_layout import check_lengths
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.ops.strings.string_arrays import array_of, flat_strings

_MASK: Final = (1 << 64) - 1
_FACTOR: Final = np.uint64(0xC6A4A7935BD1E995)
_LARGEST: Final = (1 << 63) - 1
_CROSSED: Final = frozenset({int64, string})


@register
class Bucketize(Op):
    """The number of boundaries that each value has reached."""

    inputs = "input: T"
    outputs = "output: int32"
    attrs = {
        "T": type_attr(frozenset({int32, int64, float32, float64})),
        "boundaries": list_attr("float"),
    }
    gradient = not_differentiable
    infer = same_as(0)

    def compute(self, xp: Any, values: Array, *, boundaries: Sequence[float]) -> Array:
        """In [0, boundaries].

        Raises:
            InvalidArgumentError: The boundaries are not in order.
        """
        if any(low > high for low, high in itertools.pairwise(boundaries)):
            raise InvalidArgumentError(
                message=f"Expected sorted boundaries, but got {list(boundaries)}"
            )
        limits = xp.asarray(np.asarray(boundaries, np.float32))
        search = insertion_points if xp is np else xp.searchsorted
        return search(limits, values, side="right").astype(np.int32, copy=False)


@register
class SparseCross(Op):
    """All combinations of one value per feature, for each row: as texts or as hashes.

    Sparse features come before dense ones; the last one varies fastest.
    """

    inputs = (
        "indices: N * int64, values: sparse_types, shapes: N * int64, dense_inputs: dense_types"
    )
    outputs = "output_indices: int64, output_values: out_type, output_shape: int64"
    attrs = {
        "N": int_attr(minimum=0),
        "hashed_output": bool_attr(),
        "num_buckets": int_attr(minimum=0),
        "hash_key": int_attr(),
        "sparse_types": list_attr("type", minimum=0),
        "dense_types": list_attr("type", minimum=0),
        "out_type": type_attr(_CROSSED),
        "internal_type": type_attr(_CROSSED),
    }
    kernels = {"CPU": None}
    gradient = not_differentiable
    infer = sizes((None, 2), (None,), (2,))

    def compute(
        self,
        xp: Any,
        *inputs: Array,
        N: int,
        sparse_types: Sequence[DType],
        hashed_output: bool,
        num_buckets: int,
        hash_key: int,
    ) -> tuple[Array, Array, Array]:
        """Places and values of the crosses, `[rows, most crosses in a row]`.

        Raises:
            InvalidArgumentError: A feature is no matrix, or their rows differ in number.
        """
        texts = len(sparse_types)
        indices, values = inputs[:N], inputs[N : N + texts]
        shapes, dense_inputs = inputs[N + texts : N + texts + N], inputs[N + texts + N :]
        sparse = list(zip(indices, values, shapes, strict=True))
        for each in sparse:
            _check_sparse(*each)
        for each in dense_inputs:
            _check_dense(each)
        counts = {int(shape[0]) for shape in shapes} | {len(each) for each in dense_inputs}
        if len(counts) > 1:
            raise InvalidArgumentError(
                message=f"Expected batch size equal in all features, got {sorted(counts)}"
            )
        rows = counts.pop() if counts else 0
        features = [_of_sparse(index[:, 0], each, rows) for index, each, _ in sparse]
        features += [_of_dense(each) for each in dense_inputs]
        where, places = _combinations([each.counts for each in features], rows)
        if hashed_output:
            numbers = [_numbers(each.values)[at] for each, at in zip(features, places, strict=True)]
            result = _hashes(numbers, len(where), num_buckets, hash_key)
        else:
            found = [_texts(each.values)[at] for each, at in zip(features, places, strict=True)]
            result = array_of(map(b"_X_".join, zip(*found, strict=True)), (len(where),))
        longest = where[:, 1].max(initial=-1) + 1
        return where, result, np.array([rows, longest], np.int64)


class _Feature(NamedTuple):
    """A feature of all rows.

    Attributes:
        values: The values of each row, one row after the other.
        counts: How many there are in each row.
    """

    values: Array
    counts: Array


def _check_sparse(indices: Array, values: Array, shape: Array) -> None:
    if np.ndim(indices) != 2 or len(shape) != 2:
        raise InvalidArgumentError(
            message=f"Input indices should be a matrix of pairs but received shape "
            f"{bracketed(np.shape(indices))}"
        )
    check_lengths(indices, values)


def _check_dense(array: Array) -> None:
    if np.ndim(array) != 2:
        raise InvalidArgumentError(
            message=f"Dense inputs should be a matrix but received shape "
            f"{bracketed(np.shape(array))}"
        )


def _of_sparse(row: Array, values: Array, rows: int) -> _Feature:
    if len(row) == rows and np.array_equal(row, np.arange(rows)):
        return _Feature(values, np.ones(rows, np.int64))
    inside = (row >= 0) & (row < rows)
    if not inside.all():
        row, values = row[inside], values[inside]
    if (row[1:] < row[:-1]).any():
        order = np.argsort(row, kind="stable")
        row, values = row[order], values[order]
    return _Feature(values, np.bincount(row, minlength=rows))


def _of_dense(array: Array) -> _Feature:
    rows, width = np.shape(array)
    return _Feature(array.ravel(), np.full(rows, width))


def _combinations(counts: Sequence[Array], rows: int) -> tuple[Array, list[Array]]:
    """Combines the values of each row in all ways; those of the last feature vary fastest.

    Args:
        counts: The number of values of each row, for each feature.
        rows: The number of rows.

    Returns:
        The row of each combination and its number there, `[combinations, 2]`; and for each feature
        the places of its values in them.
    """
    if all((each == 1).all() for each in counts):
        where = np.zeros((rows, 2), np.int64)
        where[:, 0] = np.arange(rows)
        return where, [where[:, 0]] * len(counts)
    products = functools.reduce(np.multiply, counts, np.ones(rows, np.int64))
    row = np.repeat(np.arange(rows), products)
    number = np.arange(len(row)) - (np.cumsum(products) - products)[row]
    places: list[Array] = []
    left = number
    for each in reversed(counts):
        left, digit = np.divmod(left, each[row])
        places.append((np.cumsum(each) - each)[row] + digit)
    return np.stack([row, number], axis=1), places[::-1]


def _texts(values: Array) -> Array:
    if values.dtype == np.object_:
        return values
    return array_of((str(each).encode() for each in values.tolist()), np.shape(values))


def _numbers(values: Array) -> Array:
    if values.dtype != np.object_:
        return values.astype(np.int64, copy=False).view(np.uint64)
    return hashed(Hash.FARM, flat_strings(values))


def _hashes(parts: Sequence[Array], size: int, buckets: int, key: int) -> Array:
    """Returns the buckets of crosses of numbers: their fingerprints, one joined to the next."""
    result = np.full(size, key & _MASK, np.uint64)
    for part in parts:
        result ^= _FACTOR
        result ^= _mixed(part * _FACTOR) * _FACTOR
        result *= _FACTOR
        result = _mixed(_mixed(result) * _FACTOR)
    return (result % np.uint64(buckets or _LARGEST)).view(np.int64)


def _mixed(values: Array) -> Array:
    return values ^ values >> np.uint64(47)
