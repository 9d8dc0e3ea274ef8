import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.checkpoint import opening
from sparkflow_runtime.checkpoint.bundle_reader import BundleReader
from sparkflow_runtime.checkpoint.bundle_writer import Saved, write_bundle
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError, NotFoundError


def save(prefix, **tensors):
    write_bundle(
        str(prefix),
        [Saved(name, dtypes.as_dtype(array.dtype), array) for name, array in tensors.items()],
    )


def test_the_second_format_is_known_by_its_index(tmp_path):
    save(tmp_path / "model", w=np.ones(3, np.float32))
    found = opening.open_checkpoint(str(tmp_path / "model"))
    assert isinstance(found, BundleReader)
    np.testing.assert_array_equal(found.read("w"), np.ones(3))


def test_there_must_be_one_of_either_format(tmp_path):
    with pytest.raises(NotFoundError):
        opening.open_checkpoint(str(tmp_path / "model"))


def test_dtypes_must_be_those_that_were_saved(tmp_path):
    save(tmp_path / "model", w=np.ones(3, np.float32))
    found = opening.open_checkpoint(str(tmp_path / "model"))
    opening.require_dtype(found, "w", dtypes.float32)
    with pytest.raises(InvalidArgumentError, match=r"int32 .* original dtype float32"):
        opening.require_dtype(found, "w", dtypes.int32)
    with pytest.raises(NotFoundError):
        opening.require_dtype(found, "v", dtypes.float32)


def test_reads_again_where_another_checkpoint_has_come(tmp_path):
    prefix = tmp_path / "model"
    save(prefix, w=np.zeros(3, np.float32))
    seen = []

    def read(reader):
        if not seen:
            save(prefix, w=np.ones(3, np.float32))  # while the first one is being read
            seen.append(reader)
            raise NotFoundError(message="the data file has gone")
        return reader.read("w")

    np.testing.assert_array_equal(opening.read_checkpoint(str(prefix), read), np.ones(3))


def test_does_not_read_again_what_has_not_changed(tmp_path):
    save(tmp_path / "model", w=np.zeros(3, np.float32))
    calls = []

    def read(reader):
        calls.append(reader)
        raise DataLossError(message="damaged")

    with pytest.raises(DataLossError, match="damaged"):
        opening.read_checkpoint(str(tmp_path / "model"), read)
    assert len(calls) == 1


def test_gives_up_where_checkpoints_come_too_fast(tmp_path):
    prefix = tmp_path / "model"
    save(prefix, w=np.zeros(3, np.float32))
    calls = []

    def read(reader):
        calls.append(reader)
        save(prefix, w=np.full(3, len(calls), np.float32))
        raise NotFoundError(message="gone")

    with pytest.raises(NotFoundError, match="gone"):
        opening.read_checkpoint(str(prefix), read)
    assert len(calls) == opening._MOST_TRIES + 1
