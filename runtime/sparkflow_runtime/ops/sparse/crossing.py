"""Categories of numbers: buckets between boundaries, and crosses of the features of an example."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.dtypes import DType, float32, float64, int32, int64, string
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import same_as, sizes
from sparkflow_runtime.ops.op import Array, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, list_attr, type_attr
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.ops.strings.string_arrays import array_of
from sparkflow_runtime.ops.strings.string_hash import fingerprint64

_MASK: Final = (1 << 64) - 1
_FACTOR: Final = 0xC6A4A7935BD1E995
_LARGEST: Final = (1 << 63) - 1
_CROSSED: Final = frozenset({int64, string})
Features = Callable[[int], Sequence[Any]]


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
        return xp.searchsorted(limits, values, side="right").astype(np.int32)


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
        columns = [_sparse_feature(*each) for each in zip(indices, values, shapes, strict=True)] + [
            _dense_feature(each) for each in dense_inputs
        ]
        counts = {int(shape[0]) for shape in shapes} | {len(each) for each in dense_inputs}
        if len(counts) > 1:
            raise InvalidArgumentError(
                message=f"Expected batch size equal in all features, got {sorted(counts)}"
            )
        rows = counts.pop() if counts else 0
        if hashed_output:
            combine: Callable[[Sequence[Any]], Any] = _Hashes(num_buckets, hash_key)
        else:
            combine = b"_X_".join
        places: list[tuple[int, int]] = []
        found: list[Any] = []
        longest = 0
        for row in range(rows):
            features = [
                [_text(each) if not hashed_output else _number(each) for each in column(row)]
                for column in columns
            ]
            crosses = [combine(each) for each in itertools.product(*features)]
            longest = max(longest, len(crosses))
            places += [(row, at) for at in range(len(crosses))]
            found += crosses
        result = np.array(found, np.int64) if hashed_output else array_of(found, (len(found),))
        where = np.array(places, np.int64).reshape(-1, 2)
        return where, result, np.array([rows, longest], np.int64)


def _sparse_feature(indices: Array, values: Array, shape: Array) -> Features:
    if np.ndim(indices) != 2 or len(shape) != 2:
        raise InvalidArgumentError(
            message=f"Input indices should be a matrix of pairs but received shape "
            f"{bracketed(np.shape(indices))}"
        )
    by_row: dict[int, list[Any]] = {}
    for row, value in zip(indices[:, 0].tolist(), values.tolist(), strict=True):
        by_row.setdefault(row, []).append(value)
    return lambda row: by_row.get(row, [])


def _dense_feature(array: Array) -> Features:
    if np.ndim(array) != 2:
        raise InvalidArgumentError(
            message=f"Dense inputs should be a matrix but received shape "
            f"{bracketed(np.shape(array))}"
        )
    rows = array.tolist()
    return lambda row: rows[row]


def _text(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _number(value: Any) -> int:
    return fingerprint64(value) if isinstance(value, bytes) else value & _MASK


class _Hashes:
    """The bucket of a cross of numbers: their fingerprints, one joined to the next."""

    def __init__(self, buckets: int, key: int) -> None:
        self._buckets = buckets or _LARGEST
        self._key = key & _MASK

    def __call__(self, parts: Sequence[int]) -> int:
        result = self._key
        for part in parts:
            result ^= _FACTOR
            result ^= _mixed(part * _FACTOR & _MASK) * _FACTOR & _MASK
            result = result * _FACTOR & _MASK
            result = _mixed(_mixed(result) * _FACTOR & _MASK)
        return result % self._buckets


def _mixed(value: int) -> int:
    return value ^ value >> 47
