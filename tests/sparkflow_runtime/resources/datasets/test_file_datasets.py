"""Records and lines are read in blocks: their order, errors among them, and pipes."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.events.records import frame_record
from sparkflow_runtime.resources.datasets import file_datasets
from sparkflow_runtime.resources.datasets.file_datasets import of_lines, of_records


class Step:
    def check_cancelled(self) -> None:
        pass


def rest(iterator: Any) -> list[bytes]:
    found = []
    while (element := iterator.next(Step())) is not None:
        assert element[0].shape == ()
        found.append(element[0].item())
    return found


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 1000])
def test_lines_of_several_files_in_order(tmp_path: Path, count: int) -> None:
    expected = []
    names = []
    for number in range(3):
        lines = [b"%d-%d" % (number, n) + b"x" * (n % 7) for n in range(count)]
        path = tmp_path / str(number)
        path.write_bytes(b"\n".join(lines))
        names.append(os.fsencode(path))
        expected += lines
    assert rest(of_lines(names, "").iterate()) == expected
    iterator = of_lines(names, "").iterate()
    found: list[bytes] = []
    while (block := iterator.next_block(Step(), 100)) is not None:
        assert len(block[0]) == 100 or len(found) + len(block[0]) == len(expected)
        found += block[0].tolist()
    assert found == expected


def test_large_records_come_in_small_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_datasets, "_BLOCK_BYTES", 1000)
    records = [os.urandom(400) for _ in range(10)]
    assert [len(each) for each in file_datasets._blocks(iter(records), 256)] == [3, 3, 3, 1]
    path = tmp_path / "records"
    path.write_bytes(b"".join(map(frame_record, records)))
    assert rest(of_records([os.fsencode(path)], "").iterate()) == records


@pytest.mark.parametrize("good", [0, 1, 10, 256, 300])
def test_records_before_a_damaged_one_come_first(tmp_path: Path, good: int) -> None:
    records = [b"record %d" % n for n in range(good)]
    data = b"".join(map(frame_record, records)) + frame_record(b"bad")[:-1] + b"\0"
    path = tmp_path / "records"
    path.write_bytes(data)
    iterator = of_records([os.fsencode(path)], "").iterate()
    for record in records:
        element = iterator.next(Step())
        assert element is not None
        assert element[0].item() == record
    with pytest.raises(DataLossError, match="is damaged"):
        iterator.next(Step())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_lines_of_a_pipe_arrive_when_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    goes_on = threading.Event()

    def write() -> None:
        with open(path, "wb", buffering=0) as pipe:
            pipe.write(b"first\n")
            goes_on.wait(30)
            pipe.write(b"second\n")

    writer = threading.Thread(target=write)
    writer.start()
    iterator = of_lines([os.fsencode(path)], "").iterate()
    element = iterator.next(Step())
    assert element is not None
    assert element[0].item() == b"first"
    goes_on.set()
    assert rest(iterator) == [b"second"]
    writer.join()


def test_elements_are_bytes_of_rank_0(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\r\n\nb")
    element = of_lines([os.fsencode(path)], "").iterate().next(Step())
    assert element is not None
    assert isinstance(element[0], np.ndarray)
    assert rest(of_lines([os.fsencode(path)], "").iterate()) == [b"a", b"", b"b"]
