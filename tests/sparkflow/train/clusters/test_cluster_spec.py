"""Clusters by job and index, from each of their forms."""

from typing import Any

import pytest

import sparkflow as tf
from sparkflow_runtime.protos import cluster_pb2, tensorflow_server_pb2

GIVEN = {"worker": ["w0:1", b"w1:2"], "ps": {3: "p3:4", 1: "p1:5"}}


def test_what_is_known_of_it() -> None:
    spec = tf.train.ClusterSpec(GIVEN)
    assert spec.jobs == ["worker", "ps"]
    assert (spec.num_tasks("worker"), spec.num_tasks("ps")) == (2, 2)
    assert spec.task_indices("ps") == [1, 3]
    assert spec.task_address("worker", 1) == "w1:2"
    assert spec.job_tasks("ps") == [None, "p1:5", None, "p3:4"]
    assert spec.as_dict() == {"worker": ["w0:1", "w1:2"], "ps": {3: "p3:4", 1: "p1:5"}}
    assert repr(spec).startswith("ClusterSpec({'ps': {")


def test_all_forms_are_the_same_cluster() -> None:
    spec = tf.train.ClusterSpec(GIVEN)
    message = spec.as_cluster_def()
    assert [job.name for job in message.job] == ["ps", "worker"]
    server = tensorflow_server_pb2.ServerDef(cluster=message)
    for form in (spec, message, server, spec.as_dict()):
        assert tf.train.ClusterSpec(form) == spec
    assert tf.train.ClusterSpec({"worker": ["w0:1"]}) != spec
    assert spec != GIVEN


def test_a_copy_is_a_copy() -> None:
    spec = tf.train.ClusterSpec({"worker": ["w0:1"]})
    copy = tf.train.ClusterSpec(spec)
    spec._tasks["worker"][1] = "w1:2"
    assert copy.num_tasks("worker") == 1


def test_none_is_false() -> None:
    assert not tf.train.ClusterSpec({})
    assert not tf.train.ClusterSpec(cluster_pb2.ClusterDef())
    assert tf.train.ClusterSpec({"worker": []})
    assert tf.train.ClusterSpec({"worker": []}).job_tasks("worker") == []
    assert tf.train.ClusterSpec({"worker": []}).as_dict() == {"worker": {}}


@pytest.mark.parametrize("given", [None, ["w0:1"], 3, {"worker": "w0:1"}, {"worker": [1]}, {1: []}])
def test_what_is_no_cluster(given: Any) -> None:
    with pytest.raises(TypeError, match="must be"):
        tf.train.ClusterSpec(given)


def test_what_is_not_there() -> None:
    spec = tf.train.ClusterSpec(GIVEN)
    with pytest.raises(ValueError, match="No task with index 2 in job 'ps'"):
        spec.task_address("ps", 2)
    for ask in (spec.num_tasks, spec.task_indices, spec.job_tasks):
        with pytest.raises(ValueError, match="No such job in cluster: 'chief'"):
            ask("chief")
    with pytest.raises(TypeError, match="unhashable"):
        hash(spec)
