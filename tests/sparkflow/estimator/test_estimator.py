"""`Estimator`: resumed training, evaluation, prediction, export, wrong use."""

import functools
import os

import numpy as np
import pytest

import sparkflow as tf

X = np.float32([[0], [1], [2], [3]])
Y = 2 * X + 1


def model_fn(features, labels, mode, params):
    out = tf.layers.dense(features["x"], 1, kernel_initializer=tf.zeros_initializer())
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": out, "twice": 2.0 * out})
    loss = tf.losses.mean_squared_error(labels, out)
    train_op = tf.train.GradientDescentOptimizer(params["rate"]).minimize(
        loss, tf.train.get_global_step()
    )
    metrics = {"mae": tf.metrics.mean_absolute_error(labels, out)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def batches(epochs=None, batch_size=4):
    return tf.estimator.inputs.numpy_input_fn(
        {"x": X}, Y, batch_size=batch_size, num_epochs=epochs, shuffle=False
    )


def made(directory, **given):
    return tf.estimator.Estimator(model_fn, str(directory), params={"rate": 0.1}, **given)


def trained_by_hand(steps, rate=0.1):
    kernel = bias = 0.0
    for _ in range(steps):
        error = kernel * X[:, 0] + bias - Y[:, 0]
        kernel, bias = kernel - rate * 2 * np.mean(error * X[:, 0]), bias - rate * 2 * error.mean()
    return kernel, bias


def test_training_twice_goes_on_from_the_checkpoint(tmp_path):
    estimator = made(tmp_path)
    assert estimator.latest_checkpoint() is None
    assert estimator.train(batches(), steps=7) is estimator
    made(tmp_path).train(batches(), steps=5)
    kernel, bias = trained_by_hand(12)
    assert sorted(estimator.get_variable_names()) == ["dense/bias", "dense/kernel", "global_step"]
    assert estimator.get_variable_value("global_step") == 12
    np.testing.assert_allclose(estimator.get_variable_value("dense/kernel"), [[kernel]], rtol=1e-5)
    np.testing.assert_allclose(estimator.get_variable_value("dense/bias"), [bias], rtol=1e-5)
    assert estimator.latest_checkpoint().endswith("model.ckpt-12")


def test_max_steps_are_of_all_trainings(tmp_path):
    estimator = made(tmp_path)
    estimator.train(batches(), max_steps=3)
    estimator.train(batches(), max_steps=3)
    estimator.train(batches(epochs=2), max_steps=100)
    assert estimator.get_variable_value("global_step") == 5


def test_evaluation_is_the_mean_over_batches_and_an_event(tmp_path):
    estimator = made(tmp_path)
    estimator.train(batches(), steps=3)
    kernel, bias = trained_by_hand(3)
    error = kernel * X[:, 0] + bias - Y[:, 0]
    found = estimator.evaluate(batches(1, batch_size=3), name="mine")
    losses = [np.mean(error[:3] ** 2), np.mean(error[3:] ** 2)]
    assert found["global_step"] == 3
    np.testing.assert_allclose(found["loss"], np.mean(losses), rtol=1e-5)
    np.testing.assert_allclose(found["mae"], np.mean(np.abs(error)), rtol=1e-5)
    first = estimator.evaluate(batches(1, batch_size=3), steps=1)
    np.testing.assert_allclose(first["loss"], losses[0], rtol=1e-5)
    (path,) = (tmp_path / "eval_mine").iterdir()
    event, told = (e for e in tf.train.summary_iterator(str(path)) if e.summary.value)
    values = {each.tag: each.simple_value for each in event.summary.value}
    assert (event.step, told.step) == (3, 3)
    (checkpoint,) = told.summary.value
    assert checkpoint.tag == "checkpoint_path"
    assert tf.make_ndarray(checkpoint.tensor) == estimator.latest_checkpoint().encode()
    np.testing.assert_allclose(values["mae"], found["mae"], rtol=1e-6)


def test_predictions_one_by_one_and_by_batch(tmp_path):
    estimator = made(tmp_path)
    estimator.train(batches(), steps=2)
    kernel, bias = trained_by_hand(2)
    expected = kernel * X + bias
    single = list(estimator.predict(batches(1, batch_size=3)))
    np.testing.assert_allclose([each["y"] for each in single], expected, rtol=1e-5)
    whole = list(estimator.predict(batches(1, batch_size=3), "y", yield_single_examples=False))
    assert [list(each) for each in whole] == [["y"], ["y"]]
    assert [len(each["y"]) for each in whole] == [3, 1]
    with pytest.raises(ValueError, match="Expected to run at least one output"):
        next(estimator.predict(batches(1), ["none"]))


def test_predictions_leave_the_default_graph_to_the_caller(tmp_path):
    predictions = made(tmp_path).predict(batches(1))
    before = tf.get_default_graph()
    next(predictions)
    assert tf.get_default_graph() is before
    predictions.close()


def test_untrained_models_are_evaluated_as_they_start(tmp_path):
    found = made(tmp_path).evaluate(batches(1))
    np.testing.assert_allclose(found["loss"], np.mean(Y**2), rtol=1e-6)
    assert found["global_step"] == 0


def test_an_export_loads_and_answers(tmp_path):
    estimator = made(tmp_path)
    estimator.train(batches(), steps=2)

    def receive():
        fed = tf.placeholder(tf.float32, [None, 1], name="fed")
        return tf.estimator.export.ServingInputReceiver({"x": fed}, fed)

    directory = estimator.export_saved_model(str(tmp_path / "export"), receive)
    assert isinstance(directory, bytes)
    with tf.Session(graph=tf.Graph()) as session:
        meta = tf.saved_model.loader.load(session, ["serve"], directory)
        signature = meta.signature_def["serving_default"]
        assert list(signature.inputs) == ["input"]
        answer = session.run(signature.outputs["y"].name, {signature.inputs["input"].name: X})
    kernel, bias = trained_by_hand(2)
    np.testing.assert_allclose(answer, kernel * X + bias, rtol=1e-5)
    with pytest.raises(ValueError, match="Couldn't find trained model"):
        made(tmp_path / "other").export_saved_model(str(tmp_path / "export"), receive)


def test_hooks_and_listeners_are_called(tmp_path):
    seen = []

    class Hook(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            seen.append("run")

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            seen.append(global_step_value)

    config = tf.estimator.RunConfig(save_checkpoints_steps=2)
    made(tmp_path, config=config).train(
        batches(), hooks=[Hook()], steps=4, saving_listeners=[Listener()]
    )
    assert seen.count("run") == 4
    assert [each for each in seen if each != "run"] == [0, 2, 4]
    with pytest.raises(TypeError, match="All hooks must be SessionRunHook"):
        made(tmp_path).train(batches(), hooks=["hook"], steps=1)


def test_keep_checkpoint_max_is_kept(tmp_path):
    config = tf.estimator.RunConfig(save_checkpoints_steps=1, keep_checkpoint_max=2)
    made(tmp_path, config=config).train(batches(), steps=5)
    kept = {path.name for path in tmp_path.glob("*.index")}
    assert kept == {"model.ckpt-4.index", "model.ckpt-5.index"}


def test_a_model_starts_from_the_weights_of_another(tmp_path):
    made(tmp_path / "first").train(batches(), steps=5)
    second = made(tmp_path / "second", warm_start_from=str(tmp_path / "first"))
    second.train(batches(), steps=1)
    kernel, _ = trained_by_hand(6)
    np.testing.assert_allclose(second.get_variable_value("dense/kernel"), [[kernel]], rtol=1e-5)
    assert second.get_variable_value("global_step") == 1


class Rows:
    """The methods by which an estimator recognises a dataset."""

    output_types = (tf.float32, tf.float32)

    def make_initializable_iterator(self):
        self.initializer = tf.no_op()
        return self

    def get_next(self):
        return {"x": tf.constant(X)}, tf.constant(Y)


def test_a_model_that_is_not_trained_yet_has_the_weights_of_another(tmp_path):
    first = made(tmp_path / "first").train(batches(), steps=5)
    _, bias = trained_by_hand(5)
    second = made(tmp_path / "second", warm_start_from=str(tmp_path / "first"))
    (one, *_) = second.predict(batches(1))
    np.testing.assert_allclose(one["y"], [bias], rtol=1e-5)
    found = second.evaluate(batches(1))
    assert found["loss"] == pytest.approx(first.evaluate(batches(1))["loss"], rel=1e-6)
    assert found["global_step"] == 0
    more = tf.estimator.add_metrics(second, lambda labels: {"more": tf.metrics.mean(labels)})
    assert more.evaluate(batches(1))["loss"] == found["loss"]
    with pytest.raises(ValueError, match="MUST be set in WarmStartSettings"):
        tf.estimator.WarmStartSettings("")
    with pytest.raises(ValueError, match="MUST be set in WarmStartSettings"):
        made(tmp_path / "third", warm_start_from="")


def test_hooks_of_predictions_find_the_graph_of_the_model(tmp_path):
    made(tmp_path).train(batches(), steps=2)
    seen = []

    class Hook(tf.train.SessionRunHook):
        def begin(self):
            self.step = tf.train.get_global_step()

        def before_run(self, run_context):
            assert tf.get_default_graph() is run_context.session.graph
            return tf.train.SessionRunArgs(tf.train.get_global_step())

        def after_run(self, run_context, run_values):
            seen.append(run_values.results)

        def end(self, session):
            assert tf.get_default_graph() is session.graph
            seen.append(session.run(self.step))

    before = tf.get_default_graph()
    for _ in made(tmp_path).predict(batches(1, batch_size=2), hooks=[Hook()]):
        assert tf.get_default_graph() is before
    assert seen == [2, 2, 2]


def test_exports_have_the_step_and_the_seed_that_models_find_elsewhere(tmp_path):
    seen = []

    def stepping(features, labels, mode):
        step = tf.train.get_global_step()
        seen.append((mode, step is not None, tf.get_default_graph().seed))
        out = features["x"] * tf.get_variable("w", initializer=2.0)
        loss = tf.reduce_mean(out)
        rate = tf.train.exponential_decay(0.1, step, 10, 0.9)
        train_op = tf.train.GradientDescentOptimizer(rate).minimize(loss, step)
        return tf.estimator.EstimatorSpec(mode, {"y": out}, loss, train_op)

    def receive():
        fed = tf.placeholder(tf.float32, [None, 1])
        return tf.estimator.export.ServingInputReceiver({"x": fed}, fed)

    config = tf.estimator.RunConfig(str(tmp_path), tf_random_seed=7)
    estimator = tf.estimator.Estimator(stepping, config=config).train(batches(), steps=1)
    directory = estimator.export_saved_model(str(tmp_path / "export"), receive)
    assert seen == [("train", True, 7), ("infer", True, 7)]
    with tf.Session(graph=tf.Graph()) as session:
        tf.saved_model.loader.load(session, ["serve"], directory)
        assert session.run("global_step:0") == 1


def test_metrics_of_all_kinds_are_returned_and_written_where_events_have_a_form(tmp_path):
    def odd(features, labels, mode):
        nothing = tf.no_op()
        metrics = {
            "text": (tf.constant("text"), nothing),
            "array": (tf.constant([1.0, 2.0]), nothing),
            "yes": (tf.constant(True), nothing),
            "whole": (tf.constant(3), nothing),
            "images": (tf.summary.image("q", tf.zeros([2, 2, 2, 1])), nothing),
        }
        return tf.estimator.EstimatorSpec(
            mode, loss=tf.reduce_mean(labels), eval_metric_ops=metrics
        )

    estimator = tf.estimator.Estimator(odd, str(tmp_path))
    found = estimator.evaluate(batches(1))
    assert (found["text"], found["yes"]) == (b"text", True)
    (path,) = (tmp_path / "eval").iterdir()
    (event,) = (e for e in tf.train.summary_iterator(str(path)) if e.summary.value)
    values = {each.tag: each for each in event.summary.value}
    assert set(values) == {"array", "images/0", "images/1", "loss", "whole"}
    assert tf.make_ndarray(values["array"].tensor).tolist() == [1.0, 2.0]
    assert values["whole"].simple_value == 3


def test_an_input_fn_may_return_a_dataset_and_take_mode_params_config(tmp_path):
    called = []

    def input_fn(mode, params, config):
        called.append((mode, params["rate"], config.model_dir))
        return Rows()

    made(tmp_path).train(input_fn, steps=1)
    assert called == [("train", 0.1, str(tmp_path))]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda labels: None, "must include features argument"),
        (lambda features: None, "does not include params argument"),
        (lambda features, params, wrong: None, "has following not expected args"),
        (None, "model_fn must be provided"),
    ],
)
def test_model_functions_that_cannot_be_called(function, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        tf.estimator.Estimator(function, str(tmp_path), params={"rate": 1.0})


def test_model_functions_that_return_or_want_something_else(tmp_path):
    wrong = tf.estimator.Estimator(lambda features, labels: None, str(tmp_path))
    with pytest.raises(ValueError, match="should return an EstimatorSpec"):
        wrong.train(batches(), steps=1)
    unlabelled = tf.estimator.Estimator(lambda features: None, str(tmp_path))
    with pytest.raises(ValueError, match="model_fn does not take labels"):
        unlabelled.train(batches(), steps=1)
    bound = functools.partial(model_fn, params={"rate": 0.1})
    tf.estimator.Estimator(bound, str(tmp_path)).train(batches(), steps=1)


def test_numbers_of_steps_and_directories_are_checked(tmp_path):
    estimator = made(tmp_path)
    for given in ({"steps": 0}, {"max_steps": -1}, {"steps": 1, "max_steps": 1}):
        with pytest.raises(ValueError, match=r"max_steps|steps > 0"):
            estimator.train(batches(), **given)
    with pytest.raises(ValueError, match="set both in constructor and `RunConfig`"):
        made(tmp_path, config=tf.estimator.RunConfig(model_dir="/other"))
    with pytest.raises(ValueError, match="must be an instance of `RunConfig`"):
        made(tmp_path, config={"model_dir": "x"})
    with pytest.raises(ValueError, match="Couldn't find trained model"):
        estimator.get_variable_names()


def test_without_a_directory_a_temporary_one_is_made():
    estimator = tf.estimator.Estimator(model_fn, params={"rate": 0.1})
    assert os.path.isdir(estimator.model_dir)
    os.rmdir(estimator.model_dir)


def test_subclasses_do_not_override_what_callers_rely_on(tmp_path):
    class Mine(tf.estimator.Estimator):
        def train(self):
            return None

    with pytest.raises(ValueError, match="cannot override members of Estimator"):
        Mine(model_fn, str(tmp_path), params={})


@pytest.mark.parametrize("name", ["loss", "global_step"])
def test_metrics_of_the_estimators_own_names_are_refused(name, tmp_path):
    def with_metric(features, labels, mode):
        loss = tf.reduce_mean(labels)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={name: tf.metrics.mean(labels)}
        )

    with pytest.raises(ValueError, match=f'Metric with name "{name}" is not allowed'):
        tf.estimator.Estimator(with_metric, str(tmp_path)).evaluate(batches(1))
