"""What the names of activations, initializers, regularizers and constraints of layers stand for.

The names and the numbers are those of Keras, whose functions TensorFlow's layers look up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from sparkflow._generated.ops.nn.activation import (
    elu,
    leaky_relu,
    relu,
    relu6,
    selu,
    softplus,
    softsign,
)
from sparkflow.ops.elementwise.elementwise import (
    abs as absolute,
    add_n,
    cast,
    erf,
    exp,
    sigmoid,
    sqrt,
    square,
    tanh,
)
from sparkflow.ops.nn.activation import log_softmax, softmax, swish
from sparkflow.ops.reduction.clip import clip_by_value
from sparkflow.ops.reduction.reduction import reduce_sum
from sparkflow.ops.shape.constants import zeros
from sparkflow.variables import initializers

_EPSILON: Final = 1e-7
"""Added to norms that are divided by."""


def linear(x: Any) -> Any:
    """The same."""
    return x


def _hard_sigmoid(x: Any) -> Any:
    return clip_by_value(0.2 * x + 0.5, 0.0, 1.0)


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))


def _mish(x: Any) -> Any:
    return x * tanh(softplus(x))


_ACTIVATIONS: Final[dict[str, Callable[..., Any]]] = {
    "elu": elu,
    "exponential": exp,
    "gelu": _gelu,
    "hard_sigmoid": _hard_sigmoid,
    "leaky_relu": leaky_relu,
    "linear": linear,
    "log_softmax": log_softmax,
    "mish": _mish,
    "relu": relu,
    "relu6": relu6,
    "selu": selu,
    "sigmoid": sigmoid,
    "silu": swish,
    "softmax": softmax,
    "softplus": softplus,
    "softsign": softsign,
    "swish": swish,
    "tanh": tanh,
}


def activation(given: Any) -> Any:
    """A function by its name; a function and None stay.

    Raises:
        ValueError: There is no such name.
        TypeError: It is neither.
    """
    if isinstance(given, str):
        return _looked_up("activation function", _ACTIVATIONS, given)
    if given is not None and not callable(given):
        raise TypeError(
            f"Could not interpret activation function identifier: {given!r}; give a function, such "
            f"as tf.nn.relu, or one of the names {_listed(_ACTIVATIONS)}"
        )
    return given


def _random_normal(mean: float = 0.0, stddev: float = 0.05, **others: Any) -> Any:
    return initializers.RandomNormal(mean, stddev, **others)


def _random_uniform(minval: float = -0.05, maxval: float = 0.05, **others: Any) -> Any:
    return initializers.RandomUniform(minval, maxval, **others)


def _truncated_normal(mean: float = 0.0, stddev: float = 0.05, **others: Any) -> Any:
    return initializers.TruncatedNormal(mean, stddev, **others)


_INITIALIZERS: Final[dict[str, Callable[..., Any]]] = {
    "constant": initializers.Constant,
    "glorot_normal": initializers.GlorotNormal,
    "glorot_uniform": initializers.GlorotUniform,
    "he_normal": initializers.he_normal,
    "he_uniform": initializers.he_uniform,
    "identity": initializers.Identity,
    "lecun_normal": initializers.lecun_normal,
    "lecun_uniform": initializers.lecun_uniform,
    "normal": _random_normal,
    "one": initializers.Ones,
    "ones": initializers.Ones,
    "orthogonal": initializers.Orthogonal,
    "random_normal": _random_normal,
    "random_uniform": _random_uniform,
    "truncated_normal": _truncated_normal,
    "uniform": _random_uniform,
    "variance_scaling": initializers.VarianceScaling,
    "zero": initializers.Zeros,
    "zeros": initializers.Zeros,
}


def initializer(given: Any) -> Any:
    """An initializer by its name, or by what `get_config` says; anything else stays.

    Raises:
        ValueError: There is no such name.
    """
    return _made("initializer", _INITIALIZERS, given)


def _l1_l2(l1: float = 0.0, l2: float = 0.0) -> Callable[[Any], Any]:
    def penalty(weights: Any) -> Any:
        parts = []
        if l1:
            parts.append(l1 * reduce_sum(absolute(weights)))
        if l2:
            parts.append(l2 * reduce_sum(square(weights)))
        return add_n(parts) if parts else zeros([], weights.dtype.base_dtype)

    return penalty


def _l1(l1: float = 0.01) -> Callable[[Any], Any]:
    return _l1_l2(l1)


def _l2(l2: float = 0.01) -> Callable[[Any], Any]:
    return _l1_l2(0.0, l2)


_REGULARIZERS: Final[dict[str, Callable[..., Any]]] = {
    "L1": _l1,
    "L1L2": _l1_l2,
    "L2": _l2,
    "l1": _l1,
    "l1_l2": partial(_l1_l2, l1=0.01, l2=0.01),
    "l2": _l2,
}


def regularizer(given: Any) -> Any:
    """A regularizer by its name, which counts a hundredth; anything else stays.

    Raises:
        ValueError: There is no such name.
    """
    return _made("regularizer", _REGULARIZERS, given)


def _norm(weights: Any, axis: Any) -> Any:
    return sqrt(reduce_sum(square(weights), axis, keepdims=True))


def _max_norm(max_value: float = 2, axis: Any = 0) -> Callable[[Any], Any]:
    def limited(weights: Any) -> Any:
        norm = _norm(weights, axis)
        return weights * (clip_by_value(norm, 0.0, max_value) / (_EPSILON + norm))

    return limited


def _min_max_norm(
    min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: Any = 0
) -> Callable[[Any], Any]:
    def limited(weights: Any) -> Any:
        norm = _norm(weights, axis)
        wanted = rate * clip_by_value(norm, min_value, max_value) + (1.0 - rate) * norm
        return weights * (wanted / (_EPSILON + norm))

    return limited


def _unit_norm(axis: Any = 0) -> Callable[[Any], Any]:
    return lambda weights: weights / (_EPSILON + _norm(weights, axis))


def _non_neg() -> Callable[[Any], Any]:
    return lambda weights: weights * cast(weights >= 0.0, weights.dtype.base_dtype)


_CONSTRAINTS: Final[dict[str, Callable[..., Any]]] = {
    "max_norm": _max_norm,
    "min_max_norm": _min_max_norm,
    "non_neg": _non_neg,
    "nonneg": _non_neg,
    "unit_norm": _unit_norm,
}


def constraint(given: Any) -> Any:
    """A constraint by its name; anything else stays.

    Raises:
        ValueError: There is no such name.
    """
    return _made("constraint", _CONSTRAINTS, given)


def _made(kind: str, known: Mapping[str, Callable[..., Any]], given: Any) -> Any:
    config: Mapping[str, Any] = {}
    if isinstance(given, Mapping) and "class_name" in given:
        given, config = given["class_name"], given.get("config", {})
    if not isinstance(given, str):
        return given
    by_class = {_class_name(name): name for name in known}
    name = given if given in known else by_class.get(given, given)
    return _looked_up(kind, known, name)(**config)


def _looked_up(kind: str, known: Mapping[str, Callable[..., Any]], name: str) -> Callable[..., Any]:
    if name not in known:
        raise ValueError(f"Unknown {kind}: {name!r}; known are {_listed(known)}")
    return known[name]


def _class_name(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _listed(known: Mapping[str, Any]) -> str:
    return ", ".join(sorted(known))
