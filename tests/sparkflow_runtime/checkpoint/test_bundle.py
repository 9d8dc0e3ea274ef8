import errno
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.checkpoint import bundle_writer
from sparkflow_runtime.checkpoint.bundle_reader import BundleReader
from sparkflow_runtime.checkpoint.bundle_writer import Saved, merge_bundles, write_bundle
from sparkflow_runtime.checkpoint.opening import open_checkpoint, read_checkpoint
from sparkflow_runtime.checkpoint.sorted_table import TableReader, encode_table
from sparkflow_runtime.checkpoint.tensor_slice import TensorSlice
from sparkflow_runtime.errors import (
    DataLossError,
    NotFoundError,
    OpError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnknownError,
)
from sparkflow_runtime.protos.tensor_bundle_pb2 import BundleEntryProto
from support.damage import damages

GOLDEN = Path(__file__).parents[2] / "golden/checkpoints/variables"
VALUES = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.float64(2.5),
    np.array([[1, -2]], np.int8),
    np.array([True, False]),
    np.array([1 + 2j], np.complex64),
    np.zeros((0, 4), np.uint16),
    np.array([1.5, -2], ml_dtypes.bfloat16),
    np.array([[b"one", b""], [b"x" * 300, "ü".encode()]], object),
    np.array(b"text", object),
]


def saved(name, value):
    array = np.asarray(value)
    return Saved(name, dtypes.as_dtype(array.dtype), array)


def write(prefix, **values):
    write_bundle(str(prefix), [saved(name, value) for name, value in values.items()])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(np.asarray(value).dtype))
def test_every_type_comes_back(tmp_path, value):
    write(tmp_path / "x", v=value, other=np.float32(1))
    reader = BundleReader(str(tmp_path / "x"))
    found = reader.read("v")
    assert found.dtype == np.asarray(value).dtype
    assert reader.shape("v") == np.shape(value)
    np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("name", ["second-3", "first"])
def test_checkpoints_of_tensorflow_are_read_in_both_formats(name):
    expected = json.loads((GOLDEN / "expected.json").read_text())
    reader = open_checkpoint(str(GOLDEN / name))
    assert reader.names() == sorted(expected)
    for key, value in expected.items():
        found = reader.read(key)
        if found.dtype == object:
            assert [text.decode() for text in found] == value
            continue
        if found.dtype.kind == "c":
            found = np.stack([found.real, found.imag], -1)
        assert found.tolist() == value
    np.testing.assert_array_equal(
        reader.read_slice("parts", TensorSlice((2, 1), (4, 2))),
        np.array(expected["parts"], np.float32)[2:6, 1:3],
    )


def test_bfloat16_of_tensorflow():
    found = open_checkpoint(str(GOLDEN / "bfloat")).read("bfloat")
    assert found.dtype == ml_dtypes.bfloat16
    assert found.astype(np.float32).tolist() == [1.5, -2]


def test_the_files_say_what_those_of_tensorflow_say(tmp_path):
    source = open_checkpoint(str(GOLDEN / "bfloat"))
    write_bundle(str(tmp_path / "x"), [Saved("bfloat", dtypes.bfloat16, source.read("bfloat"))])
    data = ".data-00000-of-00001"
    assert (tmp_path / f"x{data}").read_bytes() == (GOLDEN / f"bfloat{data}").read_bytes()
    ours, theirs = tmp_path / "x.index", GOLDEN / "bfloat.index"
    assert list(TableReader(ours)) == list(TableReader(theirs))


def test_thousands_of_names(tmp_path):
    expected = {f"layer_{i:04d}/{'w' * 100}": np.int32(i) for i in range(6000)}
    write(tmp_path / "x", **expected)
    reader = BundleReader(str(tmp_path / "x"))
    assert reader.names() == sorted(expected)
    assert all(reader.read(name) == value for name, value in expected.items())


def test_damage_is_noticed(tmp_path):
    write(tmp_path / "x", v=np.arange(100.0), t=VALUES[7])
    data = tmp_path / "x.data-00000-of-00001"
    intact = data.read_bytes()
    for place in (8, 805, len(intact) - 2):
        damaged = bytearray(intact)
        damaged[place] ^= 1
        data.write_bytes(damaged)
        with pytest.raises(DataLossError, match="does not match"):
            [BundleReader(str(tmp_path / "x")).read(name) for name in ("v", "t")]
    data.write_bytes(intact[:100])
    with pytest.raises(DataLossError, match="truncated"):
        BundleReader(str(tmp_path / "x")).read("v")
    data.unlink()
    with pytest.raises(NotFoundError, match="no such file"):
        BundleReader(str(tmp_path / "x")).read("v")


