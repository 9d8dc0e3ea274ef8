"""Optimizers by name, and their step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sparkflow.train.optimizers.adagrad import AdagradOptimizer
from sparkflow.train.optimizers.adam import AdamOptimizer
from sparkflow.train.optimizers.ftrl import FtrlOptimizer
from sparkflow.train.optimizers.gradient_descent import GradientDescentOptimizer
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.train.optimizers.rmsprop import RMSPropOptimizer

_BY_NAME: Final[dict[str, Callable[..., Optimizer]]] = {
    "Adagrad": AdagradOptimizer,
    "Adam": AdamOptimizer,
    "Ftrl": FtrlOptimizer,
    "RMSProp": RMSPropOptimizer,
    "SGD": GradientDescentOptimizer,
}


def optimizer_of(given: Any, learning_rate: float) -> Optimizer:
    """An optimizer.

    Args:
        given: A name with this learning rate, a function without arguments, or an optimizer.
        learning_rate: For names.

    Raises:
        ValueError: It is something else, or an unknown name.
    """
    if isinstance(given, str):
        if given not in _BY_NAME:
            raise ValueError(
                f"Unsupported optimizer name: {given}. Supported names are: {sorted(_BY_NAME)}"
            )
        return _BY_NAME[given](learning_rate=learning_rate)
    made = given() if callable(given) else given
    if not isinstance(made, Optimizer):
        raise ValueError(f"The given object is not an Optimizer instance. Given: {made}")
    return made
