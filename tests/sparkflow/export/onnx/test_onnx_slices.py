"""Slices, splits, gathers and one-hot rows in onnxruntime, with bounds and ids of all kinds."""

import itertools
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export.onnx.convert import to_onnx
from tests.sparkflow.export.onnx.comparison import (
    Build,
    compare,
    model_of,
    onnxruntime,
    run,
)

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
BOUNDS = (None, 0, 1, 2, 7, -1, -2, -3, -4, -100)
SOME = (None, 0, 2, 7, -1, -3, -100)
STRIDES = (1, 2, -1, -2)


def _unknown(x: Any) -> Any:
    return tf.placeholder_with_default(x, [None] * 3)


@pytest.mark.parametrize("is_unknown", [False, True])
@pytest.mark.parametrize("stride", STRIDES)
def test_slices(stride: int, is_unknown: bool) -> None:
    def build(x: Any) -> list[Any]:
        x = _unknown(x) if is_unknown else x
        return [x[:, a:b:stride] for a, b in itertools.product(BOUNDS, BOUNDS)]

    compare(build, X)


@pytest.mark.parametrize("stride", STRIDES)
def test_slices_of_computed_bounds(stride: int) -> None:
    def build(x: Any) -> list[Any]:
        def computed(bound: int | None) -> Any:
            return None if bound is None else tf.to_int32(x[0, 0, 0]) + bound

        return [
            x[:, computed(a) : computed(b) : stride]
            for a, b in itertools.product(SOME, SOME)
            if (a, b) != (None, None)
        ]

    compare(build, X)


def test_one_element_at_a_computed_place() -> None:
    def build(x: Any) -> list[Any]:
        zero = tf.to_int32(x[0, 0, 0])
        made = [x[:, zero + at] for at in (0, 2, -1, -3)]
        return [*made, x[:, zero - 1, ::-1], x[:, 1 : zero + 3, -1], x[zero:, zero - 1, zero + 1]]

    compare(build, X)


@pytest.mark.parametrize("at", [3, -4])
def test_an_element_that_is_not_there_is_refused(at: int) -> None:
    made = to_onnx(model_of((3, 4), "float32", lambda x: x[:, tf.to_int32(x[0, 0, 0]) + at]))
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="Squeeze"):
        run(made, {"in": X})


def test_splits_with_a_rest() -> None:
    def build(x: Any) -> list[Any]:
        return [
            *tf.split(x, [1, -1, 1], axis=2),
            *tf.split(x, [-1, 2], axis=-2),
            *tf.split(_unknown(x), [1, -1], axis=-1),
            *tf.split(x, [-1, 2, 2], axis=2),
        ]

    compare(build, X)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_rows_with_a_one(dtype: str) -> None:
    kinds = tf.float32, tf.float64, tf.float16, tf.int32, tf.int64, tf.int8, tf.uint8
    x = np.array([[0, 1], [2, 3], [9, 1]])

    def build(x: Any) -> list[Any]:
        made = [tf.one_hot(x, 3, dtype=each) for each in kinds]
        made += [tf.one_hot(x, 3, 5.0, -1.0, axis=axis) for axis in (0, 1, 2, -1)]
        return [*made, tf.one_hot(x, tf.to_int32(x[1, 0]) + 1)]

    compare(build, x.astype(dtype))
    if dtype != "uint8":
        compare(build, np.where(x == 9, -1, x).astype(dtype))


GATHERS: dict[str, Build] = {
    "gather": lambda x: tf.gather(tf.range(5.0), x),
    "gather along": lambda x: tf.gather(tf.ones([2, 5]), x, axis=1),
    "gather_nd": lambda x: tf.gather_nd(tf.range(5.0), x[:, None]),
    "lookup": lambda x: tf.nn.embedding_lookup(tf.ones([5, 2]), x),
    "segments": lambda x: tf.sparse_segment_sum(tf.ones([5, 2]), x, tf.zeros_like(x)),
}


@pytest.mark.parametrize("name", GATHERS)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_ids_are_not_counted_from_the_end(name: str, dtype: str) -> None:
    made = to_onnx(model_of((), dtype, GATHERS[name]))
    assert run(made, {"in": np.array([0, 4], dtype)})
    for each in (-1, 5):
        with pytest.raises(Exception, match=r"(?i)out of (data )?bounds|invalid ind"):
            run(made, {"in": np.array([0, each], dtype)})