def test_every_damage_of_texts_names_tensor_and_file(tmp_path):
    write(tmp_path / "x", t=VALUES[7])
    data = tmp_path / "x.data-00000-of-00001"
    intact = data.read_bytes()
    for place in range(len(intact)):
        data.write_bytes(intact[:place] + bytes([intact[place] ^ 1]) + intact[place + 1 :])
        with pytest.raises(DataLossError, match=rf"[Tt]ensor t in .*{data.name}"):
            BundleReader(str(tmp_path / "x")).read("t")


def test_damaged_indexes_are_refused(tmp_path):
    write(tmp_path / "x", v=np.arange(100.0))
    index = tmp_path / "x.index"
    intact = index.read_bytes()
    for damaged, message in (
        (intact[:20], "too short"),
        (intact[:-1] + b"\0", "magic"),
        (b"\1" + intact[1:], "checksum"),
    ):
        index.write_bytes(damaged)
        with pytest.raises(DataLossError, match=message):
            BundleReader(str(tmp_path / "x"))


@pytest.mark.parametrize("position", range(120))
def test_no_damage_of_an_index_gets_further_than_an_error(tmp_path, position):
    write(tmp_path / "x", v=np.arange(3.0))
    index = tmp_path / "x.index"
    damaged = bytearray(index.read_bytes())
    if position >= len(damaged):
        pytest.skip("the index is shorter")
    damaged[position] ^= 0x55
    index.write_bytes(damaged)
    try:
        found = BundleReader(str(tmp_path / "x")).read("v")
    except (DataLossError, NotFoundError):
        return
    np.testing.assert_array_equal(found, np.arange(3.0))  # damage of the footer's padding


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOSPC, ResourceExhaustedError),
        (errno.EACCES, PermissionDeniedError),
        (errno.EIO, UnknownError),
    ],
)
@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch, number, error, fails_at):
    write(tmp_path / "x", v=np.float32(1))
    before = names(tmp_path)
    calls = []
    sync = os.fsync

    def fails(descriptor):
        calls.append(descriptor)
        if len(calls) == fails_at:  # the first is that of the data, the second that of the index
            raise OSError(number, os.strerror(number))
        sync(descriptor)

    monkeypatch.setattr(bundle_writer.os, "fsync", fails)
    with pytest.raises(error, match="cannot be written"):
        write(tmp_path / "x", v=np.float32(2))
    assert names(tmp_path) == before
    assert BundleReader(str(tmp_path / "x")).read("v") == 1


@pytest.mark.parametrize("fails_at", range(1, 5))
def test_what_ends_an_overwriting_leaves_the_old_checkpoint_or_the_new_one(
    tmp_path, monkeypatch, fails_at
):
    write(tmp_path / "x", v=np.float32(1))
    calls = []
    rename = os.replace

    def ends(source, target):
        calls.append(target)
        if len(calls) == fails_at:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(bundle_writer.os, "replace", ends)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "x", v=np.float32(2))
    monkeypatch.undo()
    assert open_checkpoint(str(tmp_path / "x")).read("v") == (1 if fails_at <= 2 else 2)
    assert not [name for name in names(tmp_path) if "tempstate" in name]
    write(tmp_path / "x", v=np.float32(3))
    assert names(tmp_path) == ["x.data-00000-of-00001", "x.index"]
    assert open_checkpoint(str(tmp_path / "x")).read("v") == 3


def test_readers_never_see_a_mixture(tmp_path):
    """One thread overwrites the checkpoint all the time, the others read both tensors."""
    prefix = str(tmp_path / "x")

    def value(number):
        return {name: np.full(1000, number, np.float32) for name in ("a", "b")}

    write(tmp_path / "x", **value(0))
    ended = threading.Event()

    def reads(_):
        seen = set()
        while not ended.is_set():
            a, b = read_checkpoint(prefix, lambda reader: (reader.read("a"), reader.read("b")))
            assert set(a) == set(b)
            assert len(set(a)) == 1
            seen.add(float(a[0]))
        return seen

    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(reads, index) for index in range(3)]
        try:
            for number in range(1, 60):
                write(tmp_path / "x", **value(number))
        finally:
            ended.set()
        assert all(len(reader.result()) > 1 for reader in readers)


def test_without_hard_links_the_data_keep_other_names(tmp_path, monkeypatch):
    def refuses(source, target):
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(bundle_writer.os, "link", refuses)
    for value, data in enumerate(["00000-of-00001", "00001-of-00002", "00000-of-00001"]):
        write(tmp_path / "x", v=np.float32(value))
        assert names(tmp_path) == [f"x.data-{data}", "x.index"]
        assert open_checkpoint(str(tmp_path / "x")).read("v") == value


