"""Converts arguments of `predict` to the arrays that are fed to the graph.

Strings become bytes (UTF-8), lists and sparse matrices the three arrays of a SparseTensor.
"""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkflow.export.signature import DENSE, RAGGED, Input, Signature
from sparkflow_runtime.errors import InvalidArgumentError

Array = npt.NDArray[Any]

_DATES: Final = ("D", "W", "M", "Y")
"""Units of numpy's times that are dates."""
_FINE: Final = ("ns", "ps", "fs", "as")
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def feed_arrays(signature: Signature, given: Any) -> tuple[list[Array], int]:
    """The arrays of `signature.feeds`, and the number of rows.

    Args:
        signature: Of the model.
        given: The value of the only input, or a dictionary of values. Dense: [batch, *shape], or
            [batch, n] with the elements of a row one after the other. Sparse: a SparseTensorValue,
            a matrix of scipy.sparse, or an array [batch, n]. Ragged: a list of lists, or a
            SparseTensorValue.

    Raises:
        InvalidArgumentError: An input is missing or unknown, or a value does not fit it; the text
            has the shape that is wanted and the one that was given.
    """
    arrays: list[Array] = []
    rows: dict[str, int] = {}
    for each, value in zip(signature.inputs, _values(signature, given), strict=True):
        parts = _dense(each, value) if each.kind == DENSE else _sparse(each, value)
        rows[each.name] = len(parts[0]) if each.kind == DENSE else int(parts[2][0])
        arrays += parts
    if len(set(rows.values())) > 1:
        text = ", ".join(f"{name!r}: {count}" for name, count in rows.items())
        raise InvalidArgumentError(message=f"The inputs have different numbers of rows: {text}")
    return arrays, next(iter(rows.values()))


def cut_rows(signature: Signature, given: Any, start: int, stop: int) -> Any:
    """Rows of what `feed_arrays` takes, where they can be cut; None where they cannot."""
    values = _values(signature, given)
    if not all(isinstance(value, np.ndarray | list) or hasattr(value, "tocsr") for value in values):
        return None
    cut = [(value.tocsr() if hasattr(value, "tocsr") else value)[start:stop] for value in values]
    if not signature.named:
        return cut[0]
    return {each.name: value for each, value in zip(signature.inputs, cut, strict=True)}


def _values(signature: Signature, given: Any) -> list[Any]:
    names = [each.name for each in signature.inputs]
    if not isinstance(given, Mapping):
        if signature.named:
            raise InvalidArgumentError(
                message=f"The model takes a dictionary of {_quoted(names)}, got "
                f"{type(given).__name__}"
            )
        return [given]
    missing = [name for name in names if name not in given]
    unknown = [str(name) for name in given if name not in names]
    if missing or unknown:
        problems = [f"lacks {_quoted(missing)}"] * bool(missing)
        problems += [f"has {_quoted(unknown)}, which it does not know"] * bool(unknown)
        raise InvalidArgumentError(
            message=f"The model takes a dictionary of {_quoted(names)}; what was given "
            + " and ".join(problems)
        )
    return [given[name] for name in names]


def _dense(each: Input, value: Any) -> list[Array]:
    array = _typed(each, value)
    shape = array.shape
    if shape[1:] != each.shape:
        # Rows may come flat, and one number per row with a dimension of its own or without.
        flat = int(np.prod(each.shape))
        if not shape or (shape[1:] != (flat,) and not (flat == 1 and len(shape) == 1)):
            raise InvalidArgumentError(
                message=f"The model takes {_called(each)} of shape "
                f"{_batch_shape(each.shape)}, got {shape}"
            )
        array = array.reshape(shape[0], *each.shape)
    return [array]


def _sparse(each: Input, value: Any) -> list[Array]:
    if hasattr(value, "tocoo"):  # scipy.sparse
        matrix = value.tocsr().tocoo()  # by rows
        parts = [np.stack([matrix.row, matrix.col], axis=1), matrix.data, matrix.shape]
    elif isinstance(value, tuple) and len(value) == 3:
        parts = list(value)
    elif each.kind == RAGGED:
        parts = _joined_lists(each, value)
    else:
        dense = _typed(each, value)
        if dense.ndim != 2:
            raise InvalidArgumentError(
                message=f"The model takes {_called(each)} of shape {_batch_shape(each.shape)}, "
                f"got {dense.shape}"
            )
        indices = np.argwhere(dense)
        parts = [indices, dense[tuple(indices.T)], dense.shape]
    try:
        indices = exact(parts[0], "int64").reshape(-1, 2)
        shape = exact(parts[2], "int64")
    except ValueError as error:
        raise InvalidArgumentError(
            message=f"Indices and dense shape of {_called(each)} must be int64: {error}"
        ) from error
    values = _typed(each, parts[1])
    if shape.shape != (2,) or values.shape != (len(indices),):
        raise InvalidArgumentError(
            message=f"{_called(each)} must be a SparseTensorValue of rank 2, got {len(indices)} "
            f"indices, values of shape {values.shape} and the dense shape {shape.tolist()}"
        )
    if each.shape and shape[1] != each.shape[0]:
        raise InvalidArgumentError(
            message=f"The model takes {_called(each)} of shape {_batch_shape(each.shape)}, got "
            f"{tuple(shape.tolist())}"
        )
    return [indices, values, shape]


