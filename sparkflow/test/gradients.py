"""Compares gradients of `tf.gradients` with those from central differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparkflow.differentiation.backward import gradients
from sparkflow.graph.scopes import get_default_session
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control.ordering import identity
from sparkflow.ops.shape.constants import constant

Jacobian = np.ndarray[Any, Any]


def compute_gradient(
    x: Any,
    x_shape: Any,
    y: Tensor,
    y_shape: Sequence[int],
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Any = None,
    extra_feed_dict: Mapping[Any, Any] | None = None,
) -> Any:
    """The Jacobian of `y` in `x`, as the graph computes it and as differences do.

    Args:
        x: A float or complex tensor, or a list of tensors.
        x_shape: Its shape, a list of shapes for a list.
        y: A tensor that depends on `x`.
        y_shape: The shape of `y`.
        x_init_value: Where to differentiate; random numbers in [0, 1) when None.
        delta: The step of the differences.
        init_targets: Operations to run first.
        extra_feed_dict: Fed besides `x`.

    Returns:
        Two [size of x, size of y] arrays of the real dtype: theoretical and numerical. A list of
        such pairs for a list of tensors. A complex number counts as two entries.

    Raises:
        ValueError: There is no default session, or a value does not have its shape.
    """
    session = get_default_session()
    if session is None:
        raise ValueError("compute_gradient runs in the default session: use `with tf.Session():`")
    for target in [] if init_targets is None else _listed(init_targets):
        session.run(target)
    feeds = dict(extra_feed_dict or {})
    if not isinstance(x, list):
        return _compute(session, x, x_shape, y, y_shape, x_init_value, delta, feeds)
    values = [None] * len(x) if x_init_value is None else list(x_init_value)
    data = [_start(each, *rest) for each, *rest in zip(x, x_shape, values, strict=True)]
    feeds.update(zip(x, data, strict=True))
    return [
        _compute(session, each, shape, y, y_shape, value, delta, feeds)
        for each, shape, value in zip(x, x_shape, data, strict=True)
    ]


def compute_gradient_error(
    x: Any,
    x_shape: Any,
    y: Tensor,
    y_shape: Sequence[int],
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Any = None,
    extra_feed_dict: Mapping[Any, Any] | None = None,
) -> float:
    """The largest difference between both Jacobians of `compute_gradient`; same arguments."""
    found = compute_gradient(
        x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict
    )
    pairs = [found] if isinstance(found, tuple) else found
    error = 0.0
    for theoretical, numerical in pairs:
        if theoretical.size or numerical.size:
            error = max(error, float(np.fabs(theoretical - numerical).max()))
    return error


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _start(x: Tensor, shape: Sequence[int], value: Any) -> np.ndarray[Any, Any]:
    dtype = x.dtype.base_dtype.as_numpy_dtype
    if value is None:
        drawn = np.random.random_sample(tuple(shape)).astype(dtype)
        return drawn + 1j * np.random.random_sample(tuple(shape)) if x.dtype.is_complex else drawn
    array: np.ndarray[Any, Any] = np.array(value, dtype)
    if array.shape != tuple(shape):
        raise ValueError(f"x_init_value has shape {array.shape}, x_shape is {tuple(shape)}")
    return array


def _compute(
    session: Any,
    x: Tensor,
    x_shape: Sequence[int],
    y: Tensor,
    y_shape: Sequence[int],
    value: Any,
    delta: float,
    feeds: dict[Any, Any],
) -> tuple[Jacobian, Jacobian]:
    data = _start(x, x_shape, value)
    with y.graph.as_default():
        ones = constant(1.0, shape=list(y_shape), dtype=y.dtype.base_dtype)
        (slope,) = gradients(y, x, identity(ones))
        if slope is None:
            raise ValueError(f"{y.name} does not depend on {x.name}")
    theoretical = _theoretical(session, x, data, slope, ones, y_shape, feeds)
    return theoretical, _numerical(session, x, data, y, y_shape, delta, feeds)


def _real(tensor: Tensor) -> Any:
    return np.zeros((), tensor.dtype.base_dtype.as_numpy_dtype).real.dtype


def _theoretical(
    session: Any,
    x: Tensor,
    data: np.ndarray[Any, Any],
    slope: Any,
    ones: Tensor,
    y_shape: Sequence[int],
    feeds: dict[Any, Any],
) -> Jacobian:
    seed = np.zeros(tuple(y_shape), ones.dtype.as_numpy_dtype)
    entries = seed.reshape(-1).view(_real(ones))
    jacobian = np.zeros((data.reshape(-1).view(_real(x)).size, entries.size), _real(x))

    def run() -> np.ndarray[Any, Any]:
        fed = {**feeds, x: data, ones: seed}
        if not isinstance(slope, IndexedSlices):
            return np.ascontiguousarray(session.run(slope, fed)).reshape(-1).view(_real(x))
        indices, values = session.run([slope.indices, slope.values], fed)
        dense = np.zeros(data.shape, data.dtype)
        np.add.at(dense, indices, values)
        return dense.reshape(-1).view(_real(x))

    for column in range(entries.size):
        entries[column] = 1
        jacobian[:, column] = run()
        entries[column] = 0
    if not entries.size and run().any():
        raise ValueError(f"{x.name} has a gradient that is not zero although y is empty")
    return jacobian


def _numerical(
    session: Any,
    x: Tensor,
    data: np.ndarray[Any, Any],
    y: Tensor,
    y_shape: Sequence[int],
    delta: float,
    feeds: dict[Any, Any],
) -> Jacobian:
    point = np.array(data)
    entries = point.reshape(-1).view(_real(x))
    width = np.zeros(tuple(y_shape), y.dtype.base_dtype.as_numpy_dtype).reshape(-1)
    jacobian = np.zeros((entries.size, width.view(_real(y)).size), _real(x))
    for row in range(entries.size):
        start = entries[row]
        ends = []
        for step in (delta, -delta):
            entries[row] = start + step
            result = np.ascontiguousarray(session.run(y, {**feeds, x: point}))
            ends.append(result.reshape(-1).view(_real(y)))
        entries[row] = start
        jacobian[row] = (ends[0] - ends[1]) / (2 * delta)
    return jacobian