def test_shards_are_written_over_others_and_leave_nothing(tmp_path):
    for round_ in range(3):
        for shard in range(2):
            write(tmp_path / f"part{shard}", **{f"v{shard}": np.float32(10 * round_ + shard)})
        merge_bundles([str(tmp_path / "part0"), str(tmp_path / "part1")], str(tmp_path / "x"), True)
        reader = open_checkpoint(str(tmp_path / "x"))
        assert [reader.read("v0"), reader.read("v1")] == [10 * round_, 10 * round_ + 1]
        assert names(tmp_path) == [
            "x.data-00000-of-00002",
            "x.data-00001-of-00002",
            "x.index",
        ]
    write(tmp_path / "x", v=np.float32(1))
    assert names(tmp_path) == ["x.data-00000-of-00001", "x.index"]


def test_only_the_last_directory_is_made(tmp_path):
    write(tmp_path / "new" / "x", v=np.float32(1))
    assert BundleReader(str(tmp_path / "new" / "x")).read("v") == 1
    with pytest.raises(NotFoundError, match="cannot be written"):
        write(tmp_path / "a" / "b" / "x", v=np.float32(1))


def test_merging_joins_parts_and_refuses_one_tensor_twice(tmp_path):
    for shard, part in enumerate(("0,1", "1,2")):
        piece = TensorSlice.parse(part)
        array = np.full(piece.shape_in((3,)), shard, np.float32)
        write_bundle(
            str(tmp_path / f"part{shard}"), [Saved("v", dtypes.float32, array, piece, (3,))]
        )
    merge_bundles([str(tmp_path / "part0"), str(tmp_path / "part1")], str(tmp_path / "x"), True)
    assert BundleReader(str(tmp_path / "x")).read("v").tolist() == [0, 1, 1]
    write(tmp_path / "a", v=np.float32(1))
    write(tmp_path / "b", v=np.float32(1))
    with pytest.raises(Exception, match="saved twice"):
        merge_bundles([str(tmp_path / "a"), str(tmp_path / "b")], str(tmp_path / "y"), True)


def test_parts_that_do_not_cover_the_whole_are_noticed(tmp_path):
    array = np.zeros(1, np.float32)
    part = TensorSlice.parse("0,1")
    write_bundle(str(tmp_path / "x"), [Saved("v", dtypes.float32, array, part, (3,))])
    with pytest.raises(DataLossError, match="Only 1 of 3 elements"):
        BundleReader(str(tmp_path / "x")).read("v")


def test_keys_of_parts_are_those_of_tensorflow():
    """Established from files that TensorFlow wrote."""
    key = TensorSlice((0, 70), (2, -1)).key("a\0b")
    assert key.hex() == "00" + "6100ff620001" + "0102" + "8082" + "c0467f"


def test_entries_that_checksums_vouch_for_but_nobody_wrote(tmp_path: Path) -> None:
    """Whoever creates an index can create its checksums: every byte of the entries is changed."""
    prefix = f"{tmp_path}/model"
    write_bundle(
        prefix,
        [
            Saved("a", dtypes.float64, np.arange(6.0).reshape(2, 3)),
            Saved("b", dtypes.int8, np.int8(1)),
        ],
    )
    pairs = dict(TableReader(Path(f"{prefix}.index")))
    refused = 0
    for key, value in pairs.items():
        for changed in damages(value):
            Path(f"{prefix}.index").write_bytes(encode_table({**pairs, key: changed}))
            try:
                reader = BundleReader(prefix)
                for name in reader.names():
                    reader.read(name)
            except OpError:
                refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    "change",
    [{"size": -1}, {"offset": -8}, {"shard_id": -1}, {"dtype": 99}],
    ids=["size", "offset", "shard", "dtype"],
)
def test_numbers_that_cannot_be_are_refused_with_the_name(tmp_path: Path, change: dict) -> None:
    prefix = f"{tmp_path}/model"
    write_bundle(prefix, [Saved("a", dtypes.float64, np.arange(6.0))])
    pairs = dict(TableReader(Path(f"{prefix}.index")))
    entry = BundleEntryProto.FromString(pairs[b"a"])
    for field, number in change.items():
        setattr(entry, field, number)
    pairs[b"a"] = entry.SerializeToString()
    Path(f"{prefix}.index").write_bytes(encode_table(pairs))
    with pytest.raises(DataLossError, match="model is damaged: tensor a has"):
        BundleReader(prefix)
