"""Arrow columns as arrays: the only module that knows Arrow's memory layout.

Callers decide what nulls, NaNs and lists of different lengths mean: for `tf.data`, `column_array`
rejects nulls; the rules for Spark rows are in `sparkflow.spark.data.schema`. Arrays without nulls
whose type matches are not copied. `pyarrow.compute`, a fifth of a process's start-up time, and
pandas, which Arrow's `to_numpy` imports if it is installed, another fifth, are loaded only for
columns that need them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

# Type ids: asking `pa.types` is slower, which matters with hundreds of columns.
_DICTIONARY: Final = pa.dictionary(pa.int32(), pa.int32()).id
_FLOATS: Final = frozenset(kind.id for kind in (pa.float32(), pa.float64()))
_BEYOND: Final = 2.0**63
"""The smallest positive number that int64 cannot hold."""
_YEAR_2: Final = -718_797
_YEAR_9999: Final = 2_932_531
"""Days from 1970 to the first days of these years."""
_SIGNED: Final = frozenset(kind.id for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()))
_DTYPES: Final = {
    pa.from_numpy_dtype(np.dtype(f"{kind}{bits}")).id: np.dtype(f"{kind}{bits}")
    for kind, sizes in {
        "int": (8, 16, 32, 64),
        "uint": (8, 16, 32, 64),
        "float": (16, 32, 64),
    }.items()
    for bits in sizes
}
"""By type id, for types with the same values in numpy and Arrow."""


@dataclass(frozen=True, slots=True)
class Lists:
    """A column of lists.

    Attributes:
        lengths: [rows] length of each list; 0 for nulls.
        missing: [rows] which lists are null; None if none is.
        elements: An Arrow array of the elements of all non-null lists.
    """

    lengths: Array
    missing: Mask | None
    elements: Any


def whole(column: Any) -> Any:
    """Returns a column as one Arrow array of plain values: chunks joined, dictionaries decoded."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if column.type.id == _DICTIONARY:
        column = column.dictionary_decode()
    return column


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists, of variable or fixed length."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def missing_in(array: Any) -> Mask | None:
    """Returns [n], which values are null; None if none is."""
    if not array.null_count:
        return None
    found: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return found


def _values(array: Any) -> Array:
    """Like `to_numpy`: [n], but does not call it for plain numbers without nulls, see above."""
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks != 1:
            return np.asarray(array.to_numpy())
        array = array.chunk(0)
    dtype = _DTYPES.get(array.type.id)
    if dtype is None or array.null_count or not len(array):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def present_in(array: Any) -> Mask:
    """Returns [n], which values are not null."""
    missing = missing_in(array)
    return np.ones(len(array), bool) if missing is None else ~missing


def plain_types(dtype: np.dtype[Any]) -> frozenset[int]:
    """Returns the ids of types whose null-free arrays can be copied into arrays of the dtype."""
    return _SIGNED | _FLOATS if dtype.kind == "f" else _SIGNED


def plain_numbers(column: Any) -> Array:
    """Returns [n], the numbers of a column of one of the `plain_types` without nulls."""
    return _values(column)


def plain(array: Any, *, as_whole: bool = False) -> Any:
    """Converts dates, timestamps and decimals to numbers; other columns are unchanged.

    Dates become days, timestamps microseconds since 1970 in UTC, which is also assumed for those
    without a zone; fractions are rounded down. Decimals become the nearest float64, or int64.

    Args:
        array: The column.
        as_whole: Whether decimals become int64, truncated.

    Returns:
        The numbers; null also if int64 cannot hold them.
    """
    kind = array.type
    if pa.types.is_date(kind):
        return array.cast(pa.date32()).view(pa.int32())
    if pa.types.is_timestamp(kind):
        return _microseconds(array, kind.unit)
    if pa.types.is_decimal(kind):
        return _whole_decimals(array) if as_whole else array.cast(pa.float64())
    return array


def _microseconds(array: Any, unit: str) -> Any:
    counts = array.view(pa.int64())
    if unit == "us":
        return counts
    values = _values(counts.fill_null(0) if counts.null_count else counts)
    faults = np.zeros(len(values), bool)
    if unit == "ns":
        values = values // 1000
    else:
        factor = {"s": 1_000_000, "ms": 1000}[unit]
        faults = np.abs(values.astype(np.float64)) * factor >= _BEYOND
        values = np.where(faults, 0, values) * factor
    missing = missing_in(array)
    return pa.array(values, mask=faults if missing is None else faults | missing)


