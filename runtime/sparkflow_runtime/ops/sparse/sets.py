"""Rows as sets of numbers: sizes, intersections, differences, unions; edit distances of rows.

A set consists of the elements along the last dimension of a dense or a sparse tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import int8, int16, int32, int64, string, uint8, uint16
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, string_attr, type_attr
from sparkflow_runtime.ops.sparse.sparse_layout import check_parts
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Shape

_T = type_attr(frozenset({int8, int16, int32, int64, uint8, uint16, string}))
_HOST: dict[str, None] = {"CPU": None}
_Rows = Mapping[tuple[int, ...], list[Any]]


def _sparse_rows(indices: Array, values: Array) -> dict[tuple[int, ...], list[Any]]:
    rows: dict[tuple[int, ...], list[Any]] = {}
    for place, value in zip(indices.tolist(), values.tolist(), strict=True):
        rows.setdefault(tuple(place[:-1]), []).append(value)
    return rows


def _dense_rows(array: Array) -> dict[tuple[int, ...], list[Any]]:
    return {place: array[place].tolist() for place in np.ndindex(*array.shape[:-1])}


@register
class SetSize(Op):
    """The number of distinct elements in each row of a sparse tensor."""

    inputs = "set_indices: int64, set_values: T, set_shape: int64"
    outputs = "size: int32"
    attrs = {"validate_indices": bool_attr(True), "T": _T}
    kernels = _HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """All dimensions but the last; at run time not even the rank is known.

        As in TensorFlow, where a metric's weights are therefore checked at run time.
        """
        node.with_rank(2, 1, "set_shape")
        value = node.value(2)
        return [None if value is None else tuple(int(size) for size in value[:-1])]

    def compute(self, xp: Any, indices: Array, values: Array, shape: Array) -> Array:
        """The sizes."""
        check_parts(indices, values, shape)
        result = np.zeros([int(size) for size in shape[:-1]], np.int32)
        for place, items in _sparse_rows(indices, values).items():
            result[place] = len(set(items))
        return result


class _SetOperation(Op):
    """Combines the sets of two tensors row by row; elements of the result are sorted."""

    outputs = "result_indices: int64, result_values: T, result_shape: int64"
    attrs = {"set_operation": string_attr(), "validate_indices": bool_attr(True), "T": _T}
    kernels = _HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Unknown numbers of elements."""
        ranks = [
            len(shape) if arg.name.startswith("set") and not arg.name.endswith(_PARTS) else None
            for arg, shape in zip(self.signature.inputs, node.shapes, strict=True)
            if shape is not None
        ]
        rank = next((each for each in ranks if each is not None), None)
        return [(None, rank), (None,), (rank,)]

    def combined(
        self, a: _Rows, b: _Rows, lead: Sequence[int], dtype: Any, operation: str
    ) -> tuple[Array, Array, Array]:
        """(indices, values, shape).

        Raises:
            InvalidArgumentError: The operation is unknown.
        """
        combine = _OPERATIONS.get(operation.lower())
        if combine is None:
            raise InvalidArgumentError(message=f"Invalid set_operation {operation}.")
        indices: list[tuple[int, ...]] = []
        values: list[Any] = []
        longest = 0
        for place in sorted(a.keys() | b.keys()):
            found = sorted(combine(set(a.get(place, ())), set(b.get(place, ()))))
            indices += [(*place, column) for column in range(len(found))]
            values += found
            longest = max(longest, len(found))
        result = np.empty(len(values), dtype)
        result[:] = values
        shape = np.array([*lead, longest], np.int64)
        return np.array(indices, np.int64).reshape(-1, len(lead) + 1), result, shape


_PARTS = ("_indices", "_values", "_shape")
_OPERATIONS = {
    "a-b": set.difference,
    "b-a": lambda a, b: b - a,
    "intersection": set.intersection,
    "union": set.union,
}


