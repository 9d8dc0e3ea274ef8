"""`RaggedTensorValue`: a ragged tensor as arrays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np


class RaggedTensorValue:
    """The fetched or fed value of a `RaggedTensor`.

    Args:
        values: The rows one after another: an array, or a value with rows of its own.
        row_splits: [rows + 1] int32 or int64, where each row begins, and the end of the last.

    Raises:
        TypeError: They are no arrays, or the splits are no integers.
    """

    __slots__ = ("_row_splits", "_values")

    def __init__(self, values: Any, row_splits: Any) -> None:
        if not isinstance(row_splits, np.ndarray) or row_splits.dtype not in (np.int64, np.int32):
            raise TypeError("row_splits must be a 1D int32 or int64 numpy array")
        if not isinstance(values, np.ndarray | np.generic | RaggedTensorValue):
            raise TypeError("values must be a numpy array or a RaggedTensorValue")
        self._values = values
        self._row_splits = row_splits

    @property
    def values(self) -> Any:
        """The rows one after another."""
        return self._values

    @property
    def row_splits(self) -> Any:
        """Where each row begins, and the end of the last."""
        return self._row_splits

    @property
    def flat_values(self) -> Any:
        """The innermost values, an array."""
        values = self._values
        return values.flat_values if isinstance(values, RaggedTensorValue) else values

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """The splits, outermost first."""
        if isinstance(self._values, RaggedTensorValue):
            return (self._row_splits, *self._values.nested_row_splits)
        return (self._row_splits,)

    @property
    def ragged_rank(self) -> int:
        """How many dimensions have rows of different lengths."""
        return len(self.nested_row_splits)

    @property
    def dtype(self) -> Any:
        """The numpy dtype of the values."""
        return self._values.dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes, None where rows differ."""
        return (len(self._row_splits) - 1, None, *self._values.shape[1:])

    def to_list(self) -> list[Any]:
        """The rows as nested lists."""
        values = self._values
        if isinstance(values, RaggedTensorValue | np.ndarray):
            rows = values.to_list() if isinstance(values, RaggedTensorValue) else values.tolist()
        splits = self._row_splits.tolist()
        return [rows[start:end] for start, end in pairwise(splits)]

    def __repr__(self) -> str:
        return f"tf.RaggedTensorValue(values={self._values!r}, row_splits={self._row_splits!r})"

    def __str__(self) -> str:
        return f"<tf.RaggedTensorValue {self.to_list()}>"


def nested_value(flat_values: Any, nested_row_splits: Any) -> Any:
    """A value of these splits, outermost first; the array itself where there are none."""
    value = flat_values
    for splits in reversed(nested_row_splits):
        value = RaggedTensorValue(value, splits)
    return value
