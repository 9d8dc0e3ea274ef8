"""The layout of values in Arrow, and what `tf.data` rejects of it; `test_doors` tests the rest."""

import subprocess
import sys
from datetime import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.resources.datasets.arrow_columns import (
    as_python_has_them,
    column_array,
    field,
    floats,
    lists,
    numbers,
    offsets_of,
    plain,
    plain_numbers,
    present_in,
    texts,
    whole,
)


@pytest.mark.parametrize(
    ("column", "dtype", "text"),
    [
        (pa.array([1, None]), dtypes.int64, "has 1 nulls"),
        (pa.array([[1], [2, 3]]), dtypes.int64, "lists of 1 to 2 values"),
        (pa.array([1, 2]), dtypes.float32, "is int64, the dataset was made for float32"),
    ],
)
def test_columns_that_are_no_tensors(column, dtype, text):
    with pytest.raises(InvalidArgumentError, match=text):
        column_array(column, "c", dtype)


def test_values_are_not_copied():
    values = np.arange(6, dtype=np.float32)
    given = pa.ListArray.from_arrays(pa.array([0, 2, 6], pa.int32()), pa.array(values))
    assert np.shares_memory(numbers(lists(given[1:]).elements), values)
    assert offsets_of(given[1:]).tolist() == [0, 4]


KINDS = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()),
)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_numbers_are_those_that_arrow_gives(kind):
    array = pa.array(np.array([1, 0, 3, 1]), pa.int8()).cast(kind)
    for given in (array, array[1:3], array[4:], array[:0], pa.array([], kind)):
        expected = given.to_numpy(zero_copy_only=False)
        for found in (
            numbers(given),
            plain_numbers(given),
            plain_numbers(pa.chunked_array([given])),
        ):
            assert found.dtype == expected.dtype
            assert found.tolist() == expected.tolist()
    chunked = pa.chunked_array([array, array])
    assert plain_numbers(chunked).tolist() == array.to_pylist() * 2


def test_numbers_without_nulls_do_not_load_pandas(tmp_path):
    table = pa.table({"numbers": [1.0, 2.0], "lists": [[1], [2, 3]], "times": [datetime.max] * 2})
    with pa.ipc.new_stream(tmp_path / "rows", table.schema) as stream:
        stream.write_table(table)
    code = f"""if True:
        import sys
        import pyarrow as pa
        from sparkflow_runtime.resources.datasets.arrow_columns import lists, numbers, whole

        table = pa.ipc.open_stream({str(tmp_path / "rows")!r}).read_all()
        for name in "numbers", "times":
            numbers(whole(table[name]))
        found = lists(whole(table["lists"]))
        print(found.lengths.tolist(), "pandas" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[1, 2] False\n"


def test_chunks_and_dictionaries_are_plain_arrays():
    chunks = pa.chunked_array([["a"], [], ["b", "a"]]).dictionary_encode()
    assert whole(chunks).equals(pa.array(["a", "b", "a"]))
    assert len(whole(pa.chunked_array([], pa.int64()))) == 0


def test_nulls_have_values_in_their_place():
    assert numbers(pa.array([True, None])).tolist() == [True, False]
    assert numbers(pa.array([Decimal("1.5"), None])).tolist() == [1.5, 0.0]
    assert plain(pa.array([Decimal(2**53 + 1)]), as_whole=True).to_pylist() == [2**53 + 1]
    assert texts(pa.array(["ä", None], pa.large_string())).tolist() == ["ä".encode(), b""]


@pytest.mark.parametrize(
    "given",
    [
        pa.array([1.5, None, float("nan")]),
        pa.array([1.5, None, float("nan")], pa.float32()),
        pa.array([2**53, None, -1]),
        pa.array([True, None, False]),
        pa.array([Decimal("1.50"), None, Decimal("-0.25")]),
        pa.array([0, 1.5, None, 3.0])[1:],
    ],
    ids=lambda given: str(given.type),
)
def test_nulls_are_nan_among_floats(given):
    expected = [np.nan if each is None else float(each) for each in given.to_pylist()]
    found = floats(given)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected)
    assert present_in(given).tolist() == [each is not None for each in given.to_pylist()]


def test_columns_without_nulls_are_there_as_they_are():
    values = np.arange(3.0)
    assert np.shares_memory(floats(pa.array(values)), values)
    assert present_in(pa.array(values)).all()


@pytest.mark.parametrize(
    ("far", "kind"),
    [
        (2**62, pa.timestamp("us", "UTC")),
        (2**50, pa.timestamp("ms")),
        (2**30, pa.date32()),
    ],
)
def test_times_that_python_lacks_are_the_nearest_it_has(far, kind):
    counts = pa.int32() if kind == pa.date32() else pa.int64()
    times = pa.array([far, -far, -1, None], counts).view(kind)
    found = as_python_has_them(pa.chunked_array([times[:1], times[1:]])).to_pylist()
    assert [each and each.year for each in found] == [9998, 2, 1969, None]


def test_fields_of_null_structs_are_null():
    structs = pa.array([{"a": 1}, None, {"a": None}])
    assert field(structs, "a").to_pylist() == [1, None, None]