def _joined_lists(each: Input, rows: Any) -> list[Any]:
    if isinstance(rows, str | bytes) or not isinstance(rows, Sequence | np.ndarray):
        raise InvalidArgumentError(
            message=f"{_called(each)} must be a list with a list per row, got {rows!r}"
        )
    for row in rows:
        if isinstance(row, str | bytes) or not isinstance(row, Sequence | np.ndarray):
            raise InvalidArgumentError(
                message=f"{_called(each)} must have a list per row, got the row {row!r}"
            )
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    values = [value for row in rows for value in row]
    return [ragged_indices(lengths), values, [len(rows), int(lengths.max(initial=0))]]


def ragged_indices(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The indices, [n, 2], of lists of these lengths, one per row."""
    rows = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    starts = np.cumsum(lengths) - lengths
    columns = np.arange(len(rows), dtype=np.int64) - np.repeat(starts, lengths)
    return np.stack([rows, columns], axis=1)


def _typed(each: Input, value: Any) -> Array:
    try:
        if each.dtype != "string":
            return exact(value, each.dtype)
        array = np.array(value, object)
        flat = [_bytes(item) for item in array.reshape(-1).tolist()]
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            message=f"{_called(each)} must be {each.dtype}: {error}"
        ) from error
    encoded = np.empty(len(flat), object)
    encoded[:] = flat
    return encoded.reshape(array.shape)


def exact(value: Any, dtype: str) -> Array:
    """Numbers as an array of a dtype; integers are what was given, or are refused.

    Dates are days and times microseconds since 1970, as in Spark; what is missing is NaN.

    Raises:
        ValueError: The dtype is one of integers and has no such value (1.5, NaN, 2**40 as int32);
            or the values are durations.
    """
    given = np.asarray(value)
    if given.dtype.kind in "Mm":
        given = _since_1970(given)
    elif given.dtype.kind == "O" and any(isinstance(each, datetime.date) for each in given.flat):
        counts = [_count(each) for each in given.flat]
        given = np.array(counts, object).reshape(given.shape)
    with np.errstate(invalid="ignore"):  # of NaN and infinity, which are refused below
        array = np.ascontiguousarray(given, dtype).reshape(given.shape)
    if array.dtype.kind not in "iu" or given.dtype == array.dtype:
        return array
    if given.dtype.kind == "O":
        pairs = zip(given.flat, array.ravel().tolist(), strict=True)
        wrong = np.array(
            [isinstance(old, numbers.Number) and old != new for old, new in pairs], bool
        ).reshape(given.shape)
    elif given.dtype.kind in "fciu":
        # 2**63 becomes 2**63 - 1 on some processors, which as a float is 2**63 again.
        limit = float(np.iinfo(array.dtype).max) + 1 if given.dtype.kind == "f" else np.inf
        wrong = (array != given) | ~(given < limit)
    else:
        return array
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(f"{given.item(at)} would become {array.item(at)}")
    return array


def _since_1970(times: Array) -> Array:
    """Returns days or microseconds: integers, or floats with NaNs if some are missing."""
    if times.dtype.kind == "m":
        raise ValueError(f"{times.dtype} is a duration: divide it, as by np.timedelta64(1, 's')")
    unit = np.datetime_data(times.dtype)[0]
    converted = times.astype("datetime64[D]" if unit in _DATES else "datetime64[us]")
    missing = np.isnat(times)
    if unit not in _FINE:  # such as seconds, whose microseconds may be beyond int64
        missing |= converted.astype(times.dtype) != times
    counts = converted.astype(np.int64)
    return np.where(missing, np.nan, counts) if missing.any() else counts


def _count(value: Any) -> Any:
    """Returns the same for one of Python's or pandas' times; other values are unchanged."""
    if not isinstance(value, datetime.date):
        return value
    if value != value:  # pandas' NaT
        return None
    if not isinstance(value, datetime.datetime):
        return value.toordinal() - _EPOCH.toordinal()
    at = value if value.tzinfo is not None else value.replace(tzinfo=datetime.timezone.utc)
    return (at - _EPOCH) // datetime.timedelta(microseconds=1)


def _bytes(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, bytes):
        return item
    raise TypeError(f"a string is needed, got {item!r}")


def _called(each: Input) -> str:
    return each.name if each.name == "features" else f"the input {each.name!r}"


def _batch_shape(shape: Sequence[int]) -> str:
    return f"({', '.join(['batch', *map(str, shape)])}{'' if shape else ','})"


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
