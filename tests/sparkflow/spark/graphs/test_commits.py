"""Groups of changes by a step on parameter servers, and steps that lack some of them."""

from __future__ import annotations

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.graphs.commits import Commit, Commits, add_commits, as_replica, without
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.testing.local_cluster import LocalCluster

PS = [f"/job:ps/task:{each}" for each in range(2)]


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def variable(name: str, task: int):
    with tf.device(PS[task]):
        return tf.get_variable(name, [], tf.int64, tf.zeros_initializer())


def added(each, amount=1):
    with tf.device(each.device):
        return tf.assign_add(each, amount, use_locking=True)


def names(commits: Commits) -> list[list[str]]:
    return [[name for name in each.nodes if "Assign" not in name] for each in commits.groups]


def test_each_server_has_a_group_and_what_comes_after_another_one_has_its_own():
    a, b, c = variable("a", 0), variable("b", 1), variable("c", 0)
    both = tf.group(added(a), added(b))
    with tf.control_dependencies([both]):
        last = added(c)
    commits = add_commits(tf.group(last), 3)
    assert [len(each.nodes) for each in commits.groups] == [2, 2, 2]
    graph = tf.get_default_graph()
    devices = [graph.get_operation_by_name(each.nodes[0]).device for each in commits.groups]
    assert devices == [PS[0], PS[0], PS[1]]
    changed = [graph.get_operation_by_name(e.nodes[0]).inputs[0].op.name for e in commits.groups]
    assert changed == ["a", "c", "b"]


def test_what_joins_nodes_of_one_server_makes_no_group():
    a, b = variable("a", 0), variable("b", 0)
    with tf.device("/job:worker"), tf.control_dependencies([tf.group(added(a))]):
        made = added(b)
    assert [len(each.nodes) for each in add_commits(made, 2).groups] == [3]


def test_a_round_by_the_worker_makes_a_group_that_waits_for_nothing_of_its_own():
    a, b = variable("a", 0), variable("b", 0)
    first = added(a)
    with tf.device("/job:worker"):
        doubled = first * 2
    commits = add_commits(added(b, doubled), 2)
    assert len(commits.groups) == 2


def test_nothing_is_counted_where_nothing_is_changed_on_servers():
    commits = add_commits(tf.no_op(), 2)
    assert commits.groups == commits.initializers == ()


def test_what_has_been_made_is_left_out_and_the_rest_is_made():
    a, b, c = variable("a", 0), variable("b", 1), variable("c", 0)
    with tf.device("/job:worker"):
        x = tf.placeholder(tf.int64, [], name="x")
        seen = tf.identity(x, name="seen")
    both = tf.group(added(a, seen), added(b, seen))
    with tf.control_dependencies([both]):
        last = added(c)
    commits = add_commits(tf.group(last), 3)
    init = tf.group(tf.global_variables_initializer(), *commits.initializers)
    whole = tf.get_default_graph().as_graph_def()
    as_replica(whole, 2)
    by_variable = dict(zip("acb", commits.groups, strict=True))
    torn = without(whole, [by_variable["a"]])

    def values(session):
        return [int(v) for v in session.run(["a:0", "b:0", "c:0"])]

    def counts(session):
        return np.array(session.run([each.applied for each in commits.groups])).tolist()

    with LocalCluster(num_ps=2, num_workers=1) as cluster:
        sessions = []
        for message in (whole, torn):
            graph = tf.Graph()
            with graph.as_default():
                tf.import_graph_def(message, name="")
            target = cluster.target("worker", 0)
            sessions.append(tf.Session(target, graph=graph, credentials=cluster.credentials))
        first, second = sessions
        first.run(init.name)
        first.run(commits.train_op.name, {"x:0": 5})
        assert values(first) == [5, 5, 1]
        assert counts(first) == [[0, 0, 1]] * 3
        second.run(commits.train_op.name, {"x:0": 5})
        assert values(first) == [5, 10, 2]
        assert counts(first) == [[0, 0, 1], [0, 0, 2], [0, 0, 2]]
        for each in sessions:
            each.close()


def test_results_that_are_no_variables_are_refused():
    graph_def = GraphDef()
    handle = graph_def.node.add(name="h", op="VarHandleOp")
    handle.attr["dtype"].type = tf.float32.as_datatype_enum
    graph_def.node.add(name="gone", op="ResourceCountUpTo", input=["h"])
    graph_def.node.add(name="reads", op="Identity", input=["gone"])
    with pytest.raises(ValueError, match="reads reads gone"):
        without(graph_def, [Commit(("gone",), "count:0")])