def _whole_decimals(array: Any) -> Any:
    """Converts decimals to int64, null if out of range."""
    cut = array.cast(pa.decimal128(38, 0), safe=False)
    if not len(cut):
        return pa.array([], pa.int64())
    # Two 64-bit words: the upper one is only the sign if the lower one is sufficient.
    words = np.frombuffer(cut.buffers()[1], "<i8").reshape(-1, 2)
    low, high = words[cut.offset : cut.offset + len(cut)].T
    faults = high != low >> 63
    missing = missing_in(cut)
    return pa.array(low, mask=faults if missing is None else faults | missing)


def numbers(array: Any) -> Array:
    """Returns [n] numbers or booleans, `plain`, of their own type; 0 or False for nulls."""
    array = plain(array)
    if array.null_count:
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    return _values(array)


def floats(array: Any) -> npt.NDArray[np.float64]:
    """Returns [n] numbers or booleans, `plain`, as float64; NaN for nulls."""
    found = numbers(array).astype(np.float64, copy=False)
    missing = missing_in(plain(array))
    return found if missing is None else np.where(missing, np.nan, found)


def texts(array: Any) -> Array:
    """Returns [n] objects: strings or bytes as bytes, as in string tensors; nulls become empty."""
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    encoded = array.cast(pa.large_binary() if is_large else pa.binary())
    if encoded.null_count:
        encoded = encoded.fill_null(b"")
    found: Array = encoded.to_numpy(zero_copy_only=False)
    return found


def text_column(strings: Array) -> Any:
    """Returns [n] bytes as a column of text, which need not be valid UTF-8: see `texts`."""
    given = pa.array(strings, pa.large_binary())
    return pa.Array.from_buffers(pa.large_string(), len(given), given.buffers())


def lists(array: Any) -> Lists:
    """Splits a column of lists into its parts."""
    missing = missing_in(array)
    if pa.types.is_fixed_size_list(array.type):
        lengths: Array = np.full(len(array), array.type.list_size, np.int64)
    else:
        lengths = np.diff(_values(array.offsets))
    if missing is not None:
        lengths = np.where(missing, 0, lengths)
    return Lists(lengths, missing, elements_of(array))


def elements_of(array: Any) -> Any:
    """Returns an Arrow array of the elements of all non-null lists."""
    return whole(array.flatten())


def offsets_of(array: Any) -> Array:
    """Returns [rows + 1], the offset of each list in the elements; there are no nulls."""
    offsets = _values(array.offsets)
    return offsets - offsets[0] if offsets[0] else offsets


def field(array: Any, name: str) -> Any:
    """Returns a field of a struct column; null where the struct is."""
    if not array.null_count:
        return whole(array.field(name))
    position = array.type.get_field_index(name)
    return whole(array.flatten()[position])


def as_python_has_them(times: Any) -> Any:
    """Converts dates and timestamps to Python's, which have no nanoseconds and years 2 to 9998."""
    kind = times.type
    if pa.types.is_timestamp(kind):
        times, kind = plain(whole(times)), pa.timestamp("us", kind.tz)
    elif pa.types.is_date(kind):
        times, kind = plain(whole(times)), pa.date32()
    else:
        return times
    day = 1 if pa.types.is_date(kind) else 86_400_000_000
    missing = missing_in(times)
    kept = np.clip(numbers(times), _YEAR_2 * day, _YEAR_9999 * day)
    return pa.array(kept, mask=missing).view(kind)


def as_objects(column: Any) -> list[Any]:
    """Returns Python values, None for nulls: for messages and small samples."""
    found: list[Any] = column.to_pylist()
    return found


def as_pandas(structs: Any) -> dict[str, Any]:
    """Returns the fields of a struct column as pandas objects, by name."""
    names = [each.name for each in structs.type]
    return dict(zip(names, (part.to_pandas() for part in structs.flatten()), strict=True))


def column_array(column: Any, name: str, dtype: DType) -> Array:
    """Returns a column as `tf.data` has it: [rows], or [rows, n] for lists of n values.

    Raises:
        InvalidArgumentError: It has nulls, lists of different lengths, or the wrong type.
    """
    array = whole(column)
    if array.null_count:
        raise InvalidArgumentError(
            message=f"Column {name!r} has {array.null_count} nulls, which tensors cannot hold; "
            "fill or drop them"
        )
    if is_list(array.type):
        found = lists(array)
        rows, lengths = len(array), found.lengths
        width = int(lengths[0]) if rows else 0
        if (lengths != width).any():
            raise InvalidArgumentError(
                message=f"Column {name!r} has lists of {lengths.min()} to {lengths.max()} values; "
                "a tensor needs one length"
            )
        return column_array(found.elements, name, dtype).reshape(rows, width)
    if dtype is dtypes.string:
        return texts(array)
    values = numbers(array)
    if values.dtype != dtype.as_numpy_dtype:
        raise InvalidArgumentError(
            message=f"Column {name!r} is {values.dtype}, the dataset was made for {dtype.name}"
        )
    return values
