"""Heads of one's own models and of canned ones: losses, metrics, predictions, computed by hand."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import estimator as contrib
from support.heads import evaluated


@pytest.mark.parametrize(
    ("head", "logits", "labels", "expected"),
    [
        (contrib.regression_head(label_dimension=2), [[1.0, 2.0]], [[0.0, 0.0]], 2.5),
        (contrib.multi_class_head(3), [[0.0, 0.0, 0.0]], [1], np.log(3)),
        (contrib.binary_classification_head(), [[0.0], [0.0]], [1, 0], np.log(2)),
    ],
)
def test_losses_are_means_over_the_batch(head, logits, labels, expected):
    loss, _ = evaluated(head, np.float32(logits), lambda: tf.constant(labels))
    assert loss == pytest.approx(expected)


COLUMNS = [tf.feature_column.numeric_column("x", shape=[2])]
X = np.random.RandomState(0).randn(200, 2).astype(np.float32)
LABELS = np.stack([X[:, 0] > 0, X[:, 1] > 0, X[:, 0] + X[:, 1] > 0], 1).astype(np.int64)
MODELS = {
    "linear": lambda head, **given: tf.estimator.LinearEstimator(head, COLUMNS, **given),
    "deep": lambda head, **given: contrib.DNNEstimator(head, [8], COLUMNS, **given),
    "both": lambda head, **given: tf.estimator.DNNLinearCombinedEstimator(
        head,
        linear_feature_columns=COLUMNS,
        dnn_feature_columns=COLUMNS,
        dnn_hidden_units=[8],
        dnn_optimizer=lambda: tf.train.AdagradOptimizer(0.05),
        **given,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_canned_models_take_heads(name, tmp_path):
    def batches(epochs):
        return tf.estimator.inputs.numpy_input_fn({"x": X}, LABELS, 50, epochs, shuffle=False)

    model = MODELS[name](contrib.multi_label_head(3), model_dir=str(tmp_path))
    model.train(batches(None), steps=300)
    assert model.evaluate(batches(1))["auc"] > 0.97
    (first, *_) = model.predict(batches(1))
    assert first["probabilities"].shape == (3,)
    with pytest.raises(TypeError, match="multi_label_head"):
        MODELS[name]("head")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: contrib.multi_label_head(1), "n_classes must be > 1"),
        (lambda: contrib.multi_label_head(3, label_vocabulary=["a"]), "must be n_classes"),
        (lambda: contrib.binary_classification_head(thresholds=[1.0]), "thresholds not in"),
        (lambda: contrib.regression_head(loss_fn=lambda labels: labels), "loss_fn must take"),
    ],
)
def test_what_makes_no_head_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
