"""`RunConfig`: defaults, values from TF_CONFIG, copies."""

import json

import pytest

import sparkflow as tf

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}


def config_of(monkeypatch, task_type, index=0, **given):
    task = {"type": task_type, "index": index}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": CLUSTER, "task": task}))
    return tf.estimator.RunConfig(**given)


def test_defaults():
    config = tf.estimator.RunConfig()
    assert (config.save_checkpoints_secs, config.save_checkpoints_steps) == (600, None)
    assert (config.save_summary_steps, config.log_step_count_steps) == (100, 100)
    assert (config.keep_checkpoint_max, config.tf_random_seed) == (5, None)
    assert (config.task_type, config.task_id, config.is_chief, config.master) == (
        "worker",
        0,
        True,
        "",
    )
    assert (config.num_ps_replicas, config.num_worker_replicas) == (0, 1)


def test_tasks_of_a_cluster(monkeypatch):
    worker = config_of(monkeypatch, "worker", 1)
    assert (worker.is_chief, worker.task_id, worker.master) == (False, 1, "grpc://c:1")
    assert (worker.num_ps_replicas, worker.num_worker_replicas) == (1, 3)
    assert worker.cluster_spec.as_dict() == CLUSTER
    assert config_of(monkeypatch, "chief").is_chief
    assert config_of(monkeypatch, "ps").task_type == "ps"


def test_an_evaluator_is_outside_the_cluster(monkeypatch):
    config = config_of(monkeypatch, "evaluator")
    assert (config.task_type, config.is_chief, config.master) == ("evaluator", False, "")
    assert (config.num_ps_replicas, config.num_worker_replicas) == (0, 0)
    assert config.cluster_spec.as_dict() == {}


def test_the_directory_of_the_environment_is_used(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"model_dir": "/a"}))
    assert tf.estimator.RunConfig().model_dir == "/a"
    assert tf.estimator.RunConfig("/a").replace(tf_random_seed=1).model_dir == "/a"
    with pytest.raises(ValueError, match="must have the same value as the model_dir in TF_CONFIG"):
        tf.estimator.RunConfig("/b")
    monkeypatch.setenv("TF_CONFIG", json.dumps({"model_dir": ""}))
    with pytest.raises(ValueError, match="model_dir in TF_CONFIG should be a non-empty text"):
        tf.estimator.RunConfig()


def test_replace_gives_a_copy():
    config = tf.estimator.RunConfig(model_dir="/a", save_checkpoints_steps=5)
    assert config.save_checkpoints_secs is None
    other = config.replace(model_dir="/b", save_checkpoints_secs=3)
    assert (other.model_dir, other.save_checkpoints_secs) == ("/b", 3)
    assert other.save_checkpoints_steps is None
    assert (config.model_dir, config.save_checkpoints_steps) == ("/a", 5)


@pytest.mark.parametrize(
    "given",
    [
        {"save_checkpoints_steps": 1, "save_checkpoints_secs": 1},
        {"save_summary_steps": -1},
        {"keep_checkpoint_max": -1},
        {"log_step_count_steps": 0},
        {"tf_random_seed": 1.5},
        {"session_config": {}},
        {"model_dir": ""},
        {"train_distribute": "mirrored"},
    ],
    ids=str,
)
def test_settings_out_of_range(given):
    with pytest.raises(ValueError, match="|".join(given)):
        tf.estimator.RunConfig(**given)


def test_other_names_cannot_be_replaced():
    with pytest.raises(ValueError, match="Replacing master is not supported"):
        tf.estimator.RunConfig().replace(master="grpc://a:1")
