"""Gradients by central differences: what the gradients of ops are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def numerical_gradient(
    function: Callable[..., float],
    arrays: Sequence[np.ndarray[Any, Any]],
    index: int,
    delta: float = 1e-6,
) -> np.ndarray[Any, Any]:
    """The gradient of a real function with respect to one of its arguments.

    `(f(x + delta) - f(x - delta)) / (2 delta)` per element, in float64: good to about 1e-9
    relative to the values of `function` where that is smooth.

        >>> numerical_gradient(lambda x: float((x**2).sum()), [np.array([1.0, -3.0])], 0).round(6)
        array([ 2., -6.])

    Args:
        function: Takes all `arrays`; must not keep or change them.
        arrays: The point; the array at `index` is float64 or complex128.
        index: Which argument to differentiate by.
        delta: The step, in the unit of the values.

    Returns:
        An array like `arrays[index]`. For a complex argument the derivative by its real part plus
        i times that by its imaginary part, which is what TensorFlow calls the gradient.
    """
    point = list(arrays)
    result = np.zeros_like(arrays[index])
    directions = (1.0, 1.0j) if result.dtype.kind == "c" else (1.0,)
    for position in np.ndindex(result.shape):
        for direction in directions:
            sides = []
            for step in (delta, -delta):
                moved = arrays[index].copy()
                moved[position] += step * direction
                point[index] = moved
                sides.append(function(*point))
            result[position] += direction * (sides[0] - sides[1]) / (2 * delta)
    return result
