import numpy as np
import pytest

from sparkflow_runtime.codegen.cpu.trigonometry import MOST, NUMBERS, bind_sine
from sparkflow_runtime.codegen.machine import native

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")
ULPS = 1.75  # up to 1,000 π; for larger numbers π/2 is not exact enough in float64


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("is_cosine", [False, True])
@pytest.mark.parametrize(("scale", "ulps"), [(1e-3, ULPS), (1, ULPS), (3000, ULPS), (5e5, 2.5)])
def test_as_exact_as_it_says(number, is_cosine, scale, ulps):
    x = np.random.default_rng(0).uniform(-scale, scale, 100_003).astype(number.numpy)
    x[:2] = 0.0, np.pi / 2
    found, failure = np.empty_like(x), np.array(7, np.int32)
    bind_sine(number, x.size, is_cosine)(x, found, failure)
    exact = (np.cos if is_cosine else np.sin)(x.astype(np.longdouble))
    wrong = np.abs(found - exact) / np.spacing(np.abs(exact).astype(number.numpy))
    assert wrong.max() < ulps
    assert failure == 0


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("size", [1, 3, 8, 17])
def test_nothing_is_written_beyond(number, size):
    x, found = np.full(size, 0.5, number.numpy), np.full(size + 1, 7, number.numpy)
    bind_sine(number, size, False)(x, found[:size], np.zeros((), np.int32))
    assert found.tolist()[-1] == 7
    np.testing.assert_allclose(found[:-1], np.sin(x), rtol=1e-6)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    ("value", "is_refused"),
    [
        (np.nan, False),
        (np.inf, True),
        (-np.inf, True),
        (MOST, True),
        (-MOST, True),
        (MOST - 1, False),
    ],
)
def test_large_numbers_are_refused(number, value, is_refused):
    x, failure = np.array([0.25, value, 1], number.numpy), np.array(7, np.int32)
    found = np.empty_like(x)
    bind_sine(number, 3, False)(x, found, failure)
    assert failure == is_refused
    np.testing.assert_allclose(found[[0, 2]], np.sin(x[[0, 2]]), rtol=1e-6)
    if not is_refused:
        np.testing.assert_allclose(found, np.sin(x), rtol=1e-6)
