"""Gradients by central differences, as a reference for the gradients of ops."""

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
        index: The argument to differentiate by.
        delta: The step, in the unit of the values.

    Returns:
        An array like `arrays[index]`. For a complex argument the derivative by its real part plus
        i times that by its imaginary part, which is what TensorFlow calls the gradient.
    """
    result = np.zeros_like(arrays[index])
    directions = (1.0, 1.0j) if result.dtype.kind == "c" else (1.0,)
    for position in np.ndindex(result.shape):
        for direction in directions:
            sides = []
            for step in (delta, -delta):
                moved = arrays[index].copy()
                moved[position] += step * direction
                sides.append(moved)
            result[position] += direction * _slope(function, arrays, index, sides, delta)
    return result


def directional_derivatives(
    function: Callable[..., float],
    arrays: Sequence[np.ndarray[Any, Any]],
    index: int,
    count: int = 3,
    delta: float = 1e-6,
) -> list[tuple[np.ndarray[Any, Any], float]]:
    """The derivatives of a real function by one of its arguments, along random directions.

    Each direction moves every element by `delta`, to one side or the other, so that an error of a
    single element of a gradient shows in all of them. `numerical_gradient` shows where it is, but
    calls `function` twice for each element.

        >>> x = np.array([1.0, -3.0])
        >>> for direction, derivative in directional_derivatives(lambda x: (x**2).sum(), [x], 0):
        ...     assert np.isclose((2 * x * direction).sum(), derivative)

    Args:
        function: As for `numerical_gradient`.
        arrays: As for `numerical_gradient`.
        index: As for `numerical_gradient`.
        count: The number of directions.
        delta: The step, in the unit of the values.

    Returns:
        Each direction, like `arrays[index]`, and the derivative along it.
    """
    random = np.random.default_rng(index)
    found = []
    for _ in range(count):
        direction = np.asarray(random.choice([-1.0, 1.0], arrays[index].shape), arrays[index].dtype)
        if direction.dtype.kind == "c":
            direction = direction + 1.0j * random.choice([-1.0, 1.0], direction.shape)
        sides = [np.asarray(arrays[index] + step * direction) for step in (delta, -delta)]
        found.append((direction, _slope(function, arrays, index, sides, delta)))
    return found


def _slope(
    function: Callable[..., float],
    arrays: Sequence[np.ndarray[Any, Any]],
    index: int,
    sides: Sequence[np.ndarray[Any, Any]],
    delta: float,
) -> float:
    """The central difference of points at a distance of `delta` to each side, in one argument."""
    first, second = (function(*arrays[:index], side, *arrays[index + 1 :]) for side in sides)
    return (first - second) / (2 * delta)
