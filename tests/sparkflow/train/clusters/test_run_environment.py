"""TF_CONFIG."""

import json

import pytest

from sparkflow.train.clusters import run_environment

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "b:2"], "ps": ["c:1", "c:2", "c:3"]}


def parsed(**content):
    return run_environment.parse(json.dumps(content))


def test_nothing_set_is_a_single_process():
    found = run_environment.from_environment({})
    assert (found.task_type, found.task_id, found.master) == ("worker", 0, "")
    assert found.is_chief
    assert (found.num_worker_replicas, found.num_ps_replicas) == (1, 0)
    assert found.global_id_in_cluster == 0
    with pytest.raises(ValueError, match="nothing to serve"):
        found.server()


@pytest.mark.parametrize("job", ["chief", "master"])
def test_a_cluster_of_one_task_is_local(job):
    task = {"cluster": {job: ["a:1"]}, "task": {"type": job, "index": 0}}
    assert parsed(**task).master == ""
    assert parsed(**task).is_chief
    assert parsed(**task, session_master="grpc://b:1").master == "grpc://b:1"


@pytest.mark.parametrize(
    ("kind", "index", "chief", "number", "master"),
    [
        ("chief", 0, True, 0, "grpc://a:1"),
        ("worker", 1, False, 2, "grpc://b:2"),
        ("ps", 2, False, 5, "grpc://c:3"),
        ("evaluator", 0, False, None, ""),
    ],
)
def test_tasks_of_a_cluster(kind, index, chief, number, master):
    text = json.dumps({"cluster": CLUSTER, "task": {"type": kind, "index": index}})
    found = run_environment.from_environment({"TF_CONFIG": text})
    assert (found.task_type, found.task_id) == (kind, index)
    assert found.is_chief is chief
    assert found.global_id_in_cluster == number
    assert found.master == master
    assert (found.num_worker_replicas, found.num_ps_replicas) == (3, 3)
    assert found.cluster_spec.as_dict() == CLUSTER


def test_a_server_for_the_task():
    found = parsed(cluster={"chief": ["localhost:0"]}, task={"type": "chief", "index": 0})
    server = found.server(start=False)
    assert (server.server_def.job_name, server.server_def.task_index) == ("chief", 0)


def test_masters_that_are_given():
    found = parsed(
        cluster=CLUSTER,
        task={"type": "worker", "index": 0},
        session_master="grpc://m:1",
        eval_session_master="grpc://e:1",
        environment="test",
    )
    assert (found.master, found.evaluation_master) == ("grpc://m:1", "grpc://e:1")
    assert found.environment == "test"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"task": {"type": "ps", "index": 0}}, "task type must be WORKER"),
        ({"task": {"type": "worker", "index": 1}}, "task index must be 0"),
        ({"cluster": {"worker": ["a:1"]}}, 'it must have one "chief" node'),
        ({"cluster": {"chief": ["a:1", "b:1"]}}, 'must have only one "chief" node'),
        ({"cluster": CLUSTER}, "task type must be set"),
        ({"cluster": CLUSTER, "task": {"type": "ps"}}, "task index must be set"),
        ({"cluster": CLUSTER, "task": {"type": "x", "index": 0}}, "x is not a valid task_type"),
        ({"cluster": CLUSTER, "task": {"type": "ps", "index": 3}}, "3 is not a valid task_id"),
        ({"cluster": CLUSTER, "task": {"type": "ps", "index": -1}}, "must be non-negative"),
        ({"cluster": CLUSTER, "task": {"type": "ps", "index": "a"}}, "must be an integer"),
        ({"cluster": [1]}, "'cluster' in TF_CONFIG must be an object"),
        ({"cluster": {**CLUSTER, "evaluator": ["e:1"]}}, "must not be part of the cluster"),
    ],
)
def test_what_does_not_fit_together(content, text):
    with pytest.raises(ValueError, match=text):
        parsed(**content)


@pytest.mark.parametrize("text", ["{", "[]", "3"])
def test_what_is_no_object(text):
    with pytest.raises(ValueError, match="TF_CONFIG must be a JSON object"):
        run_environment.parse(text)
