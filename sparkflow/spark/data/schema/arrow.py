"""From the Arrow arrays that Spark sends to the arrays that a model is fed. Knows no Spark.

What needs no change is not copied: float32 elements of arrays and vectors without nulls are fed
from where Spark's bytes arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkflow.export import DENSE, SPARSE, Input
from sparkflow.export.values import ragged_indices
from sparkflow_runtime.errors import InvalidArgumentError

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

SCALARS, VECTOR, ARRAY = "scalars", "vector", "array"
_SHOWN_LENGTHS: Final = 5


@dataclass(frozen=True, slots=True)
class InputColumns:
    """How one input is sent.

    Attributes:
        input: The input.
        form: `scalars`: an array per column; `vector`: three arrays, the fields `values`, `indices`
            and `size` of Spark ML's vectors; `array`: one array of lists.
        columns: The names of the columns, for error texts.
    """

    input: Input
    form: str
    columns: tuple[str, ...]

    @property
    def width(self) -> int:
        """How many Arrow arrays are sent."""
        return {SCALARS: len(self.columns), VECTOR: 3, ARRAY: 1}[self.form]

    def describe(self) -> str:
        """The columns as error texts name them."""
        shown = ", ".join(map(repr, self.columns[:3]))
        return shown + (f" and {len(self.columns) - 3} more" if len(self.columns) > 3 else "")


@dataclass(frozen=True, slots=True)
class Decoded:
    """One input of a batch.

    Attributes:
        arrays: What is fed: one array, or the three of a SparseTensor.
        invalid: Which rows held nulls or NaNs, [rows]; None where none did. There is a value in
            their place.
    """

    arrays: list[Array]
    invalid: Mask | None


def decode(columns: InputColumns, arrays: Sequence[Any], fill: float) -> Decoded:
    """The arrays of one input.

    Args:
        columns: The input and its form.
        arrays: `columns.width` Arrow arrays of the same length.
        fill: What takes the place of nulls and NaNs; texts become empty.

    Raises:
        InvalidArgumentError: Rows have another number of elements than the model takes.
    """
    if columns.form == SCALARS:
        return _scalars(columns, arrays, fill)
    if columns.form == VECTOR:
        if columns.input.kind == SPARSE:
            return _sparse_vectors(columns, arrays, fill)
        return _dense_vectors(columns, arrays, fill)
    if columns.input.kind == DENSE:
        return _dense_lists(columns, arrays[0], fill)
    if columns.input.kind == SPARSE:
        return _sparse_of_dense(columns, arrays[0], fill)
    return _lists(columns.input, arrays[0], fill)


def _scalars(columns: InputColumns, arrays: Sequence[Any], fill: float) -> Decoded:
    given = columns.input
    rows = len(arrays[0])
    shape = (rows, *given.shape)
    if len(arrays) == 1:
        values, invalid = _elements(given, arrays[0], fill)
        return Decoded([values.reshape(shape)], invalid)
    if given.dtype != "string" and not any(array.null_count for array in arrays):
        return _wide(arrays, np.dtype(given.dtype), shape, fill)
    found = [_elements(given, array, fill) for array in arrays]
    joined = np.empty((rows, len(found)), found[0][0].dtype)
    for index, (values, _) in enumerate(found):
        joined[:, index] = values
    return Decoded([joined.reshape(shape)], _any([mask for _, mask in found]))


def _wide(
    arrays: Sequence[Any], dtype: np.dtype[Any], shape: tuple[int, ...], fill: float
) -> Decoded:
    """Columns of numbers without nulls: with hundreds of them, what is done for each one counts."""
    joined = np.empty((shape[0], len(arrays)), dtype)
    for index, array in enumerate(arrays):
        joined[:, index] = array.to_numpy(zero_copy_only=False)
    nans = _nans(joined.reshape(-1))
    if nans is None:
        return Decoded([joined.reshape(shape)], None)
    by_row = nans.reshape(joined.shape)
    joined[by_row] = fill
    return Decoded([joined.reshape(shape)], np.any(by_row, axis=1))


def _dense_lists(columns: InputColumns, array: Any, fill: float) -> Decoded:
    given = columns.input
    rows, size = len(array), _size(given)
    valid = None
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        array = array.drop_null()
    array = _flattened(columns, array, size)
    values, mask = _elements(given, array, fill)
    return _placed(given, values, mask, valid, rows, size, fill)


def _flattened(columns: InputColumns, array: Any, size: int) -> Any:
    """The elements of all rows, which have `size` each; lists may be inside of lists."""
    if pa.types.is_list(array.type.value_type):
        inner = array.flatten()
        if inner.null_count:
            raise InvalidArgumentError(
                message=f"The column {columns.describe()} has null in place of an array inside of "
                f"an array {inner.null_count} times; only whole rows and elements may be null"
            )
        counts = _lengths(array)
        width = int(counts[0]) if len(counts) else 1
        _require_lengths(columns, counts, width)
        return _flattened(columns, inner, max(size // max(width, 1), 1))
    _require_lengths(columns, _lengths(array), size)
    return array.flatten()


def _require_lengths(columns: InputColumns, lengths: Array, size: int) -> None:
    wrong = lengths[lengths != size]
    if len(wrong):
        found = np.unique(wrong)
        shown = ", ".join(map(str, found[:_SHOWN_LENGTHS].tolist()))
        more = ", ..." if len(found) > _SHOWN_LENGTHS else ""
        raise InvalidArgumentError(
            message=f"The model takes {size} elements per row for {columns.input.name!r}, but "
            f"{len(wrong)} of {len(lengths)} rows of a batch have another number in the column "
            f"{columns.describe()}: {shown}{more}"
        )


def _dense_vectors(columns: InputColumns, arrays: Sequence[Any], fill: float) -> Decoded:
    values, indices, sizes = arrays
    if indices.null_count == len(indices):
        return _dense_lists(columns, values, fill)
    given = columns.input
    rows, size = len(values), _size(given)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    counts = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    places = pc.list_value_length(indices)
    is_sparse = places.is_valid().to_numpy(zero_copy_only=False)
    asked = np.where(is_sparse, sizes.fill_null(0).to_numpy(zero_copy_only=False), counts)
    _require_lengths(columns, asked[valid], size)
    elements, mask = _elements(given, values.flatten(), fill)
    full = np.zeros((rows, size), elements.dtype)
    of_element = np.repeat(np.arange(rows), counts)
    starts = np.cumsum(counts) - counts
    column = np.arange(len(elements)) - np.repeat(starts, counts)
    column[is_sparse[of_element]] = indices.flatten().to_numpy(zero_copy_only=False)
    full[of_element, column] = elements
    full[~valid] = fill
    invalid = None if valid.all() else ~valid
    if mask is not None:
        invalid = np.zeros(rows, bool) if invalid is None else invalid
        invalid[of_element[mask]] = True
    return Decoded([full.reshape(rows, *given.shape)], invalid)


def _sparse_vectors(columns: InputColumns, arrays: Sequence[Any], fill: float) -> Decoded:
    values, indices, sizes = arrays
    (width,) = columns.input.shape
    rows = len(values)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    is_sparse = indices.is_valid().to_numpy(zero_copy_only=False)
    counts = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    asked = np.where(is_sparse, sizes.fill_null(0).to_numpy(zero_copy_only=False), counts)
    _require_lengths(columns, asked[valid], width)
    elements, mask = _elements(columns.input, values.flatten(), fill)
    places = ragged_indices(counts.astype(np.int64))
    places[is_sparse[places[:, 0]], 1] = indices.flatten().to_numpy(zero_copy_only=False)
    invalid = None if valid.all() else ~valid
    if mask is not None:
        invalid = np.zeros(rows, bool) if invalid is None else invalid
        invalid[places[mask, 0]] = True
    return Decoded([places, elements, np.array([rows, width], np.int64)], invalid)


def _sparse_of_dense(columns: InputColumns, array: Any, fill: float) -> Decoded:
    dense = _dense_lists(columns, array, fill)
    (full,) = dense.arrays
    places = np.argwhere(full)
    shape = np.array(full.shape, np.int64)
    return Decoded([places, full[tuple(places.T)], shape], dense.invalid)


def _lists(given: Input, array: Any, fill: float) -> Decoded:
    counts = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    elements, mask = _elements(given, array.flatten(), fill)
    places = ragged_indices(counts.astype(np.int64))
    shape = np.array([len(array), counts.max(initial=0)], np.int64)
    invalid = None
    if array.null_count:
        invalid = array.is_null().to_numpy(zero_copy_only=False)
    if mask is not None:
        invalid = np.zeros(len(array), bool) if invalid is None else invalid.copy()
        invalid[places[mask, 0]] = True
    return Decoded([places, elements, shape], invalid)


def _placed(
    given: Input,
    values: Array,
    mask: Mask | None,
    valid: Mask | None,
    rows: int,
    size: int,
    fill: float,
) -> Decoded:
    """The elements of the valid rows as those of all rows."""
    invalid: Mask | None = None
    if mask is not None:
        invalid = np.any(mask.reshape(-1, size), axis=1)
    if valid is None:
        return Decoded([values.reshape(rows, *given.shape)], invalid)
    blank = b"" if given.dtype == "string" else fill
    full = np.full((rows, size), blank, values.dtype)
    full[valid] = values.reshape(-1, size)
    all_invalid: Mask = ~valid
    if invalid is not None:
        all_invalid[valid] = invalid
    return Decoded([full.reshape(rows, *given.shape)], all_invalid)


def _elements(given: Input, array: Any, fill: float) -> tuple[Array, Mask | None]:
    """Single values with nulls and NaNs replaced, and which they were; None if there were none."""
    if given.dtype == "string":
        mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        encoded = array.cast(pa.binary())
        if mask is not None:
            encoded = encoded.fill_null(b"")
        return encoded.to_numpy(zero_copy_only=False), mask
    mask = None
    if array.null_count:
        mask = array.is_null().to_numpy(zero_copy_only=False)
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    values = array.to_numpy(zero_copy_only=False).astype(given.dtype, copy=False)
    nans = _nans(values)
    if nans is not None:
        mask = nans if mask is None else mask | nans
    if mask is not None:
        values = np.where(mask, np.asarray(fill).astype(values.dtype), values)
    return values, mask


def _nans(values: Array) -> Mask | None:
    """Which values are NaN; None if none is."""
    if values.dtype.kind != "f":
        return None
    # The sum of squares is the fastest way to see whether there may be one; then look closely.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.dot(values, values)):
            return None
    found = np.isnan(values)
    return found if found.any() else None


def _lengths(array: Any) -> Array:
    return np.diff(array.offsets.to_numpy())


def _any(masks: Sequence[Mask | None]) -> Mask | None:
    found: Mask | None = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found | mask
    return found


def _size(given: Input) -> int:
    size = 1
    for length in given.shape:
        size *= length
    return size
