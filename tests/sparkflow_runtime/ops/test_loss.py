"""The gradient of labels, which flows through the loss only."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime.testing.eager import EagerBuilder
from sparkflow_runtime.testing.numerical import numerical_gradient

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
