"""The contents of a row: the columns of its file, and the tensors of its batch."""

import json

import pyarrow as pa
import pytest

from sparkflow.spark.data.schema.row_format import (
    DENSE,
    RAGGED,
    ROW_NUMBER,
    SPARSE,
    Input,
    RowFormat,
)
from sparkflow_runtime import dtypes

IMAGE = Input("image", DENSE, "float32", (2, 3, 1))
WORDS = Input("words", RAGGED, "string", ())
COUNTS = Input("counts", SPARSE, "float32", (100,))
LABEL = Input("label", DENSE, "int64", ())
WEIGHT = Input("weight", DENSE, "float32", ())


@pytest.mark.parametrize(
    ("given", "column"),
    [
        (IMAGE, pa.list_(pa.float32(), 6)),
        (LABEL, pa.int64()),
        (Input("one", DENSE, "float32", (1,)), pa.list_(pa.float32(), 1)),
        (WORDS, pa.list_(pa.binary())),
        (COUNTS, pa.struct({"indices": pa.list_(pa.int32()), "values": pa.list_(pa.float32())})),
    ],
)
def test_columns(given: Input, column: pa.DataType) -> None:
    assert given.column_type == column


def test_components_are_those_of_the_inputs_then_two_numbers() -> None:
    row = RowFormat((IMAGE, WORDS, COUNTS), LABEL, WEIGHT, named=True)
    assert [each.name for each in row.inputs] == ["image", "words", "counts", "label", "weight"]
    sparse = [(dtypes.int64, (None, 2)), (dtypes.int64, (2,))]
    assert row.components == [
        (dtypes.float32, (None, 2, 3, 1)),
        sparse[0],
        (dtypes.string, (None,)),
        sparse[1],
        sparse[0],
        (dtypes.float32, (None,)),
        sparse[1],
        (dtypes.int64, (None,)),
        (dtypes.float32, (None,)),
        (dtypes.float32, ()),
        (dtypes.float32, ()),
    ]


def test_the_file_has_the_inputs_in_order_and_the_rows_number() -> None:
    row = RowFormat((IMAGE,), None, WEIGHT, named=False)
    assert row.schema.names == ["image", "weight", ROW_NUMBER]
    assert row.schema.field(ROW_NUMBER).type == pa.int64()


@pytest.mark.parametrize("label", [None, LABEL])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_json(label: Input | None, weight: Input | None) -> None:
    row = RowFormat((IMAGE, WORDS), label, weight, named=True)
    assert RowFormat.from_json(json.loads(json.dumps(row.to_json()))) == row
