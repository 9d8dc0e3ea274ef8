"""Graphs cut down to what some of their nodes need."""

import sparkflow as tf
from sparkflow.graph.messages.pruning import nodes_needed


def test_the_rest_is_cut_off_with_the_wish_to_be_beside_it():
    with tf.Graph().as_default() as graph:
        far, near = tf.constant(1.0, name="far"), tf.constant(2.0, name="near")
        with tf.colocate_with(far), tf.colocate_with(near):
            beside = tf.add(near, 1.0, name="beside")
        with tf.colocate_with(far):
            tf.add(beside, 1.0, name="y")
    cut = nodes_needed(graph.as_graph_def(), ["y", "absent"])
    names = [node.name for node in cut.node]
    assert names == ["near", "beside/y", "beside", "y/y", "y"]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(cut, name="")
        assert session.graph.get_operation_by_name("beside").colocation_groups() == [b"loc:@near"]
        assert session.run("y:0") == 4.0
