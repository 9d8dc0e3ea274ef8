from pathlib import Path

import pytest

from sparkflow.spark.data.tfrecord.record_files import (
    Staging,
    compression_of,
    find_files,
    numbered_records,
)
from sparkflow_runtime.errors import DataLossError, NotFoundError


def _names(paths: list[str], below: Path) -> list[str]:
    return [str(Path(path).relative_to(below)) for path in paths]


def test_files_of_directories_and_patterns(tmp_path: Path) -> None:
    for name in ("b.tfrecord", "a.tfrecord", "_SUCCESS", ".crc", "day=1/c", "_temporary/x/d"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert _names(find_files([str(tmp_path)]), tmp_path) == ["a.tfrecord", "b.tfrecord", "day=1/c"]
    assert _names(find_files([f"file://{tmp_path}/*.tfrecord"]), tmp_path) == [
        "a.tfrecord",
        "b.tfrecord",
    ]
    with pytest.raises(NotFoundError, match="nothing: there is no such file"):
        find_files([str(tmp_path / "nothing")])


@pytest.mark.parametrize("name", ["none", "gzip", "zlib"])
def test_compressed_files_are_recognised(tmp_path: Path, name: str) -> None:
    kind, suffix = compression_of(name)
    staging = Staging(str(tmp_path / "out"), "job1")
    records = [b"", b"one", b"two" * 1000]
    assert staging.write(f"part{suffix}", records, kind) == 3
    assert find_files([str(tmp_path / "out")]) == []
    staging.commit([f"part{suffix}"], overwrite=False)
    (path,) = find_files([str(tmp_path / "out")])
    assert list(numbered_records(path)) == [(0, b""), (16, b"one"), (35, b"two" * 1000)]
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        "_SUCCESS",
        f"part{suffix}",
    ]


def test_unknown_compressions_are_refused() -> None:
    with pytest.raises(ValueError, match="'snappy'"):
        compression_of("snappy")


def test_only_committed_files_are_seen(tmp_path: Path) -> None:
    first = Staging(str(tmp_path), "first")
    first.write("old", [b"old"], "")
    first.commit(["old"], overwrite=False)
    second, other = Staging(str(tmp_path), "second"), Staging(str(tmp_path), "other")
    other.write("unfinished", [b"x"], "")
    second.write("new", [b"new"], "")
    second.write("of-a-failed-attempt", [b"new"], "")
    second.commit(["new"], overwrite=True)
    assert _names(find_files([str(tmp_path)]), tmp_path) == ["new"]
    other.abort()
    other.abort()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["_SUCCESS", "new"]


def test_damaged_files_are_named_with_the_byte(tmp_path: Path) -> None:
    staging = Staging(str(tmp_path), "job")
    staging.write("file", [b"good", b"bad"], "")
    staging.commit(["file"], overwrite=False)
    path = tmp_path / "file"
    data = bytearray(path.read_bytes())
    data[20 + 12] ^= 1
    path.write_bytes(data)
    found: list[tuple[int, bytes]] = []
    with pytest.raises(DataLossError, match=f"record at byte 20 of {path} is damaged"):
        found.extend(numbered_records(str(path)))
    assert found == [(0, b"good")]
