"""Rows of several datasets that arrive in one task."""

import numpy as np
import pyarrow as pa
import pytest

from sparkflow.spark.data.hosted.dataset_spool import (
    DATASET_COLUMN,
    DatasetSpool,
    TravellingDataset,
    column_of_dataset,
)
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
from sparkflow.spark.data.spool.spool import MESSAGE_COLUMN
from sparkflow_runtime.errors import DataLossError


def travelling(name, dtype, *worker_rows):
    row_format = RowFormat((Input("x", DENSE, dtype, ()),), None, None, named=True)
    return TravellingDataset(name, row_format, worker_rows)


DATASETS = [travelling("one", "float32", 3, 1), travelling("two", "int64", 2, 0)]


def batch(*rows):
    """Rows as (dataset, x, number); rows of one dataset are null in the columns of the other."""
    columns = {DATASET_COLUMN: pa.array([index for index, _, _ in rows], pa.int32())}
    for index, each in enumerate(DATASETS):
        for place, field in enumerate(each.row_format.schema, 1):
            mine = [row[place] if row[0] == index else None for row in rows]
            columns[column_of_dataset(index, field.name)] = pa.array(mine, field.type)
    return pa.RecordBatch.from_pydict(columns)


def chunks(told, name):
    """Returns the contents of the files that were reported for a dataset."""
    found = []
    for message in told:
        if message.get("dataset") == name and "chunk" in message:
            with pa.ipc.open_file(message["chunk"]) as file:
                found += file.read_all().to_pylist()
    return [(row["x"], row["row_number"]) for row in found]


def test_each_dataset_has_files_of_its_own(tmp_path):
    told = []
    spool = DatasetSpool(DATASETS, 0, [str(tmp_path)], told.append)
    spool.take([batch((0, 1.5, 0), (1, 7, 4), (1, 8, 5), (0, 2.5, 1)), batch((0, 3.5, 2))])
    assert chunks(told, "one") == [(1.5, 0), (2.5, 1), (3.5, 2)]
    assert chunks(told, "two") == [(7, 4), (8, 5)]
    ends = [message for message in told if "chunk" not in message]
    assert ends == [
        {"dataset": "one", "rows": 3, "validation_rows": 0},
        {"dataset": "two", "rows": 2, "validation_rows": 0},
        {"rows": 0, "validation_rows": 0},
    ]
    assert spool.rows == 5
    spool.close()
    spool.close()


@pytest.mark.parametrize("worker", [0, 1, None])
def test_other_rows_than_were_counted_are_an_error(tmp_path, worker):
    spool = DatasetSpool(DATASETS, worker, [str(tmp_path)], lambda message: None)
    wanted = {0: "2 rows of one arrived, 3", 1: "2 rows of one arrived, 1", None: "2 .*, 0"}
    with pytest.raises(DataLossError, match=f"{wanted[worker]} were counted.*different rows"):
        spool.take([batch((0, 1.5, 0), (0, 2.5, 1))])
    spool.close()


def test_a_null_is_an_error_although_the_driver_saw_none(tmp_path):
    spool = DatasetSpool(DATASETS, 0, [str(tmp_path)], lambda message: None)
    with pytest.raises(DataLossError, match="1 of 1 rows hold nulls"):
        spool.take([batch((0, None, 0))])
    spool.close()


def test_rows_that_are_no_rows_are_passed_over():
    told = []
    spool = DatasetSpool([], None, [], told.append)
    spool.take([pa.RecordBatch.from_pydict({MESSAGE_COLUMN: [""]}), batch()])
    assert told == [{"rows": 0, "validation_rows": 0}]
    assert not np.any(spool.rows)
