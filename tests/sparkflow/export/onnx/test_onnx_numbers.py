"""Arithmetic in onnxruntime where digits are easily lost, and of integers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export.onnx.convert import to_onnx
from sparkflow_runtime.errors import UnimplementedError
from tests.sparkflow.export.onnx.comparison import compare, model_of

RANDOM = np.random.default_rng(0)
FLOATS = ("float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16")


def _of_pairs(operation: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda x: operation(x[:, 0], x[:, 1])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "operation", [tf.floormod, tf.floordiv, tf.truncatemod, tf.truncatediv, tf.divide]
)
def test_remainders_keep_their_digits(operation: Callable[[Any, Any], Any], dtype: str) -> None:
    special = [(1.7e9, 3600), (1e30, 3600), (1.5, 0.3), (-6, 3), (6, -3), (-1, 1e30), (5, 0)]
    special += [(0.0, 3), (-0.0, 3), (-1, np.inf), (1, -np.inf), (np.inf, 3), (np.nan, 1)]
    scales = 10.0 ** RANDOM.uniform((-3, -3), (9, 3), (500, 2))
    pairs = np.concatenate([special, RANDOM.normal(size=(500, 2)) * scales])
    compare(_of_pairs(operation), pairs.astype(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("operation", [tf.floormod, tf.floordiv, tf.truncatediv])
def test_integers_are_divided_exactly(operation: Callable[[Any, Any], Any], dtype: str) -> None:
    bounds = np.iinfo(dtype)
    low, high = int(bounds.min), int(bounds.max)
    x = np.concatenate([[low, low, high], RANDOM.integers(low, high, 500)])
    y = RANDOM.integers(max(low, -9), 10, x.size)
    y[:3] = 3, 7, 2
    compare(_of_pairs(operation), np.stack([x, np.where(y, y, 5)], 1).astype(dtype))


NUMBERS = {
    "log1p": tf.log1p,
    "expm1": tf.expm1,
    "softplus": tf.nn.softplus,
    "log_sigmoid": tf.log_sigmoid,
    "cross entropy": lambda x: tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.ones_like(x), logits=x
    ),
    "erfc": tf.erfc,
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in NUMBERS
        for dtype in (*FLOATS, "float16")
        if (name, dtype) != ("erfc", "float64")
    ],
)
def test_no_digits_are_lost_near_zero(name: str, dtype: str) -> None:
    largest = {"float16": 4, "float32": 38, "float64": 300}[dtype]
    sizes = 10.0 ** np.concatenate(
        [RANDOM.uniform(-min(largest, 30), largest, 500), RANDOM.uniform(-8, 2, 500)]
    )
    special = [0.0, -0.0, 1, -1, -2, -0.999, 88, 89, -20, np.inf, -np.inf, np.nan]
    x = np.concatenate([special, sizes, -sizes]).astype(dtype)
    rtol, atol = {"float16": (2e-3, 1e-7), "float32": (2e-5, 1e-37), "float64": (2e-13, 1e-300)}[
        dtype
    ]
    compare(NUMBERS[name], x, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_many_are_added(dtype: str) -> None:
    compare(lambda x: [tf.add_n([x, x, x]), tf.add_n([x])], np.array([1, -7, 3]).astype(dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, "float16"])
def test_nan_is_no_extreme(dtype: str) -> None:
    nan, inf = np.nan, np.inf
    rows = [[nan, 1, 2], [1, nan, 2], [2, 1, nan], [nan, nan, nan], [nan, -inf, inf], [nan, 0, nan]]
    compare(lambda x: [tf.argmax(x, 1), tf.argmin(x, 1)], np.array(rows).astype(dtype))


def test_erfc_of_float64_is_refused() -> None:
    with pytest.raises(UnimplementedError, match=r"\(op Erfc\) .*cast its input to float32"):
        to_onnx(model_of((), "float64", tf.erfc))
