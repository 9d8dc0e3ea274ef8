"""Choosing between arrays by their bits."""

import numpy as np
import pytest

from sparkflow_runtime.ops.kernels.choosing import choose, fill_chosen

DTYPES = ["f2", "f4", "f8", "i1", "u2", "i4", "i8", "?", "c8", "c16", "O"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [3, 50])
def test_it_is_where(dtype, size):
    random = np.random.default_rng(0)
    condition = random.random((size, size)) > 0.5
    t, e = (random.integers(0, 100, (size, size)).astype(dtype) for _ in range(2))
    for cases in ((condition, t, e), (condition, t, e[0]), (condition[:, ::2], t[:, ::2], e[0, 0])):
        given = [np.asarray(each) for each in cases]
        expected = np.where(*given)
        found = choose(np, *given)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        out = np.zeros(expected.shape, dtype)
        fill_chosen(*given, out)
        np.testing.assert_array_equal(out, expected)


def test_every_bit_is_kept():
    condition = np.arange(4096) % 2 == 0
    t = np.full(4096, -0.0, np.float32)
    e = np.full(4096, np.nan, np.float32)
    e[1] = -np.inf
    found = choose(np, condition, t, e)
    assert found.tobytes() == np.where(condition, t, e).tobytes()
