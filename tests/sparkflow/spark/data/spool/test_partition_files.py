"""Files of a partition that several workers map."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkflow.spark.data.feed.worker_feed import WorkerFeed
from sparkflow.spark.data.feed_plan import PERMUTED, FeedPlan, workers_of
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
from sparkflow.spark.data.spool import spool as spool_module
from sparkflow.spark.data.spool.partition_files import (
    JobFolders,
    PartitionWriting,
    delete,
    held,
    read_facts,
)
from sparkflow_runtime.errors import DataLossError, OutOfRangeError, ResourceExhaustedError

FORMAT = RowFormat(
    (Input("x", DENSE, "float32", (2,)),), Input("label", DENSE, "int64", ()), None, named=False
)


def _batch(numbers: list[int], **more: Any) -> pa.RecordBatch:
    columns = {
        "x": pa.array([[n, n] for n in numbers], pa.list_(pa.float32())),
        "label": pa.array(numbers, pa.int64()),
        "row_number": pa.array(numbers, pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns | more)


def _facts(
    tmp_path: Path, *batches: pa.RecordBatch, partition: int = 0, by_content: bool = False
) -> list[str]:
    writing = PartitionWriting(FORMAT, workers=3, by_content=by_content)
    (found,) = writing.write(batches, partition, [str(tmp_path)])
    texts: list[str] = found.column("facts").to_pylist()
    return texts


def _drain(source: Any, rows: int) -> list[int]:
    found: list[int] = []
    try:
        while len(found) < rows:
            found += source.next_batch()[1].tolist()
    except OutOfRangeError:
        pass
    return found


@pytest.mark.parametrize("by_content", [False, True])
def test_workers_take_their_rows_from_the_files_of_all(tmp_path: Path, by_content: bool) -> None:
    more = _facts(tmp_path, _batch(list(range(7))), partition=2, by_content=by_content)
    texts = _facts(tmp_path, _batch(list(range(10))), by_content=by_content)
    files = read_facts([*more, *texts])
    assert [file.partition for file in files] == [0, 2]
    assert [file.labels for file in files] == [(0, 9), (0, 6)]
    firsts = [0, 0 if by_content else 10]
    counts = [
        [file.workers[(worker - first) % 3] for worker in range(3)]
        for file, first in zip(files, firsts, strict=True)
    ]
    message = {
        "workers": 3,
        "by_content": by_content,
        "files": [
            {"path": f.path, "use": f.use, "bytes": f.bytes, "first_number": n, "worker_rows": c}
            for f, n, c in zip(files, firsts, counts, strict=True)
        ],
    }
    numbers = [list(range(10)), [number + firsts[1] for number in range(7)]]
    plan = FeedPlan(FORMAT, batch_size=2, order=PERMUTED, shuffle=False)
    for worker in range(3):
        feed = WorkerFeed(plan, worker)
        assert feed.take(message)
        own = [
            label
            for part in numbers
            for label, owner in enumerate(workers_of(np.array(part), 3, by_content))
            if owner == worker
        ]
        assert feed.rows == len(own)
        assert sorted(_drain(feed.train, feed.rows)) == sorted(own)
        feed.close()


def test_files_have_names_and_stay(tmp_path: Path) -> None:
    (file,) = read_facts(_facts(tmp_path, _batch([1, 2])))
    assert Path(file.path).parent == tmp_path
    assert (file.rows, file.use, sum(file.workers)) == (2, "train", 2)


def test_held_files_have_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [_facts(tmp_path, _batch([each]), partition=each)[0] for each in range(3)]
    monkeypatch.setattr("resource.getrlimit", lambda which: (8, 8))
    files = held(read_facts(texts))
    *without, named = files
    assert [file.descriptor >= 0 for file in files] == [True, True, False]
    assert list(tmp_path.iterdir()) == [Path(named.path)]
    for file in without:
        with pa.ipc.open_file(file.path) as reader:
            assert reader.read_all().column("label").to_pylist() == [file.partition]
    delete(files)
    assert list(tmp_path.iterdir()) == []
    for file in without:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file.descriptor)


def test_tasks_find_no_place_in_folders_that_were_removed(tmp_path: Path) -> None:
    folders = JobFolders([str(tmp_path)])
    (folder,) = folders.paths
    assert len(_facts(Path(folder), _batch([1]))) == 1
    folders.remove()
    folders.remove()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        _facts(Path(folder), _batch([1]))
    assert list(tmp_path.iterdir()) == []


_MAKES_FOLDERS = """
import sys
from pathlib import Path
from sparkflow.spark.data.spool.partition_files import JobFolders
folders = JobFolders(sys.argv[1:])
Path(folders.paths[0], "rows").write_text("rows")
print("made", flush=True)
sys.stdin.read()
"""


def test_folders_go_with_a_process_that_is_killed(tmp_path: Path) -> None:
    # They used to stay if the driver's Python and its JVM were killed while rows were written.
    places = [tmp_path / "a disk", tmp_path / "another"]
    for each in places:
        each.mkdir()
    command = [sys.executable, "-c", _MAKES_FOLDERS, *map(str, places)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"made\n"
        assert [len(list(each.iterdir())) for each in places] == [1, 1]
        driver.kill()
        deadline = time.monotonic() + 30
        while any(list(each.iterdir()) for each in places) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert [list(each.iterdir()) for each in places] == [[], []]


def test_a_partition_without_rows_has_no_files(tmp_path: Path) -> None:
    assert _facts(tmp_path) == []


@pytest.mark.parametrize("value", [np.nan, np.inf, None])
def test_rows_that_cannot_be_trained_on_delete_all_files(tmp_path: Path, value: Any) -> None:
    good = _facts(tmp_path, _batch([1, 2]))
    bad = _batch([1], x=pa.array([[0, value]], pa.list_(pa.float32())))
    faults = _facts(tmp_path, bad)
    with pytest.raises(DataLossError, match="'x'"):
        read_facts([*good, *faults])
    assert list(tmp_path.iterdir()) == []


def test_large_sums_are_not_taken_for_infinities(tmp_path: Path) -> None:
    large = _batch([1], x=pa.array([[3e38, 3e38]], pa.list_(pa.float32())))
    assert len(read_facts(_facts(tmp_path, large))) == 1


def test_a_full_disk_is_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(table: pa.Table, directory: str, is_named: bool) -> tuple[int, str]:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool_module, "_write_file", full)
    with pytest.raises(ResourceExhaustedError, match="The disk is full"):
        read_facts(_facts(tmp_path, _batch([1])))
