import os

import numpy as np
import pytest

from sparkflow_runtime.checkpoint.tensors import read_tensors, write_tensors
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError, NotFoundError

RANDOM = np.random.default_rng(7)


def some_tensors():
    return {
        "dense/kernel": RANDOM.standard_normal((5, 3)).astype(np.float32),
        "transposed": RANDOM.standard_normal((4, 2)).T,
        "global_step": np.array(17, np.int64),
        "mask": np.array([True, False]),
        "empty": np.zeros((0, 4), np.float16),
    }


def test_what_was_written_is_read(tmp_path):
    tensors = some_tensors()
    write_tensors(tmp_path / "variables.safetensors", tensors)
    read = read_tensors(tmp_path / "variables.safetensors")
    assert read.keys() == tensors.keys()
    for name, array in tensors.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


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
    with pytest.raises(OSError, match="No space left"):
        write_tensors(path, {"w": np.zeros(2)})
    monkeypatch.undo()
    np.testing.assert_array_equal(read_tensors(path)["w"], np.ones(2))
    assert [p.name for p in tmp_path.iterdir()] == ["v.safetensors"]
