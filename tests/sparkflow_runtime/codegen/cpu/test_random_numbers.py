import numpy as np
import pytest

from sparkflow_runtime.codegen.cpu import random_numbers
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.dtypes import float16, float32, float64

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
