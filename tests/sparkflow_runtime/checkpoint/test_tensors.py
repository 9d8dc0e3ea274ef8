import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from sparkflow_runtime.checkpoint.tensors import read_tensors, unpack_tensors, write_tensors
from sparkflow_runtime.dtypes import bfloat16
from sparkflow_runtime.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
)
from support.damage import damages, disk_of

RANDOM = np.random.default_rng(7)


def some_tensors():
    return {
        "dense/kernel": RANDOM.standard_normal((5, 3)).astype(np.float32),
        "transposed": RANDOM.standard_normal((4, 2)).T,
        "global_step": np.array(17, np.int64),
        "mask": np.array([True, False]),
        "empty": np.zeros((0, 4), np.float16),
        "narrow": RANDOM.standard_normal((3, 2)).astype(bfloat16.as_numpy_dtype),
        "narrow number": np.array(1.5, bfloat16.as_numpy_dtype),
    }


def test_what_was_written_is_read(tmp_path):
    tensors = some_tensors()
    write_tensors(tmp_path / "variables.safetensors", tensors)
    read = read_tensors(tmp_path / "variables.safetensors")
    assert read.keys() == tensors.keys()
    for name, array in tensors.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


def test_no_damage_gives_other_arrays(tmp_path):
    """Names, dtypes, shapes, checksums, padding: each byte changed twice, and every cut."""
    path = tmp_path / "v.safetensors"
    tensors = {
        "w": np.arange(6, dtype=np.int32).reshape(2, 3),
        "e": np.zeros((0, 4), np.float16),
        "b": np.array([1, -2], bfloat16.as_numpy_dtype),
    }
    write_tensors(path, tensors)
    for damaged in damages(path.read_bytes()):
        path.write_bytes(damaged)
        for read in (lambda: read_tensors(path), lambda: unpack_tensors(path.read_bytes(), "v")):
            try:
                found = read()
            except DataLossError:
                continue
            assert found.keys() == tensors.keys()
            for name, array in found.items():
                assert (array.dtype, array.shape) == (tensors[name].dtype, tensors[name].shape)
                np.testing.assert_array_equal(array, tensors[name])


def test_files_of_before_have_no_checksum_of_all_or_none_at_all(tmp_path, caplog):
    path = tmp_path / "v.safetensors"
    save_file({"w": np.ones(2)}, path)
    assert read_tensors(path)["w"].tolist() == [1, 1]
    assert "has no checksums" in caplog.text
    save_file({"w": np.ones(2), "b": np.ones(1)}, path, {"crc32/w": "00000000"})
    with pytest.raises(DataLossError, match=r"no checksum for tensor 'b'|'w' .* is damaged"):
        read_tensors(path)


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path):
    path = tmp_path / "v.safetensors"
    write_tensors(path, {"w": np.ones(2)})
    with (
        disk_of(2048),
        pytest.raises(ResourceExhaustedError, match=r"v\.safetensors \(80,000 bytes\); File too"),
    ):
        write_tensors(path, {"w": np.ones(10_000)})
    assert [each.name for each in tmp_path.iterdir()] == ["v.safetensors"]
    assert read_tensors(path)["w"].tolist() == [1, 1]


def test_every_flipped_byte_of_a_tensor_is_noticed(tmp_path):
    path = tmp_path / "v.safetensors"
    write_tensors(path, {"w": np.arange(8, dtype=np.int32)})
    good = path.read_bytes()
    for position in range(len(good) - 32, len(good)):
        bad = bytearray(good)
        bad[position] ^= 1
        path.write_bytes(bad)
        with pytest.raises(DataLossError, match=r"Tensor 'w' in .* is damaged"):
            read_tensors(path)


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "v.safetensors"
    write_tensors(path, some_tensors())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataLossError, match="cannot be read"):
        read_tensors(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(NotFoundError, match=r"no file of tensors at .*nowhere"):
        read_tensors(tmp_path / "nowhere")


def test_a_dtype_that_cannot_be_saved_leaves_the_old_file(tmp_path):
    path = tmp_path / "v.safetensors"
    write_tensors(path, {"w": np.ones(2)})
    with pytest.raises(InvalidArgumentError, match="Tensor 's' has dtype object"):
        write_tensors(path, {"s": np.array([b"text"], object)})
    assert list(read_tensors(path)) == ["w"]


def test_a_failed_write_leaves_the_old_file_and_no_partial_one(tmp_path, monkeypatch):
    path = tmp_path / "v.safetensors"
    write_tensors(path, {"w": np.ones(2)})

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(ResourceExhaustedError, match=r"v\.safetensors \(16 bytes\); No space left"):
        write_tensors(path, {"w": np.zeros(2)})
    monkeypatch.undo()
    np.testing.assert_array_equal(read_tensors(path)["w"], np.ones(2))
    assert [p.name for p in tmp_path.iterdir()] == ["v.safetensors"]
