"""`InMemoryEvaluatorHook`: evaluations of what a training session holds."""

import json

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.estimator.early_stopping import read_eval_metrics

X = np.random.RandomState(0).randn(40, 2).astype(np.float32)
Y = (X @ [1.0, 2.0])[:, None].astype(np.float32)


def model_fn(features, labels, mode):
    hidden = tf.layers.batch_normalization(features["x"], training=mode == "train", momentum=0.5)
    loss = tf.losses.mean_squared_error(labels, tf.layers.dense(hidden, 1))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        step = tf.train.GradientDescentOptimizer(0.1)
        train_op = step.minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def arrays(epochs):
    return tf.estimator.inputs.numpy_input_fn({"x": X}, Y, 16, epochs, shuffle=False)


def dataset():
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(16)


@pytest.mark.parametrize("input_fn", [arrays(1), dataset], ids=["arrays", "dataset"])
def test_it_finds_what_evaluations_of_checkpoints_find(input_fn, tmp_path):
    config = tf.estimator.RunConfig(save_checkpoints_steps=10, tf_random_seed=1)
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path), config)
    hook = tf.estimator.experimental.InMemoryEvaluatorHook(
        estimator, input_fn, every_n_iter=10, name="memory"
    )
    estimator.train(arrays(None), hooks=[hook], max_steps=25)
    found = read_eval_metrics(estimator.eval_dir("memory"))
    assert list(found) == [0, 10, 20, 25]
    for step, metrics in found.items():
        saved = estimator.evaluate(input_fn, checkpoint_path=f"{tmp_path}/model.ckpt-{step}")
        assert metrics["loss"] == pytest.approx(saved["loss"], rel=1e-6)
    assert found[25]["loss"] < found[10]["loss"] < found[0]["loss"]


def test_a_scaffold_of_the_model_still_initialises(tmp_path):
    called = []

    def with_scaffold(features, labels, mode):
        spec = model_fn(features, labels, mode)
        if mode != "eval":
            return spec
        given = tf.train.Scaffold(init_fn=lambda scaffold, session: called.append(mode))
        return tf.estimator.EstimatorSpec(mode, loss=spec.loss, scaffold=given)

    estimator = tf.estimator.Estimator(with_scaffold, str(tmp_path))
    hook = tf.estimator.experimental.InMemoryEvaluatorHook(estimator, dataset, steps=1)
    estimator.train(arrays(None), hooks=[hook], max_steps=3)
    assert called == ["eval"] * 2
    first, last = read_eval_metrics(estimator.eval_dir()).values()
    assert last["loss"] < first["loss"]


def test_clusters_and_numbers_are_refused(tmp_path, monkeypatch):
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    with pytest.raises(ValueError, match="every_n_iter must be above 0"):
        tf.estimator.experimental.InMemoryEvaluatorHook(estimator, dataset, every_n_iter=0)
    cluster = {"chief": ["a:1"], "ps": ["b:1"]}
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    with pytest.raises(ValueError, match="1 parameter servers"):
        tf.estimator.experimental.InMemoryEvaluatorHook(estimator, dataset)
