"""Predictors of saved models and of estimators."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import predictor


def save(folder):
    """A model with two signatures: y = 2 x, and z = y + 1."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None], name="x")
        y = tf.multiply(x, tf.Variable(2.0), name="y")
        signatures = {
            name: tf.saved_model.predict_signature_def({"x": x}, {name[0]: value})
            for name, value in (("y_twice", y), ("z_more", tf.add(y, 1.0, name="z")))
        }
        signatures["serving_default"] = signatures["y_twice"]
        session.run(tf.global_variables_initializer())
        builder = tf.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=signatures)
        builder.save()
    return signatures


@pytest.fixture
def saved(tmp_path):
    save(tmp_path / "model")
    return tmp_path / "model"


def test_the_default_signature(saved):
    with predictor.from_saved_model(saved) as predict:
        found = predict({"x": [1.0, 2.5]})
        assert list(found) == ["y"]
        np.testing.assert_array_equal(found["y"], [2, 5])
        assert predict.feed_tensors["x"].graph is predict.graph
        assert "fetch_tensors {'y'" in repr(predict)
    with pytest.raises(RuntimeError, match="closed"):
        predict({"x": [1.0]})


def test_another_signature_by_name_by_message_and_by_tensors(saved, tmp_path):
    message = save(tmp_path / "again")["z_more"]
    names = {"input_names": {"a": "x:0"}, "output_names": {"b": "z:0"}}
    for options, fed, fetched in (
        ({"signature_def_key": "z_more"}, "x", "z"),
        ({"signature_def": message, "tags": "serve"}, "x", "z"),
        ({**names, "tags": ["serve"]}, "a", "b"),
    ):
        graph = tf.Graph()
        with predictor.from_saved_model(saved, graph=graph, **options) as predict:
            assert predict.graph is graph
            assert predict({fed: [1.0]})[fetched].tolist() == [3.0]


def test_what_is_refused(saved, tmp_path):
    with predictor.from_saved_model(saved) as predict:
        with pytest.raises(ValueError, match=r"unexpected keys in input_dict: \{'w'\}\nexpected"):
            predict({"x": [1.0], "w": [2.0]})
        with pytest.raises(tf.errors.InvalidArgumentError):
            predict({})
    with pytest.raises(ValueError, match=r"'other'. Available .*'serving_default', 'y_twice'"):
        predictor.from_saved_model(saved, "other")
    with pytest.raises(ValueError, match="At most one of"):
        predictor.from_saved_model(saved, "y_twice", input_names={"x": "x:0"})
    with pytest.raises(ValueError, match="must both be given"):
        predictor.from_saved_model(saved, output_names={"x": "x:0"})
    with pytest.raises(RuntimeError, match="could not be found in SavedModel"):
        predictor.from_saved_model(saved, tags="train")
    with pytest.raises(OSError, match="nothing_here"):
        predictor.from_saved_model(tmp_path / "nothing_here")
    with pytest.raises(KeyError, match="nowhere"):
        predictor.from_saved_model(saved, input_names={}, output_names={"x": "nowhere:0"})


def model_fn(features, labels, mode):
    y = tf.squeeze(tf.layers.dense(features["x"], 1, name="layer"), axis=1)
    table = tf.contrib.lookup.index_to_string_table_from_tensor(["low", "high"])
    level = table.lookup(tf.cast(y > 0, tf.int64))
    outputs = {
        "number": tf.estimator.export.PredictOutput({"y": y}),
        "serving_default": tf.estimator.export.PredictOutput({"y": y, "level": level}),
    }
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"y": y}, export_outputs=outputs)
    loss = tf.losses.mean_squared_error(labels, y)
    step = tf.train.get_global_step()
    train = tf.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


def receiver():
    x = tf.placeholder(tf.float32, [None, 2])
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


def test_an_estimator(tmp_path):
    x = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)
    inputs = tf.estimator.inputs.numpy_input_fn(
        {"x": x}, x.sum(1), batch_size=32, num_epochs=None, shuffle=False
    )
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "model"))
    with pytest.raises(ValueError, match="find trained model"):
        predictor.from_estimator(estimator, receiver)
    estimator.train(inputs, steps=20)
    few = tf.estimator.inputs.numpy_input_fn({"x": x[:3]}, shuffle=False)
    expected = [each["y"] for each in estimator.predict(few)]
    with predictor.from_estimator(estimator, receiver) as predict:
        found = predict({"x": x[:3]})
        np.testing.assert_allclose(found["y"], expected, rtol=1e-6)
        assert found["level"].tolist() == [b"high" if y > 0 else b"low" for y in expected]
    with predictor.from_estimator(estimator, receiver, "number") as predict:
        assert set(predict({"x": x[:3]})) == {"y"}
    with pytest.raises(ValueError, match="Available signatures"):
        predictor.from_estimator(estimator, receiver, "other")
    with pytest.raises(TypeError, match="got Graph"):
        predictor.from_estimator(tf.Graph(), receiver)
