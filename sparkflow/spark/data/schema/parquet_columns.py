"""From columns as Parquet files store them to the columns of a `RowFormat`, without the JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkflow.spark.data.schema.conversion import all_finite
from sparkflow.spark.data.schema.row_format import DENSE, RAGGED, SPARSE, Input
from sparkflow_runtime.errors import InvalidArgumentError

Array = npt.NDArray[Any]
_SPARSE_VECTOR, _DENSE_VECTOR = 0, 1
"""The field `type` of Spark ML's vectors."""


@dataclass(frozen=True, slots=True)
class ParquetColumn:
    """What one input is made of.

    Attributes:
        input: The input.
        columns: The columns: one, or several scalar ones in their order.
        form: `scalar`, `scalars`, `vector` (as Spark ML stores it) or `array`.
        is_feature: Whether nulls in it may be filled.
    """

    input: Input
    columns: tuple[str, ...]
    form: str
    is_feature: bool = True

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ParquetColumn:
        """Reads what `to_json` wrote."""
        given = value["input"]
        wanted = Input(given["name"], given["kind"], given["dtype"], tuple(given["shape"]))
        return cls(wanted, tuple(value["columns"]), value["form"], value["is_feature"])


@dataclass(frozen=True, slots=True)
class Made:
    """An input of some rows.

    Attributes:
        array: Of the input's column type, or one that `conversion` makes it of.
        invalid: [rows] bool: rows with nulls, NaNs or infinities; None where there are none.
    """

    array: pa.Array
    invalid: Array | None


def make_input(table: pa.Table, column: ParquetColumn, fill: float | None) -> Made:
    """The input of all rows of a table.

    Args:
        table: Has the columns; of one chunk each.
        column: What to make.
        fill: What takes the place of nulls and the like in features; None leaves them there and
            marks their rows.

    Raises:
        InvalidArgumentError: A row has another number of elements than the first ones of the files.
    """
    parts = [_one(table.column(name)) for name in column.columns]
    wanted = column.input
    if column.form == "vector":
        return _vectors(parts[0], wanted)
    if column.form == "array":
        return _arrays(parts[0], wanted, fill)
    made = [_values(part, wanted, fill) for part in parts]
    invalid = _any([each.invalid for each in made])
    if wanted.shape == ():
        return Made(made[0].array, invalid)
    if wanted.dtype == "string":
        columns = [each.array for each in made]
        order = np.arange(len(columns) * table.num_rows).reshape(len(columns), -1).T.ravel()
        values = pa.concat_arrays(columns).take(pa.array(order))
    else:
        stacked = np.empty((table.num_rows, len(made)), wanted.dtype)
        for index, each in enumerate(made):
            stacked[:, index] = each.array.to_numpy(zero_copy_only=False)
        values = pa.array(stacked.ravel())
    return Made(pa.FixedSizeListArray.from_arrays(values, type=wanted.column_type), invalid)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _values(array: pa.Array, wanted: Input, fill: float | None) -> Made:
    """Numbers or texts, of the input's type."""
    kind = {"float32": pa.float32(), "int64": pa.int64(), "string": pa.string()}[wanted.dtype]
    if array.type != kind:
        array = array.cast(kind, safe=False)
    invalid: Array | None = None
    if array.null_count:
        invalid = array.is_null().to_numpy(zero_copy_only=False)
    if wanted.dtype == "float32":
        found = array.to_numpy(zero_copy_only=False)  # nulls become NaN
        if not all_finite(found):
            invalid = ~np.isfinite(found)
    if invalid is None or fill is None:
        return Made(array, invalid)
    if wanted.dtype == "float32":
        return Made(pa.array(np.where(invalid, np.float32(fill), found)), None)
    value = str(fill) if wanted.dtype == "string" else int(fill)
    return Made(pc.fill_null(array, pa.scalar(value, kind)), None)


