import os

import pytest

import sparkflow as tf
from sparkflow_runtime.protos.checkpoint_state_pb2 import CheckpointState


def touch(path):
    path.write_bytes(b"")


def test_the_newest_checkpoint_that_exists(tmp_path):
    assert tf.train.latest_checkpoint(tmp_path) is None
    assert tf.train.get_checkpoint_state(tmp_path) is None
    tf.train.update_checkpoint_state(tmp_path, f"{tmp_path}/x-2", [f"{tmp_path}/x-1"])
    assert tf.train.latest_checkpoint(tmp_path) is None  # the file names one that no longer exists
    touch(tmp_path / "x-2.index")
    assert tf.train.latest_checkpoint(tmp_path) == f"{tmp_path}/x-2"
    state = tf.train.get_checkpoint_state(tmp_path)
    assert list(state.all_model_checkpoint_paths) == [f"{tmp_path}/x-1", f"{tmp_path}/x-2"]


def test_paths_are_relative_to_a_relative_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("train")
    state = tf.train.generate_checkpoint_state_proto("train", "train/x-1", ["/a/x-0", "train/x-1"])
    assert state == CheckpointState(
        model_checkpoint_path="x-1", all_model_checkpoint_paths=["/a/x-0", "x-1"]
    )
    tf.train.update_checkpoint_state("train", "train/x-1", latest_filename="other")
    found = tf.train.get_checkpoint_state("train", "other")
    assert found.model_checkpoint_path == "train/x-1"


def test_times_belong_to_paths():
    state = tf.train.generate_checkpoint_state_proto(
        "/a", "/a/x", None, all_model_checkpoint_timestamps=[3.5], last_preserved_timestamp=1.5
    )
    assert list(state.all_model_checkpoint_timestamps) == [3.5]
    assert state.last_preserved_timestamp == 1.5
    with pytest.raises(ValueError, match="timestamps, if provided, must match"):
        tf.train.generate_checkpoint_state_proto(
            "/a", "/a/x", None, all_model_checkpoint_timestamps=[3.5, 4.5]
        )


def test_state_files_that_say_nothing(tmp_path):
    (tmp_path / "checkpoint").write_text("what is this")
    assert tf.train.get_checkpoint_state(tmp_path) is None
    (tmp_path / "checkpoint").write_text('all_model_checkpoint_paths: "x"')
    with pytest.raises(ValueError, match="Invalid checkpoint state loaded from"):
        tf.train.get_checkpoint_state(tmp_path)
    with pytest.raises(RuntimeError, match="conflicts with path used for checkpoint state"):
        tf.train.update_checkpoint_state(tmp_path, f"{tmp_path}/checkpoint")


def test_files_of_a_prefix(tmp_path):
    names = ["x-1.index", "x-1.meta", "x-1.data-00000-of-00001", "x-10.index", "old"]
    for name in names:
        touch(tmp_path / name)
    prefixes = [str(tmp_path / name) for name in ("x-1", "gone", "old")]
    assert [tf.train.checkpoint_exists(each) for each in prefixes] == [True, False, True]
    os.utime(tmp_path / "x-1.index", (5, 7.25))
    assert tf.train.get_checkpoint_mtimes(prefixes[:2]) == [7.25]
    tf.train.remove_checkpoint(prefixes[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "x-10.index"]
    tf.train.remove_checkpoint(prefixes[2], tf.train.SaverDef.V1)
    assert [path.name for path in tmp_path.iterdir()] == ["x-10.index"]
