"""The rules by which Arrow's columns become inputs, as used by `transform`."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkflow.export import Input
from sparkflow.spark.data.schema.row_schema import (
    ARRAY,
    NANS,
    SCALARS,
    VECTOR_PARTS,
    InputColumns,
    RowSchema,
)
from sparkflow_runtime.errors import InvalidArgumentError

NAN = float("nan")


def _columns(kind: str, dtype: str, shape: tuple[int, ...], form: str, *names: str) -> InputColumns:
    return InputColumns(Input("in", kind, dtype, shape, ("x:0",)), form, names or ("col",))


@dataclass
class Decoded:
    arrays: list[Any]
    invalid: Any


def decode(columns: InputColumns, arrays: list[Any], fill: float) -> Decoded:
    """As with `handleInvalid` fill, but also returns what was filled."""
    (filled,) = RowSchema((columns,), NANS, fill).decode(arrays)
    (found,) = RowSchema((columns,), NANS).decode(arrays)
    assert filled.invalid is None
    return Decoded(filled.components(), found.invalid)


def _vectors(*rows: Any) -> list[pa.Array]:
    """Spark ML's vectors as `unwrap_udt` gives them: a list is dense, (size, {..}) sparse."""
    values, indices, sizes = [], [], []
    for row in rows:
        is_sparse = isinstance(row, tuple)
        values.append(list(row[1].values()) if is_sparse else row)
        indices.append(list(row[1]) if is_sparse else None)
        sizes.append(row[0] if is_sparse else None)
    return [
        pa.array(values, pa.list_(pa.float64())),
        pa.array(indices, pa.list_(pa.int32())),
        pa.array(sizes, pa.int32()),
    ]


def _dense(arrays: list[np.ndarray]) -> list[Any]:
    """The values of a SparseTensor, as lists."""
    indices, values, shape = arrays
    full = np.zeros(shape, values.dtype)
    full[tuple(indices.T)] = values
    assert indices.tolist() == sorted(indices.tolist())
    return full.tolist()


def test_columns_of_numbers_are_put_side_by_side() -> None:
    columns = _columns("dense", "float32", (3,), SCALARS, "a", "b", "c")
    arrays = [pa.array([1, 2], pa.int32()), pa.array([True, None]), pa.array([0.5, NAN])]
    found = decode(columns, arrays, 7.0)
    assert found.arrays[0].dtype == np.float32
    assert found.arrays[0].tolist() == [[1, 1, 0.5], [2, 7, 7]]
    assert found.invalid is not None
    assert found.invalid.tolist() == [False, True]


def test_a_column_of_whole_numbers() -> None:
    given = [pa.array([2**53 + 1, None])]
    found = decode(_columns("dense", "int64", (), SCALARS), given, 5.0)
    assert found.arrays[0].tolist() == [2**53 + 1, 5]
    assert found.invalid is not None
    assert found.invalid.tolist() == [False, True]


def test_texts_are_bytes() -> None:
    given = [pa.array(["ä", None, "b"])]
    found = decode(_columns("dense", "string", (1,), SCALARS), given, 0.0)
    assert found.arrays[0].tolist() == [["ä".encode()], [b""], [b"b"]]
    assert found.invalid is not None
    assert found.invalid.tolist() == [False, True, False]


def test_lists_are_not_copied() -> None:
    flat = pa.array(np.arange(6, dtype=np.float32))
    given = pa.ListArray.from_arrays(pa.array([0, 2, 4, 6], pa.int32()), flat)
    found = decode(_columns("dense", "float32", (2,), ARRAY), [given], 0.0)
    assert np.shares_memory(found.arrays[0], flat.to_numpy())
    assert found.invalid is None
    later = decode(_columns("dense", "float32", (2, 1), ARRAY), [given.slice(1)], 0.0)
    assert later.arrays[0].tolist() == [[[2], [3]], [[4], [5]]]


def test_great_numbers_are_valid() -> None:
    given = pa.array([[3e38, float("inf")]], pa.list_(pa.float32()))
    found = decode(_columns("dense", "float32", (2,), ARRAY), [given], 0.0)
    assert found.invalid is None


def test_arrays_of_arrays() -> None:
    rows = [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]
    given = pa.array([*rows, None], pa.list_(pa.list_(pa.float64())))
    columns = _columns("dense", "float32", (3, 2), ARRAY)
    found = decode(columns, [given], 0.0)
    assert found.arrays[0].tolist() == [*rows, [[0, 0]] * 3]
    assert found.invalid is not None
    assert found.invalid.tolist() == [False, False, True]
    for wrong in ([[[1, 2], [3, 4]]], [[[1], [2], [3]]], [[[1, 2], [3], [4, 5, 6]]]):
        with pytest.raises(InvalidArgumentError, match=r"takes .* elements per .* for 'in'"):
            decode(columns, [pa.array(wrong, pa.list_(pa.list_(pa.float64())))], 0.0)
    within = pa.array([rows[0], [[1, 2], None, [5, 6]]], pa.list_(pa.list_(pa.float64())))
    found = decode(columns, [within], 9.0)
    assert found.arrays[0].tolist() == [rows[0], [[9, 9]] * 3]
    assert found.invalid.tolist() == [False, True]