def _arrays(array: pa.Array, wanted: Input, fill: float | None) -> Made:
    """Lists, or lists of lists, of fixed shapes or ragged."""
    rows = len(array)
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if missing is not None:
        array = _without_nulls(array)
    level = array
    lengths = np.ones(rows, np.int64)
    ends: Array = np.arange(rows + 1)
    while not pa.types.is_primitive(level.type) and not _is_text(level.type):
        if pa.types.is_fixed_size_list(level.type):
            offsets: Array = np.arange(len(level) + 1) * level.type.list_size
        else:
            offsets = level.offsets.to_numpy()
            offsets = offsets - offsets[0]
        ends = offsets[ends]
        level = level.flatten()
    lengths = np.diff(ends)
    made = _values(level, wanted, fill)
    invalid = missing
    if made.invalid is not None:
        counts = np.add.reduceat(np.append(made.invalid, False), ends[:-1]) * (lengths > 0)
        invalid = _any([missing, counts > 0])
    if wanted.kind == RAGGED:
        return Made(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), made.array), invalid)
    wrong = lengths != wanted.size
    if missing is not None:
        wrong &= ~missing
    if wrong.any():
        raise InvalidArgumentError(
            message=f"{int(wrong.sum())} of {rows} rows have another number of elements in "
            f"{wanted.name!r} than {wanted.size}, for instance {int(lengths[wrong][0])}"
        )
    if missing is not None and missing.any():
        values = np.zeros((rows, wanted.size), wanted.dtype if wanted.dtype != "string" else object)
        values[~missing] = made.array.to_numpy(zero_copy_only=False).reshape(-1, wanted.size)
        flat = pa.array(values.ravel(), wanted.column_type.value_type)
        return Made(pa.FixedSizeListArray.from_arrays(flat, type=wanted.column_type), invalid)
    return Made(pa.FixedSizeListArray.from_arrays(made.array, type=wanted.column_type), invalid)


def _without_nulls(array: pa.Array) -> pa.Array:
    """The same lists, with empty ones for those that are missing."""
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    empty = pa.array([[]], array.type)
    rows = np.where(
        array.is_null().to_numpy(zero_copy_only=False), len(array), np.arange(len(array))
    )
    return pa.concat_arrays([array, empty]).take(pa.array(rows))


def _vectors(array: pa.Array, wanted: Input) -> Made:
    """Spark ML's vectors: structs of type, size, indices and values."""
    rows = len(array)
    invalid = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    kinds = pc.fill_null(pc.struct_field(array, "type"), _SPARSE_VECTOR).to_numpy()
    sizes = pc.fill_null(pc.struct_field(array, "size"), wanted.size).to_numpy()
    indices = _without_nulls(pc.struct_field(array, "indices"))
    values = _without_nulls(pc.struct_field(array, "values"))
    numbers = values.flatten().cast(pa.float32(), safe=False)
    lengths = pc.list_value_length(values).to_numpy()
    found = numbers.to_numpy(zero_copy_only=False)
    owner = np.repeat(np.arange(rows), lengths)
    if not all_finite(found):
        marked = np.zeros(rows, bool)
        marked[owner[~np.isfinite(found)]] = True
        invalid = _any([invalid, marked])
    is_dense = kinds == _DENSE_VECTOR
    wrong = np.where(is_dense, lengths, sizes) != wanted.shape[0]
    if wanted.kind == DENSE:
        wrong = np.where(is_dense, lengths, sizes) != wanted.size
    if invalid is not None:
        wrong &= ~invalid
    if wrong.any():
        raise InvalidArgumentError(
            message=f"{int(wrong.sum())} of {rows} vectors in {wanted.name!r} have another size "
            f"than {wanted.size}"
        )
    if wanted.kind == DENSE and is_dense.all():
        return Made(pa.FixedSizeListArray.from_arrays(numbers, type=wanted.column_type), invalid)
    places = np.arange(len(found)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    places[~is_dense[owner]] = indices.flatten().to_numpy()
    if wanted.kind == SPARSE:
        ends = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
        lists = [
            pa.ListArray.from_arrays(ends, pa.array(places, pa.int32())),
            pa.ListArray.from_arrays(ends, numbers),
        ]
        return Made(pa.StructArray.from_arrays(lists, fields=list(wanted.column_type)), invalid)
    filled = np.zeros((rows, wanted.size), np.float32)
    filled[owner, places] = found
    flat = pa.array(filled.ravel())
    return Made(pa.FixedSizeListArray.from_arrays(flat, type=wanted.column_type), invalid)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _any(masks: Sequence[Array | None]) -> Array | None:
    found = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(found) if found else None
