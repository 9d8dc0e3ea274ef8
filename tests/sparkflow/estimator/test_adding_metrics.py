"""`add_metrics`, and parsing for canned models."""

import numpy as np
import pytest

import sparkflow as tf

COLUMNS = [tf.feature_column.numeric_column("x")]
X = np.float32([1, 2, 3, 4])


def test_an_estimator_gets_more_metrics(tmp_path):
    given = tf.estimator.LinearRegressor(COLUMNS, model_dir=str(tmp_path))

    def metric_fn(labels, predictions, features):
        found = tf.squeeze(predictions["predictions"], [-1])
        return {
            "mae": tf.metrics.mean_absolute_error(labels, found),
            "x/mean": tf.metrics.mean(features["x"]),
        }

    more = tf.estimator.add_metrics(given, metric_fn)
    input_fn = tf.estimator.inputs.numpy_input_fn({"x": X}, 2 * X, shuffle=False)
    found = more.evaluate(input_fn)
    assert (found["mae"], found["x/mean"]) == (5.0, 2.5)
    assert found["average_loss"] == np.mean((2 * X) ** 2)
    with pytest.raises(ValueError, match="not expected args"):
        tf.estimator.add_metrics(given, lambda wrong: {})


def test_features_labels_and_weights_are_parsed():
    spec = tf.estimator.classifier_parse_example_spec(COLUMNS, "y", weight_column="w")
    assert spec == {
        "x": tf.FixedLenFeature((1,), tf.float32),
        "y": tf.FixedLenFeature((1,), tf.int64),
        "w": tf.FixedLenFeature((1,), tf.float32),
    }
    numbers = tf.estimator.regressor_parse_example_spec(COLUMNS, "y", label_dimension=2)
    assert numbers["y"] == tf.FixedLenFeature((2,), tf.float32)
    with pytest.raises(ValueError, match="label should not be used as feature"):
        tf.estimator.classifier_parse_example_spec(COLUMNS, "x")
    with pytest.raises(ValueError, match="should not be used as feature or label"):
        tf.estimator.classifier_parse_example_spec(COLUMNS, "y", weight_column="x")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"training_hooks": ["hook"]}, "must be SessionRunHook"),
        ({"scaffold": "scaffold"}, "must be tf.train.Scaffold"),
        ({"export_outputs": []}, "`export_outputs` must be dict"),
        ({"export_outputs": {"a": 1}}, "must be ExportOutput objects"),
    ],
)
def test_specifications_are_checked(given, message):
    with tf.Graph().as_default(), pytest.raises(TypeError, match=message):
        tf.estimator.EstimatorSpec("infer", predictions=tf.constant(1.0), **given)
