"""Graphs from files, with their savers."""

import pytest

import sparkflow as tf
from sparkflow.train.checkpoints.importing import import_meta_graph_with_return_elements


def test_the_saver_that_came_with_the_graph_restores_its_variables(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable([1.0, 2.0], name="v")
        session.run(v.initializer)
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
    with tf.Graph().as_default() as graph, tf.Session() as session:
        saver = tf.train.import_meta_graph(prefix + ".meta")
        saver.restore(session, prefix)
        assert session.run(graph.get_tensor_by_name("v:0")).tolist() == [1.0, 2.0]


def test_a_graph_without_a_saver_gets_one_where_it_has_variables(tmp_path):
    path = str(tmp_path / "graph.meta")
    with tf.Graph().as_default():
        tf.Variable(1.0, name="v")
        tf.train.export_meta_graph(path)
    with tf.Graph().as_default() as graph:
        saver, (found,) = import_meta_graph_with_return_elements(
            path, import_scope="copy", return_elements=["v:0"]
        )
        assert isinstance(saver, tf.train.Saver)
        assert found is graph.get_tensor_by_name("copy/v:0")


def test_a_graph_without_variables_has_none(tmp_path):
    path = str(tmp_path / "graph.meta")
    with tf.Graph().as_default():
        tf.constant(1.0)
        tf.train.export_meta_graph(path)
    with tf.Graph().as_default():
        assert tf.train.import_meta_graph(path) is None


def test_a_missing_file_is_named(tmp_path):
    with tf.Graph().as_default(), pytest.raises(OSError, match="nowhere"):
        tf.train.import_meta_graph(str(tmp_path / "nowhere.meta"))


def test_a_graph_comes_to_lie_in_the_scope_that_is_open(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.multiply(tf.placeholder(tf.float32, [], name="x"), tf.Variable(2.0, name="v"), name="y")
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
        given = {"x": session.graph.get_tensor_by_name("x:0")}
        result = {"y": session.graph.get_tensor_by_name("y:0")}
        tf.saved_model.simple_save(session, str(tmp_path / "saved"), given, result)
    for import_scope, inside in ((None, "open"), ("own", "open/own")):
        with tf.Graph().as_default(), tf.Session() as session:
            with tf.name_scope("open"):
                saver = tf.train.import_meta_graph(prefix + ".meta", import_scope=import_scope)
            saver.restore(session, prefix)
            assert session.run(f"{inside}/y:0", {f"{inside}/x:0": 3.0}) == 6
        with tf.Graph().as_default(), tf.Session() as session:
            with tf.name_scope("open"):
                tf.saved_model.loader.load(
                    session, ["serve"], str(tmp_path / "saved"), import_scope=import_scope
                )
            assert session.run(f"{inside}/y:0", {f"{inside}/x:0": 3.0}) == 6
