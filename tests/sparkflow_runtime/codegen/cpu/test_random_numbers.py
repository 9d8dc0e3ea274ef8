import numpy as np
import pytest

from sparkflow_runtime.codegen.cpu import random_numbers
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.dtypes import float16, float32, float64, int32, int64
from sparkflow_runtime.ops.random.random import classes

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("count", [0, 1, 7, 64])
def test_numbers_are_those_of_numpy(dtype, count):
    generators = [np.random.Generator(np.random.Philox(5)) for _ in range(2)]
    out = np.full(count + 1, -1, dtype.numpy)
    draw = random_numbers.bind_uniform(generators[0], dtype, count)
    for _ in range(2):
        draw(out)
        expected = generators[1].random(count, dtype.as_numpy_dtype)
        np.testing.assert_array_equal(out[:count], expected)
    assert out[count] == -1
    assert generators[0].random() == generators[1].random()


def test_dtypes_that_are_drawn():
    assert [random_numbers.is_as_numpys(each) for each in (float16, float32, float64)] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("dtype", random_numbers.LOGITS)
@pytest.mark.parametrize("index", [int32, int64])
@pytest.mark.parametrize(("rows", "count", "samples"), [(4, 100, 1), (2, 1, 5), (50, 7, 40)])
def test_classes_are_those_that_numpy_would_draw(dtype, index, rows, count, samples):
    ours, theirs = (np.random.Generator(np.random.Philox(3)) for _ in range(2))
    logits = (np.random.default_rng(0).normal(size=(rows, count)) * 3).astype(dtype.numpy)
    logits[0] -= 2000  # only the differences matter
    if count > 1:
        logits[-1, -1], logits[1, 0] = -np.inf, 800
    found, failure = np.full((rows, samples), 77, index.numpy), np.array(7, np.int32)
    draw = random_numbers.bind_classes(ours, dtype, rows, count, samples, index)
    for _ in range(3):
        draw(logits, found, failure)
        expected = classes(theirs, logits, np.array(samples), index)
        np.testing.assert_array_equal(found, expected)
        assert failure == 0
    assert ours.random() == theirs.random()


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_logits_that_are_no_numbers_are_left_to_python(wrong):
    logits, failure = np.array([[0, wrong, 1.0]]), np.array(7, np.int32)
    draw = random_numbers.bind_classes(
        np.random.Generator(np.random.Philox(3)), float64, 1, 3, 1, int64
    )
    draw(logits, np.zeros((1, 1), np.int64), failure)
    assert failure == 1


def test_two_classes_are_drawn_as_often_as_they_should():
    generator = np.random.Generator(np.random.Philox(3))
    for gap in (1e-9, 0.1, 0.7, 5.0, 30.0):
        logits = np.array([[-gap, 0.0]])
        draw = random_numbers.bind_classes(generator, float64, 1, 2, 20_000, int64)
        found = np.zeros((1, 20_000), np.int64)
        draw(logits, found, np.array(0, np.int32))
        share = 1 / (1 + np.exp(-gap))
        assert abs(found.mean() - share) < 4 * np.sqrt(share * (1 - share) / 20_000) + 1e-12
