import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train.checkpoints import reading
from support.clocks import give_time


@pytest.fixture
def folder(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.Variable([[1.0, 2.0]], name="w")
        tf.Variable(3, name="n")
        tf.Variable("text", name="t")
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, f"{tmp_path}/x", 1)
    return tmp_path


def test_readers(folder):
    reader = tf.train.NewCheckpointReader(f"{folder}/x-1")
    assert reader.get_variable_to_shape_map() == {"n": [], "t": [], "w": [1, 2]}
    assert reader.get_variable_to_dtype_map() == {"n": tf.int32, "t": tf.string, "w": tf.float32}
    assert reader.has_tensor("w")
    assert not reader.has_tensor("v")
    np.testing.assert_array_equal(reader.get_tensor("w"), [[1, 2]])
    assert reader.get_tensor("n") == 3
    assert reader.get_tensor("t") == b"text"
    assert reader.debug_string() == b"n (DT_INT32) []\nt (DT_STRING) []\nw (DT_FLOAT) [1,2]\n"
    with pytest.raises(tf.errors.NotFoundError, match="Key v not found in checkpoint"):
        reader.get_tensor("v")


def test_directories_stand_for_their_newest_checkpoint(folder, tmp_path):
    assert tf.train.list_variables(str(folder)) == [("n", []), ("t", []), ("w", [1, 2])]
    assert tf.train.load_variable(folder, "n:0") == 3
    assert tf.train.load_checkpoint(folder).has_tensor("w")
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="Couldn't find 'checkpoint' file"):
        tf.train.load_checkpoint(tmp_path / "none")
    with pytest.raises(tf.errors.NotFoundError, match="Failed to find any matching files"):
        tf.train.load_checkpoint(folder / "y")


def test_each_new_checkpoint_comes_once(folder, monkeypatch):
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            (folder / "x-2.index").write_bytes(b"")
            tf.train.update_checkpoint_state(folder, f"{folder}/x-2")

    give_time(monkeypatch, reading, sleep=sleep)
    checkpoints = tf.train.checkpoints_iterator(str(folder))
    assert [next(checkpoints), next(checkpoints)] == [f"{folder}/x-1", f"{folder}/x-2"]
    assert len(slept) >= 3


def test_waiting_ends(folder):
    asked = []

    def stop():
        asked.append(1)
        return len(asked) == 2

    found = list(tf.train.checkpoints_iterator(folder, timeout=0, timeout_fn=stop))
    assert found == [f"{folder}/x-1"]
    assert len(asked) == 2
    assert list(tf.train.checkpoints_iterator(folder / "none", timeout=0)) == []
