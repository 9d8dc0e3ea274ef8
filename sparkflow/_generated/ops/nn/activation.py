"""Activation functions and layers' small change: bias, dropout, normalisation, top k.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/nn/activation.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "elu",
    "l2_loss",
    "leaky_relu",
    "relu",
    "relu6",
    "selu",
    "softplus",
    "softsign",
]


def relu(features: Any, name: str | None = None) -> Tensor:
    """max(x, 0), elementwise.

    Args:
        features: Tensor [...] of any real number.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `features`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Relu", features, name=name)
    return result


def relu6(features: Any, name: str | None = None) -> Tensor:
    """min(max(x, 0), 6), elementwise.

    Args:
        features: Tensor [...] of any real number.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `features`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Relu6", features, name=name)
    return result


def elu(features: Any, name: str | None = None) -> Tensor:
    """x for x > 0, exp(x) - 1 otherwise, elementwise.

    Args:
        features: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `features`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Elu", features, name=name)
    return result


def selu(features: Any, name: str | None = None) -> Tensor:
    """The scaled exponential linear unit (Klambauer et al. 2017), elementwise.

    Args:
        features: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `features`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Selu", features, name=name)
    return result


def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """x for x > 0, `alpha` x otherwise, elementwise.

    Args:
        features: Tensor [...] of any floating-point type.
        alpha: A number.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `features`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("LeakyRelu", features, alpha=alpha, name=name)
    return result


def softplus(features: Any, name: str | None = None) -> Tensor:
    """log(1 + exp(x)), elementwise.

    Args:
        features: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `features`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Softplus", features, name=name)
    return result


def softsign(features: Any, name: str | None = None) -> Tensor:
    """x / (1 + |x|), elementwise.

    Args:
        features: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `features`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Softsign", features, name=name)
    return result


def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Half the sum of squares: a scalar.

    Args:
        t: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `t`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("L2Loss", t, name=name)
    return result