def test_vectors_become_rows() -> None:
    columns = _columns("dense", "float32", (3,), VECTOR_PARTS)
    all_dense = decode(columns, _vectors([1, 2, 3], [4, 5, 6]), 0.0)
    assert all_dense.arrays[0].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert all_dense.invalid is None
    mixed = decode(
        columns, _vectors([1, 2, 3], (3, {2: 5.0}), None, (3, {}), (3, {0: NAN, 1: 1.0})), 9.0
    )
    assert mixed.arrays[0].tolist() == [[1, 2, 3], [0, 0, 5], [9, 9, 9], [0, 0, 0], [9, 1, 0]]
    assert mixed.invalid is not None
    assert mixed.invalid.tolist() == [False, False, True, False, True]
    for wrong in ([1, 2], (4, {3: 1.0})):
        with pytest.raises(InvalidArgumentError, match="takes 3 elements per row for 'in', but 1"):
            decode(columns, _vectors([1, 2, 3], wrong, (3, {})), 0.0)


def test_vectors_stay_sparse() -> None:
    columns = _columns("sparse", "float32", (3,), VECTOR_PARTS)
    found = decode(columns, _vectors((3, {2: 5.0}), [1, 0, 3], None, (3, {0: NAN}), (3, {})), 7.0)
    assert _dense(found.arrays) == [[0, 0, 5], [1, 0, 3], [0, 0, 0], [7, 0, 0], [0, 0, 0]]
    assert found.invalid is not None
    assert found.invalid.tolist() == [False, False, True, True, False]
    with pytest.raises(InvalidArgumentError, match=r"1 of 1 rows of a batch .* different .*: 4"):
        decode(columns, _vectors((4, {2: 5.0})), 0.0)
    lists = decode(
        _columns("sparse", "float32", (2,), ARRAY), [pa.array([[0.0, 1.0], [2.0, 0.0]])], 0.0
    )
    assert _dense(lists.arrays) == [[0, 1], [2, 0]]


@pytest.mark.parametrize(
    ("dtype", "rows", "expected"),
    [
        ("int64", [[3, 1], [], None, [5, None]], [[3, 1], [0, 0], [0, 0], [5, 0]]),
        ("float32", [[3.0, 1.0], [], None, [5.0, NAN]], [[3, 1], [0, 0], [0, 0], [5, 0]]),
    ],
)
def test_lists_of_any_length(dtype: str, rows: list[Any], expected: list[Any]) -> None:
    found = decode(_columns("ragged", dtype, (), ARRAY), [pa.array(rows)], 0.0)
    assert found.arrays[1].dtype == dtype
    assert _dense(found.arrays) == expected
    assert found.invalid is not None
    assert found.invalid.tolist() == [False, False, True, True]


def test_words() -> None:
    found = decode(
        _columns("ragged", "string", (), ARRAY), [pa.array([["a", "b"], [], ["ä"]])], 0.0
    )
    indices, values, shape = found.arrays
    assert indices.tolist() == [[0, 0], [0, 1], [2, 0]]
    assert values.tolist() == [b"a", b"b", "ä".encode()]
    assert shape.tolist() == [3, 2]
    assert found.invalid is None


def test_many_columns_without_nulls() -> None:
    columns = _columns("dense", "float32", (2,), SCALARS, "a", "b")
    found = decode(columns, [pa.array([1, 2, 3]), pa.array([0.5, NAN, 1.5])], 7.0)
    assert found.arrays[0].tolist() == [[1, 0.5], [2, 7], [3, 1.5]]
    assert found.invalid is not None
    assert found.invalid.tolist() == [False, True, False]
    whole = decode(columns, [pa.array([1, 2]), pa.array([True, False])], 7.0)
    assert whole.arrays[0].tolist() == [[1, 1], [2, 0]]
    assert whole.invalid is None


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, -1, None], pa.timestamp("s")), [1_000_000, -1_000_000, None]),
        (pa.array([1, 2**62, -(2**62)], pa.timestamp("ms", "UTC")), [1000, None, None]),
        (pa.array([1, None], pa.timestamp("us", "Europe/Berlin")), [1, None]),
        (pa.array([1999, -1], pa.timestamp("ns")), [1, -1]),
        (pa.array([86_400_000 * 3, None], pa.date64()), [3, None]),
        (pa.array([-1, None], pa.date32()), [-1, None]),
        (
            pa.array([1e30, -1e30, -(2.0**63), 2.0**63, NAN, -1.5]),
            [None, None, -(2**63), None, None, -1],
        ),
        (pa.array([-3e38, 5], pa.float32()), [None, 5]),
        (pa.array([2**64 - 1, 2**63, 2**63 - 1], pa.uint64()), [None, None, 2**63 - 1]),
        (pa.array([Decimal("1.9"), Decimal("-1.9"), None]), [1, -1, None]),
        (pa.array([Decimal(2**63), Decimal(5)], pa.decimal256(50, 0)), [None, 5]),
        (pa.array([], pa.decimal128(5, 0)), []),
        (pa.array([Decimal(9), None, Decimal(7)], pa.decimal128(38, 0))[1:], [None, 7]),
    ],
)
def test_times_and_decimals_are_whole_numbers(array: pa.Array, expected: list[Any]) -> None:
    """Values that int64 cannot hold are invalid, like nulls."""
    wanted = _columns("dense", "int64", (), SCALARS)
    (found,) = RowSchema((wanted,), fill=77.0).decode([array])
    assert found.elements.tolist() == [77 if value is None else value for value in expected]
    (marked,) = RowSchema((wanted,)).decode([array])
    invalid = [value is None for value in expected]
    assert (
        marked.invalid.tolist() if marked.invalid is not None else [False] * len(array)
    ) == invalid
