"""The gradient of labels, which comes only from the loss."""

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from support.eager import EagerBuilder
from support.numerical import numerical_gradient

LOGITS = np.array([[-2.5, 0.5, 4.0], [1.25, 2.0, -3.5]])
LABELS = np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
WEIGHTS = np.array([1.5, -0.5])


def test_gradient_of_labels_is_that_of_central_differences():
    def objective(logits, labels):
        g = EagerBuilder()
        loss, _ = g.SoftmaxCrossEntropyWithLogits(g.tensor(logits), g.tensor(labels))
        return float((loss.value * WEIGHTS).sum())

    g = EagerBuilder()
    logits, labels = g.tensor(LOGITS), g.tensor(LABELS)
    loss, _ = g.SoftmaxCrossEntropyWithLogits(logits, labels)
    found = g.gradients([loss], [logits, labels], [g.tensor(WEIGHTS)])
    for index, gradient in enumerate(found):
        expected = numerical_gradient(objective, [LOGITS, LABELS], index)
        np.testing.assert_allclose(gradient.value, expected, atol=1e-8)


def test_gradient_of_backprop_alone_reaches_the_logits():
    g = EagerBuilder()
    logits = g.tensor(LOGITS)
    _, backprop = g.SparseSoftmaxCrossEntropyWithLogits(logits, np.array([0, 2]))
    weights = np.arange(6.0).reshape(2, 3)
    (found,) = g.gradients([backprop], [logits], [g.tensor(weights)])

    def objective(rows):
        exponentials = np.exp(rows)
        return float((exponentials / exponentials.sum(1, keepdims=True) * weights).sum())

    expected = numerical_gradient(objective, [LOGITS], 0)
    np.testing.assert_allclose(found.value, expected, atol=1e-8)


@pytest.mark.parametrize("rows", [255, 256, 1000])
@pytest.mark.parametrize("classes", [1, 3, 16, 17])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_few_classes_of_many_rows_are_like_others(rows, classes, dtype):
    random = np.random.default_rng(0)
    logits = (random.standard_normal((rows, classes)) * 5).astype(dtype)
    labels = random.integers(0, classes, rows)
    hot = np.eye(classes, dtype=dtype)[labels]
    wide = logits.astype(np.float64)
    shifted = wide - wide.max(1, keepdims=True)
    softmax = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    expected = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(rows), labels]
    tolerance = {"rtol": 4 * np.finfo(dtype).eps, "atol": 8 * np.finfo(dtype).eps}
    g = EagerBuilder()
    for loss, backprop in (
        g.SparseSoftmaxCrossEntropyWithLogits(g.tensor(logits), g.tensor(labels)),
        g.SoftmaxCrossEntropyWithLogits(g.tensor(logits), g.tensor(hot)),
    ):
        np.testing.assert_allclose(loss.value, expected, **tolerance)
        np.testing.assert_allclose(backprop.value, softmax - hot, **tolerance)
