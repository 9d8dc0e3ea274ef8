"""`file:` before a local path changes only the paths that are returned."""

import os

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.errors import UnimplementedError


@pytest.fixture
def uri(tmp_path):
    return f"file://{tmp_path}"


@pytest.fixture
def session():
    tf.reset_default_graph()
    tf.get_variable("v", initializer=[1.0, 2.0])
    tf.get_variable("w", initializer=[3.0], use_resource=True)
    tf.train.get_or_create_global_step()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        yield session


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("relative", [False, True])
def test_a_checkpoint(session, uri, tmp_path, sharded, relative):
    saver = tf.train.Saver(sharded=sharded, save_relative_paths=relative, max_to_keep=2)
    paths = [saver.save(session, f"{uri}/model", global_step=step) for step in range(3)]
    assert paths == [f"{uri}/model-{step}" for step in range(3)]
    assert saver.last_checkpoints == paths[1:]
    assert not tf.train.checkpoint_exists(paths[0])
    assert tf.train.checkpoint_exists(paths[2])
    assert tf.train.latest_checkpoint(uri) == paths[2]
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model-2")
    assert list(tf.train.get_checkpoint_state(uri).all_model_checkpoint_paths) == paths[1:]
    assert len(tf.train.get_checkpoint_mtimes(paths)) == 2
    for where in (uri, paths[2]):
        assert tf.train.list_variables(where) == [("global_step", []), ("v", [2]), ("w", [1])]
        assert tf.train.load_variable(where, "v").tolist() == [1, 2]
    session.run("v/Assign", {"v/initial_value:0": [9, 9]})
    saver.restore(session, paths[2])
    assert session.run("v:0").tolist() == [1, 2]
    tf.train.init_from_checkpoint(uri, {"v": "v"})
    assert tf.train.import_meta_graph(f"{paths[2]}.meta", import_scope="again") is not None
    tf.train.remove_checkpoint(paths[2])
    assert not [name for name in os.listdir(tmp_path) if name.startswith("model-2")]
    assert not os.path.exists("file:")


def test_objects(session, uri):
    with session.as_default():
        path = tf.train.Checkpoint(v=tf.global_variables()[0]).save(f"{uri}/deep/objects")
    assert path == f"{uri}/deep/objects-1"
    assert tf.train.latest_checkpoint(f"{uri}/deep") == path


def test_events_and_graphs(session, uri, tmp_path):
    tf.summary.FileWriter(f"{uri}/events", session.graph).close()
    (name,) = tf.gfile.ListDirectory(f"{uri}/events")
    assert any(event.graph_def for event in tf.train.summary_iterator(f"{uri}/events/{name}"))
    assert tf.train.write_graph(session.graph, f"{uri}/graphs", "g.pb") == f"{uri}/graphs/g.pb"
    assert (tmp_path / "graphs/g.pb").stat().st_size


def test_a_saved_model(session, uri, tmp_path):
    (tmp_path / "words").write_text("a\n")
    asset = tf.constant(f"{uri}/words", name="asset")
    tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, asset)
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.multiply(x, session.graph.get_tensor_by_name("v:0"), name="y")
    tf.saved_model.simple_save(session, f"{uri}/model", {"x": x}, {"y": y})
    with pytest.raises(AssertionError, match="already exists"):
        tf.saved_model.Builder(f"{uri}/model")
    assert tf.saved_model.maybe_saved_model_directory(f"{uri}/model")
    with tf.Graph().as_default(), tf.Session() as other:
        tf.saved_model.load(other, ["serve"], f"{uri}/model")
        assert other.run("y:0", {"x:0": [1, 10]}).tolist() == [1, 20]


def test_hooks(uri):
    tf.reset_default_graph()
    count = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    hooks = [tf.train.StopAtStepHook(3)]
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=f"{uri}/run", save_checkpoint_steps=2, hooks=hooks
    ) as session:
        while not session.should_stop():
            session.run(count)
    assert tf.train.latest_checkpoint(f"{uri}/run") == f"{uri}/run/model.ckpt-3"


def test_signs_stand_for_themselves(tmp_path, uri):
    for name in ("a%20b", "a#b", "a?b"):
        tf.gfile.MakeDirs(f"{uri}/{name}")
        assert (tmp_path / name).is_dir()
    np.testing.assert_equal(tf.gfile.Glob(f"{uri}/a?b"), [f"{uri}/a#b", f"{uri}/a?b"])


def test_a_storage_elsewhere_is_refused(session):
    with pytest.raises(UnimplementedError, match="File system scheme 's3' not implemented"):
        tf.train.Saver().save(session, "s3://bucket/model")
    with pytest.raises(UnimplementedError, match="File system scheme 's3' not implemented"):
        tf.summary.FileWriter("s3://bucket/events")
    assert not os.path.exists("s3:")