def _same_lead(a: Sequence[int], b: Sequence[int]) -> list[int]:
    first, second = list(a[:-1]), list(b[:-1])
    if first != second:
        raise InvalidArgumentError(
            message=f"Mismatched group shapes {bracketed(first)} and {bracketed(second)}"
        )
    return first


@register
class DenseToDenseSetOperation(_SetOperation):
    """Sets in two dense tensors."""

    inputs = "set1: T, set2: T"

    def compute(
        self, xp: Any, set1: Array, set2: Array, *, set_operation: str
    ) -> tuple[Array, Array, Array]:
        """(indices, values, shape)."""
        lead = _same_lead(set1.shape, set2.shape)
        rows = _dense_rows(set1), _dense_rows(set2)
        return self.combined(*rows, lead, set1.dtype, set_operation)


@register
class DenseToSparseSetOperation(_SetOperation):
    """Sets in a dense and in a sparse tensor."""

    inputs = "set1: T, set2_indices: int64, set2_values: T, set2_shape: int64"

    def compute(
        self,
        xp: Any,
        set1: Array,
        indices: Array,
        values: Array,
        shape: Array,
        *,
        set_operation: str,
    ) -> tuple[Array, Array, Array]:
        """(indices, values, shape)."""
        check_parts(indices, values, shape)
        lead = _same_lead(set1.shape, shape.tolist())
        rows = _dense_rows(set1), _sparse_rows(indices, values)
        return self.combined(*rows, lead, set1.dtype, set_operation)


@register
class SparseToSparseSetOperation(_SetOperation):
    """Sets in two sparse tensors."""

    inputs = (
        "set1_indices: int64, set1_values: T, set1_shape: int64, "
        "set2_indices: int64, set2_values: T, set2_shape: int64"
    )

    def compute(self, xp: Any, *parts: Array, set_operation: str) -> tuple[Array, Array, Array]:
        """(indices, values, shape)."""
        check_parts(*parts[:3])
        check_parts(*parts[3:])
        lead = _same_lead(parts[2].tolist(), parts[5].tolist())
        rows = _sparse_rows(*parts[:2]), _sparse_rows(*parts[3:5])
        return self.combined(*rows, lead, parts[1].dtype, set_operation)


@register
class EditDistance(Op):
    """The Levenshtein distances between the rows of two sparse tensors."""

    inputs = (
        "hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape: int64, "
        "truth_indices: int64, truth_values: T, truth_shape: int64"
    )
    outputs = "output: float32"
    attrs = {"normalize": bool_attr(True), "T": type_attr()}
    kernels = _HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """All dimensions but the last, the maximum of both."""
        first, second = node.value(2), node.value(5)
        if first is not None and second is not None and len(first) == len(second):
            return [tuple(np.maximum(first, second)[:-1].tolist())]
        rank = node.with_rank(2, 1, "hypothesis_shape")[0]
        return [None if rank is None else (None,) * (rank - 1)]

    def compute(self, xp: Any, *parts: Array, normalize: bool) -> Array:
        """The distances, divided by the length of the truth if `normalize`.

        Raises:
            InvalidArgumentError: The ranks differ.
        """
        check_parts(*parts[:3])
        check_parts(*parts[3:])
        if len(parts[2]) != len(parts[5]):
            raise InvalidArgumentError(
                message=f"hypothesis_shape and truth_shape must have the same rank, got "
                f"{bracketed(parts[2])} and {bracketed(parts[5])}"
            )
        guesses, truths = _sparse_rows(*parts[:2]), _sparse_rows(*parts[3:5])
        shape = np.maximum(parts[2], parts[5])[:-1]
        result = np.zeros([int(size) for size in shape], np.float32)
        for place in guesses.keys() | truths.keys():
            guess, truth = guesses.get(place, []), truths.get(place, [])
            distance = float(_distance(guess, truth))
            if normalize:
                distance = distance / len(truth) if truth else (np.inf if guess else 0.0)
            result[place] = distance
        return result


def _distance(a: list[Any], b: list[Any]) -> int:
    before = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y)))
        before = row
    return before[-1]
