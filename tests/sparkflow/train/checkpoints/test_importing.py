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
