"""Rows as sets of numbers: sizes, intersections, differences, unions; edit distances of rows.

A set consists of the elements along the last dimension of a dense or a sparse tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from sparkflow_runtime.dtypes import int8, int16, int32, int64, string, uint8, uint16
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, string_attr, type_attr
from sparkflow_runtime.ops.sparse.sparse_layout import check_parts
from sparkflow_runtime.ops.sparse.sparse_positions import (
    are_new,
    ascending,
    checked_positions,
    coordinates,
)
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Shape

_T = type_attr(frozenset({int8, int16, int32, int64, uint8, uint16, string}))
_HOST: dict[str, None] = {"CPU": None}


class _Elements(NamedTuple):
    """The elements of some sets.

    Attributes:
        sets: [n] int64, the number of the set of each.
        values: [n].
    """

    sets: Array
    values: Array


def _of_sparse(indices: Array, values: Array, shape: Array) -> _Elements:
    check_parts(indices, values, shape)
    lead = range(max(len(shape) - 1, 0))
    return _Elements(checked_positions(indices, shape.tolist(), lead).numbers, values)


def _of_dense(array: Array) -> _Elements:
    count = math.prod(array.shape[:-1])
    return _Elements(np.repeat(np.arange(count), array.shape[-1]), array.reshape(-1))


class _Keys:
    """Numbers for a set, a value, and the part that has it: 0 or 1; in this order.

    Attributes:
        ordered: Those that there are, ascending, each once.

    Args:
        parts: One or two parts of the elements.
    """

    def __init__(self, *parts: _Elements) -> None:
        sets, values = (np.concatenate(each) for each in zip(*parts, strict=True))
        self._dtype = values.dtype
        self._sets: Array | None = None
        self._values: Array | None = None
        low = span = 0
        if values.dtype.kind in "iu" and len(values):
            low = int(values.min())
            span = int(values.max()) - low + 1
        if not span or 2 * span * (int(sets.max(initial=0)) + 1) > np.iinfo(np.int64).max:
            self._sets, sets = np.unique(sets, return_inverse=True)
            self._values, values = _numbered(values)
            low, span = 0, max(len(self._values), 1)
        self._low, self._span = low, span
        keys = (sets * span + (values.astype(np.int64, copy=False) - low)) * 2
        keys[len(parts[0].sets) :] += 1
        keys = keys[ascending(keys)]
        self.ordered = keys[are_new(keys)]

    def elements(self, keys: Array) -> _Elements:
        """The sets and the values of keys, divided by 2."""
        sets, values = np.divmod(keys, self._span)
        if self._sets is not None and self._values is not None:
            return _Elements(self._sets[sets], self._values[values])
        return _Elements(sets, (values + self._low).astype(self._dtype))


def _numbered(values: Array) -> tuple[Array, Array]:
    """The distinct values in order, and the number there of each value."""
    if not values.dtype.hasobject:
        return np.unique(values, return_inverse=True)
    given = values.tolist()
    distinct = np.empty(len(set(given)), values.dtype)
    distinct[:] = sorted(set(given))
    number = {value: at for at, value in enumerate(distinct)}
    return distinct, np.array([number[each] for each in given], np.int64)


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
        keys = _Keys(_of_sparse(indices, values, shape))
        sizes = [int(size) for size in shape[:-1]]
        result = np.zeros(math.prod(sizes), np.int32)
        np.add.at(result, keys.elements(keys.ordered >> 1).sets, np.int32(1))
        return result.reshape(sizes)


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
        self, a: _Elements, b: _Elements, lead: Sequence[int], operation: str
    ) -> tuple[Array, Array, Array]:
        """(indices, values, shape).

        Raises:
            InvalidArgumentError: The operation is unknown.
        """
        if operation.lower() not in _OPERATIONS:
            raise InvalidArgumentError(message=f"Invalid set_operation {operation}.")
        keys = _Keys(a, b)
        sets, values = keys.elements(_combined(keys.ordered, operation.lower()))
        starts = np.flatnonzero(are_new(sets))
        counts = np.empty_like(starts)
        np.subtract(starts[1:], starts[:-1], out=counts[:-1])
        counts[-1:] = len(sets) - starts[-1:]
        indices = np.empty((len(sets), len(lead) + 1), np.int64)
        indices[:, :-1] = coordinates(sets, lead)
        indices[:, -1] = np.arange(len(sets)) - starts.repeat(counts)
        shape = np.array([*lead, counts.max(initial=0)], np.int64)
        return indices, values, shape


_OPERATIONS: Final = frozenset({"a-b", "b-a", "intersection", "union"})
_PARTS = ("_indices", "_values", "_shape")


def _combined(ordered: Array, operation: str) -> Array:
    """Combines the ordered keys of two parts; returns the keys of the result, divided by 2."""
    keys = ordered >> 1
    is_kept = are_new(keys)
    if operation == "intersection":
        return keys[~is_kept]
    if operation != "union":
        is_kept[:-1] &= is_kept[1:]
        is_kept &= (ordered & 1) == (operation == "b-a")
    return keys[is_kept]


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
        return self.combined(_of_dense(set1), _of_dense(set2), lead, set_operation)


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
        sparse = _of_sparse(indices, values, shape)
        return self.combined(_of_dense(set1), sparse, lead, set_operation)


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
        return self.combined(_of_sparse(*parts[:3]), _of_sparse(*parts[3:]), lead, set_operation)


def _sparse_rows(indices: Array, values: Array) -> dict[tuple[int, ...], list[Any]]:
    rows: dict[tuple[int, ...], list[Any]] = {}
    for place, value in zip(indices.tolist(), values.tolist(), strict=True):
        rows.setdefault(tuple(place[:-1]), []).append(value)
    return rows


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
