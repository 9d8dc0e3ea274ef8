"""Files of a task's rows: where they are created, what happens if there is no space."""

from __future__ import annotations

import errno
import gc
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
from sparkflow.spark.data.schema.row_schema import NON_FINITE, NOTHING
from sparkflow.spark.data.spool import spool as spool_module
from sparkflow.spark.data.spool.spool import RowSpool, convert, local_directories
from sparkflow_runtime.errors import DataLossError, ResourceExhaustedError
from support.row_files import open_row_files

FORMAT = RowFormat((Input("features", DENSE, "float32", ()),), None, None, named=False)


def _batch(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"features": np.zeros(rows, np.float32), "row_number": np.arange(rows)}
    )


@pytest.mark.parametrize("refuses", [NOTHING, NON_FINITE])
def test_a_negative_weight_is_refused_and_a_negative_feature_is_not(refuses: str) -> None:
    """In local sessions nothing else checks the rows; they used to be trained on."""
    weight = Input("weight", DENSE, "float32", ())
    weighted = RowFormat(FORMAT.features, None, weight, named=False)
    columns = {"features": [-1.0, -2.0], "weight": [1.0, 0.0], "row_number": [0, 1]}
    assert convert(pa.RecordBatch.from_pydict(columns), weighted, refuses).num_rows == 2
    columns["weight"] = [1.0, -0.5]
    with pytest.raises(DataLossError, match=r"1 of 2 rows hold .* in 'weight'"):
        convert(pa.RecordBatch.from_pydict(columns), weighted, refuses)


def _full_disk(monkeypatch: pytest.MonkeyPatch, *full: str) -> None:
    write = spool_module._write_file

    def write_or_fail(table: pa.Table, directory: str, is_named: bool) -> tuple[io.FileIO, str]:
        if directory in full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(table, directory, is_named)

    monkeypatch.setattr(spool_module, "_write_file", write_or_fail)


def test_chunks_grow_so_that_the_first_one_is_there_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "FIRST_CHUNK_BYTES", 12 * 10)
    monkeypatch.setattr(spool_module, "MAX_CHUNK_BYTES", 12 * 40)
    told: list[Mapping[str, Any]] = []
    spool = RowSpool(FORMAT, [str(tmp_path)], told.append)
    spool.take(_batch(10) for _ in range(15))
    assert [message["rows"] for message in told] == [10, 20, 40, 40, 40, 150]
    assert told == spool.messages
    spool.close()
    spool.close()


def test_a_file_has_no_name_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A task that was killed while writing a chunk used to leave it on the disk.
    new_file, seen = pa.ipc.new_file, []

    def see(*args: Any) -> Any:
        seen.append(list(tmp_path.iterdir()))
        return new_file(*args)

    monkeypatch.setattr(pa.ipc, "new_file", see)
    spool = RowSpool(FORMAT, [str(tmp_path)], lambda _: None)
    spool.take([_batch(5)])
    spool.close()
    assert seen == [[]]


def test_a_spool_that_nobody_closes_says_so_and_frees_its_files(tmp_path: Path) -> None:
    def make_and_drop() -> None:
        RowSpool(FORMAT, [str(tmp_path)], lambda _: None).take([_batch(5)])
        assert open_row_files() == before + 1
        gc.collect()

    gc.collect()  # garbage of earlier tests
    before = open_row_files()
    with pytest.warns(ResourceWarning, match="unclosed file"):
        make_and_drop()
    assert open_row_files() == before


def test_the_next_disk_is_used_when_one_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _full_disk(monkeypatch, "/full")
    spool = RowSpool(FORMAT, ["/full", str(tmp_path)], lambda _: None)
    spool.take([_batch(5)])
    assert spool.rows == 5
    spool.close()


def test_full_disks_are_named_with_what_is_needed_and_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    _full_disk(monkeypatch, str(tmp_path), str(other))
    spool = RowSpool(FORMAT, [str(tmp_path), str(other)], lambda _: None)
    free = r"[\d,]+ bytes free"
    text = rf"60 bytes are needed for the next 5 rows.*{tmp_path} has {free}; {other} has {free}"
    with pytest.raises(ResourceExhaustedError, match=text):
        spool.take([_batch(5)])


def test_an_operating_system_that_finds_no_room_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_full(prefix: str, dir: str) -> tuple[int, str]:
        path = os.path.join(dir, prefix)
        os.symlink("/dev/full", path)
        return os.open(path, os.O_RDWR), path

    monkeypatch.setattr("tempfile.mkstemp", make_full)
    before = os.listdir("/proc/self/fd")
    spool = RowSpool(FORMAT, [str(tmp_path)], lambda _: None)
    with pytest.raises(ResourceExhaustedError, match="The disk is full"):
        spool.take([_batch(100_000)])
    assert os.listdir("/proc/self/fd") == before
    assert list(tmp_path.iterdir()) == []


def test_other_errors_of_files_are_not_taken_for_a_full_disk() -> None:
    spool = RowSpool(FORMAT, ["/no/such/directory"], lambda _: None)
    with pytest.raises(FileNotFoundError):
        spool.take([_batch(1)])


def test_spark_says_where_its_disks_are(tmp_path: Path) -> None:
    assert local_directories({"SPARK_LOCAL_DIRS": f"/no/such,{tmp_path},"}) == [str(tmp_path)]
    assert local_directories({}) == []
