"""Dtypes that onnxruntime lacks: a wider one gives the same, or the op is refused by name."""

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export.onnx.convert import to_onnx
from sparkflow.export.onnx.kernels import computed_in
from sparkflow_runtime.errors import UnimplementedError
from tests.sparkflow.export.onnx.comparison import Build, compare, model_of

RANDOM = np.random.default_rng(0)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16")
FLOATS = ("float16", "float64")
ALL = (*SIGNED, *UNSIGNED, *FLOATS, "bool")
NUMBERS = (*SIGNED, *UNSIGNED, *FLOATS)


def _column(x: Any) -> Any:
    return x[:, :, None, None]


# The dtypes that sparkflow takes, and that a file can hold.
OPS: dict[str, tuple[tuple[str, ...], Build]] = {
    "unique": (ALL, lambda x: tf.gather(*tf.unique(tf.reshape(x, [-1])))),
    "where": (ALL, lambda x: tf.where(tf.equal(x, x[:, ::-1]), x, x[:, ::-1])),
    "not zero": (ALL, lambda x: tf.where(x)),
    "argmax": (NUMBERS, lambda x: [tf.argmax(x, 1), tf.argmin(x, 1)]),
    "extremes": (NUMBERS, lambda x: [tf.maximum(x, x[:, ::-1]), tf.reduce_max(x, 1)]),
    "sums": (NUMBERS, lambda x: [tf.reduce_sum(x, 1), tf.reduce_prod(x, 1), tf.cumsum(x, 1)]),
    "means": (NUMBERS, lambda x: tf.reduce_mean(x, 1)),
    "relu": (NUMBERS, tf.nn.relu),
    "largest": (NUMBERS, lambda x: tf.nn.top_k(x, 2)[0]),
    "padded": (ALL, lambda x: tf.pad(x, [[0, 0], [1, 1]])),
    "pool": (
        ("int8", "int32", "uint8", "uint16", *FLOATS),
        lambda x: tf.nn.max_pool(_column(x), [1, 2, 1, 1], [1, 2, 1, 1], "VALID"),
    ),
    "blocks": (
        ("int8", "int32", "uint8", "bool", *FLOATS),
        lambda x: tf.space_to_depth(tf.reshape(x, [-1, 2, 2, 1]), 2),
    ),
    "product": (("int32", "int64", *FLOATS), lambda x: tf.matmul(x, tf.ones([4, 2], x.dtype))),
    "equation": (
        ("int8", "uint16", "int32", "int64", *FLOATS),
        lambda x: tf.einsum("ij,jk->ik", x, tf.ones([4, 2], x.dtype)),
    ),
    "clipped": (("int16", "uint16", "int32", *FLOATS), tf.nn.relu6),
    "powers": (("int32", "int64"), lambda x: [x**2, x**39, x ** (x * x)]),
    "segments": (
        (*SIGNED, *UNSIGNED, "float16"),
        lambda x: tf.segment_sum(x, tf.zeros_like(x[:, 0], tf.int32)),
    ),
    "one hot": (("int64",), lambda x: tf.one_hot(x, 3, True, False)),
}


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name, (dtypes, _) in OPS.items() for dtype in dtypes]
)
def test_each_dtype_gives_the_same(name: str, dtype: str) -> None:
    x = RANDOM.integers(0 if dtype[0] in "ub" else -3, 4, (3, 4)).astype(dtype)
    rtol = 2e-3 if dtype == "float16" else 1e-12
    compare(OPS[name][1], x, rtol=0 if dtype not in FLOATS else rtol)


def test_bfloat16_is_rounded_after_each_op() -> None:
    def build(x: Any) -> Any:
        short = tf.cast(x, tf.bfloat16)
        made = [
            tf.nn.relu(short * short + short)[:, 1:] / short[:, :1],
            tf.pow(short * short, short),
            tf.tile(tf.zeros_like(short) + short, [1, 2]),
            tf.segment_sum(short, tf.zeros_like(short[:, 0], tf.int32)),
        ]
        return [tf.cast(each, tf.float32) for each in made]

    compare(build, RANDOM.normal(size=(50, 4)).astype(np.float32))


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda x: tf.atan(x, name="n"), r"The node 'n' \(op Atan\) .*: onnxruntime has no Atan"),
        (lambda x: tf.erf(x, name="n"), r"The node 'n' \(op Erf\) .*float64; compute it in an"),
        (
            lambda x: tf.nn.avg_pool(
                _column(x), [1, 2, 1, 1], [1, 2, 1, 1], "VALID", name="n"
            ),
            r"The node 'n' \(op AvgPool\) .*no AveragePool of float64",
        ),
        (
            lambda x: tf.nn.conv2d(
                _column(x), np.ones((2, 1, 1, 1)), [1] * 4, "VALID", name="n"
            ),
            r"The node 'n' \(op Conv2D\) .*no Conv of float64",
        ),
    ],
)  # fmt: skip
def test_what_has_no_kernel_is_named(build: Build, text: str) -> None:
    with pytest.raises(UnimplementedError, match=text):
        to_onnx(model_of((4,), "float64", build))


def test_sums_of_integers_stay_exact() -> None:
    assert computed_in("ReduceSum", np.dtype("int8")) == np.int32
    assert computed_in("Conv", np.dtype("int8")) is None
    assert computed_in("MaxPool", np.dtype("int32")) == np.float64
    assert computed_in("Add", np.dtype("int8")) == np.int8
    bfloat16 = np.dtype(tf.bfloat16.as_numpy_dtype)
    assert computed_in("Add", bfloat16) == np.float32
    assert computed_in("Reshape", bfloat16) == bfloat16
