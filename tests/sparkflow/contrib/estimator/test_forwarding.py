"""`forward_features`: features come back beside predictions, in Python and of exported models."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib.estimator import forward_features

COLUMNS = [tf.feature_column.numeric_column("x")]
FEATURES = {"x": np.float32([1, 2]), "id": np.int64([7, 8])}


def batches():
    return tf.estimator.inputs.numpy_input_fn(FEATURES, np.float32([1, 2]), 2, None, shuffle=False)


@pytest.fixture
def trained(tmp_path):
    model = tf.estimator.LinearRegressor(COLUMNS, model_dir=str(tmp_path / "model"))
    return model.train(batches(), steps=1)


@pytest.mark.parametrize(
    ("keys", "also"), [("id", {"id"}), (["id", "x"], {"id", "x"}), (None, {"id", "x"})]
)
def test_features_come_back(keys, also, trained):
    found = next(forward_features(trained, keys).predict(batches()))
    assert set(found) == {"predictions", *also}
    assert found["id"] == 7


def test_an_exported_model_returns_them(trained, tmp_path):
    def receive():
        x, key = tf.placeholder(tf.float32, [None]), tf.sparse_placeholder(tf.int64)
        given = {"x": x, "key": key}
        inputs = {"x": x, "indices": key.indices, "values": key.values, "shape": key.dense_shape}
        return tf.estimator.export.ServingInputReceiver(given, inputs)

    model = forward_features(trained, "key", {"key": -1})
    folder = model.export_saved_model(str(tmp_path / "export"), receive)
    predictor = tf.contrib.predictor.from_saved_model(folder.decode(), "predict")
    with predictor:
        found = predictor({"x": [1.0, 2.0], "indices": [[0, 1]], "values": [5], "shape": [2, 2]})
    assert found["key"].tolist() == [[-1, 5], [-1, -1]]


def test_what_cannot_be_forwarded_is_refused(trained):
    with pytest.raises(TypeError, match="Estimator"):
        forward_features("model")
    with pytest.raises(TypeError, match="should be a string"):
        forward_features(trained, [1])
    with pytest.raises(ValueError, match='no feature "y"'):
        next(forward_features(trained, "y").predict(batches()))
    named = {**FEATURES, "predictions": FEATURES["x"]}
    same = tf.estimator.inputs.numpy_input_fn(named, None, 2, 1, shuffle=False)
    with pytest.raises(ValueError, match="predictions of these names"):
        next(forward_features(trained, "predictions").predict(same))
