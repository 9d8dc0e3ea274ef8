"""Records and lines are read in blocks: their order, errors among them, and pipes."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.dtypes import int64
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError, NotFoundError, OpError
from sparkflow_runtime.events.records import frame_record
from sparkflow_runtime.resources.datasets import file_datasets
from sparkflow_runtime.resources.datasets.dataset import Dataset
from sparkflow_runtime.resources.datasets.file_datasets import (
    of_arrow,
    of_csv_records,
    of_lines,
    of_parquet,
    of_pieces,
    of_records,
)


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


def outcomes(dataset: Dataset) -> list[Any]:
    iterator = dataset.iterate()
    found: list[Any] = []
    while True:
        try:
            element = iterator.next(Step())
        except OpError as error:
            found.append(type(error))
        else:
            if element is None:
                return found
            found.append(element[0].item())


def test_the_next_file_follows_a_damaged_one(tmp_path: Path) -> None:
    def named(name: str, data: bytes) -> bytes:
        (tmp_path / name).write_bytes(data)
        return os.fsencode(tmp_path / name)

    frames = b"".join(map(frame_record, [b"b0", b"b1"]))
    damaged = frame_record(b"a0") + frame_record(b"a1")[:-1] + b"!"
    names = [named("a", damaged), os.fsencode(tmp_path / "none"), named("b", frames)]
    expected = [b"a0", DataLossError, NotFoundError, b"b0", b"b1"]
    assert outcomes(of_records(names, "")) == expected
    names = [
        named("az", gzip.compress(damaged)),
        named("cz", b"no"),
        named("bz", gzip.compress(frames)),
    ]
    assert outcomes(of_records(names, "GZIP")) == [
        b"a0",
        DataLossError,
        DataLossError,
        b"b0",
        b"b1",
    ]
    cut = gzip.compress(b"x" * 99)[:-9]
    names = [named("c", cut), named("d", gzip.compress(b"l0\nl1\n"))]
    assert outcomes(of_lines(names, "GZIP")) == [DataLossError, b"l0", b"l1"]
    names = [named("e", b"abc"), named("f", b"w"), named("g", b"__xy")]
    expected = [InvalidArgumentError, DataLossError, b"xy"]
    assert outcomes(of_pieces(names, 2, 2, 0, "")) == expected


def test_the_next_parquet_and_arrow_file_follows_a_damaged_one(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import ipc, parquet

    table = pa.table({"n": np.array([1, 2])})
    bad, good, stream = (os.fsencode(tmp_path / name) for name in ("bad", "good", "stream"))
    Path(os.fsdecode(bad)).write_bytes(b"neither of them")
    parquet.write_table(table, os.fsdecode(good))
    with ipc.new_stream(os.fsdecode(stream), table.schema) as writer:
        writer.write_table(table)
    assert outcomes(of_parquet([bad, good], ["n"], [int64])) == [DataLossError, 1, 2]
    assert outcomes(of_arrow([bad, stream], ["n"], [int64])) == [DataLossError, 1, 2]


def test_closing_opens_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n")
    iterator = of_lines([os.fsencode(tmp_path / "a"), b"/nowhere"], "").iterate()
    assert iterator.next(Step()) is not None
    iterator.close()
    iterator.close()
    assert rest(iterator) == [b"2"]  # has been read


def test_lines_have_no_carriage_returns(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\rb\nc\r\n\r\rd\r\r\n\n\re")
    assert rest(of_lines([os.fsencode(path)], "").iterate()) == [b"ab", b"c", b"d", b"", b"e"]


@pytest.mark.parametrize(
    ("data", "records"),
    [
        (b'1,"a\nb"\n3,4', [b'1,"a\nb"', b"3,4"]),
        (b'"a\r\n""\n,""",2\r\n"c"\r', [b'"a\r\n""\n,""",2', b'"c"']),
        (b"1\r\n2\r3\r\r\n4", [b"1", b"2", b"3", b"", b"4"]),
        (b'5" pipe,1\n"6"" pipe",2\n', [b'5" pipe,1', b'"6"" pipe",2']),  # quotes open fields only
        (b'"a"b"\n1\n', [b'"a"b"', b"1"]),
        (b'1,"open\n2\n', [b'1,"open\n2\n']),
        (b"\n\n", [b"", b""]),
        (b"", []),
    ],
)
def test_records_of_csv_files(tmp_path: Path, data: bytes, records: list[bytes]) -> None:
    path = tmp_path / "rows"
    path.write_bytes(data)
    assert rest(of_csv_records([os.fsencode(path)], "", b",", True).iterate()) == records
    plain = [each.encode() for each in data.decode().splitlines()]
    assert rest(of_csv_records([os.fsencode(path)], "", b",", False).iterate()) == plain
