"""Hooks that end training because of evaluations: when they stop, and whom they tell."""

import json

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.estimator.early_stopping import read_eval_metrics

experimental = tf.estimator.experimental
X = np.float32([[0], [1], [2], [3]])


def batches(epochs=None):
    return tf.estimator.inputs.numpy_input_fn({"x": X}, X[:, 0], 4, epochs, shuffle=False)


def model_fn(features, labels, mode):
    """A loss that falls to 0 at step 3, and rises from there."""
    step = tf.train.get_or_create_global_step()
    loss = tf.abs(tf.cast(step, tf.float32) - 3) + 0 * tf.reduce_sum(features["x"])
    train_op = tf.assign_add(step, 1)
    accuracy = tf.metrics.mean(tf.cast(step, tf.float32) / 10)
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops={"accuracy": accuracy}
    )


@pytest.fixture
def estimator(tmp_path):
    config = tf.estimator.RunConfig(save_checkpoints_steps=1)
    return tf.estimator.Estimator(model_fn, str(tmp_path), config)


def trained(estimator, hook, most=12):
    """The step at which training with evaluations after each step ended."""
    result, _ = tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(batches(), max_steps=most, hooks=[hook]),
        tf.estimator.EvalSpec(batches(1), throttle_secs=0),
    )
    return result["global_step"]


EVERY = {"run_every_secs": None, "run_every_steps": 1}


@pytest.mark.parametrize(
    ("hook", "given", "end"),
    [
        ("stop_if_higher_hook", ("accuracy", 0.45), 5),
        ("stop_if_higher_hook", ("accuracy", 5.0), 12),
        ("stop_if_lower_hook", ("loss", 0.5), 3),
        ("stop_if_no_increase_hook", ("accuracy", 2), 12),
        ("stop_if_no_decrease_hook", ("loss", 2), 5),
        ("stop_if_no_decrease_hook", ("loss", 4), 7),
    ],
)
def test_training_ends_after_the_evaluation_that_says_so(hook, given, end, estimator):
    assert trained(estimator, getattr(experimental, hook)(estimator, *given, **EVERY)) == end


def test_evaluations_before_the_least_step_do_not_count(estimator):
    hook = experimental.stop_if_lower_hook(estimator, "loss", 2.5, min_steps=7, **EVERY)
    assert trained(estimator, hook) == 12
    hook = experimental.stop_if_higher_hook(estimator, "loss", 0.5, min_steps=7, **EVERY)
    assert trained(estimator, hook, most=20) == 13


def test_a_model_that_stopped_early_may_be_trained_on(estimator):
    assert trained(estimator, experimental.stop_if_lower_hook(estimator, "loss", 0.5, **EVERY)) == 3
    estimator.train(batches(), max_steps=9)
    assert estimator.get_variable_value("global_step") == 9


def test_steps_between_two_looks_are_kept(estimator):
    asked = []

    def ask():
        asked.append(len(asked))
        return False

    hook = experimental.make_early_stopping_hook(
        estimator, ask, run_every_secs=None, run_every_steps=4
    )
    estimator.train(batches(), hooks=[hook], max_steps=12)
    assert len(asked) == 3


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """An estimator of a task that is not the chief."""
    cluster = {"chief": ["a:1"], "worker": ["b:1"]}
    task = {"type": "worker", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    return tf.estimator.Estimator(model_fn, str(tmp_path))


def test_other_tasks_end_when_the_chief_says_so(estimator, worker):
    asked = []
    chief = experimental.make_early_stopping_hook(
        estimator, lambda: asked.append(1) or len(asked) == 2, **EVERY
    )
    hooks = [chief, experimental.make_early_stopping_hook(worker, bool, **EVERY)]
    with tf.Graph().as_default():
        train = tf.assign_add(tf.train.create_global_step(), 1)
        for hook in hooks:
            hook.begin()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())

            def stops(hook):
                context = tf.train.SessionRunContext(None, session)
                _, value = session.run([train, hook.before_run(context).fetches])
                hook.after_run(context, tf.train.SessionRunValues(value, None, None))
                return context.stop_requested

            assert [stops(hook) for hook in hooks * 2] == [False, False, True, True]


def test_the_metrics_of_all_files_are_read_in_the_order_of_steps(tmp_path):
    for step, name, value in [(7, "b", 2.0), (3, "a", 1.0), (7, "a", 3.0)]:
        with tf.summary.FileWriter(str(tmp_path), filename_suffix=f".{step}{name}") as writer:
            writer.add_summary(
                tf.Summary(value=[tf.Summary.Value(tag=name, simple_value=value)]), step
            )
    assert list(read_eval_metrics(str(tmp_path)).items()) == [(3, {"a": 1}), (7, {"a": 3, "b": 2})]
    assert not read_eval_metrics(str(tmp_path / "nowhere"))


def test_a_file_that_is_being_written_is_read_as_far_as_it_goes(tmp_path):
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        for step in (1, 2):
            writer.add_summary(
                tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=1.0)]), step
            )
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    assert list(read_eval_metrics(str(tmp_path))) == [1]


def test_what_cannot_be_asked_is_refused(estimator):
    with pytest.raises(TypeError, match=r"tf\.estimator\.Estimator"):
        experimental.make_early_stopping_hook("estimator", bool)
    with pytest.raises(TypeError, match="callable"):
        experimental.make_early_stopping_hook(estimator, True)
    with pytest.raises(ValueError, match="Only one of"):
        experimental.make_early_stopping_hook(estimator, bool, 60, 5)
    with pytest.raises(ValueError, match="Either every_secs or every_steps"):
        experimental.make_early_stopping_hook(estimator, bool, None)
    hook = experimental.stop_if_higher_hook(estimator, "f1", 0.5, **EVERY)
    with pytest.raises(ValueError, match=r'no metric "f1".*accuracy'):
        trained(estimator, hook)


def test_tasks_that_do_not_save_wait_for_the_checkpoint(estimator, worker):
    assert isinstance(
        experimental.make_stop_at_checkpoint_step_hook(estimator, 5), tf.train.StopAtStepHook
    )
    estimator.train(batches(), steps=4)
    for last, stops in ((4, True), (5, False), (9, False)):
        hook = experimental.make_stop_at_checkpoint_step_hook(worker, last, 0.0)
        context = tf.train.SessionRunContext(None, None)
        hook.after_run(context, tf.train.SessionRunValues(4, None, None))
        assert context.stop_requested == stops
