"""Inverses of permutations in machine code."""

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.rows.permutations import inverse

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("size", [0, 1, 7, 70_000])
def test_it_names_the_place_of_each_number(dtype, size):
    x = np.random.default_rng(0).permutation(size).astype(dtype)
    found = inverse(x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.argsort(x))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("value", [-1, 3, 0, 2**31 - 1, -(2**31)])
def test_what_is_no_permutation_leaves_places_out(dtype, value):
    """And nothing is written beyond them."""
    memory = np.array([0, 1, value, 77, 77], dtype)
    assert inverse(memory[:3]).min() == -1


def test_other_arrays_are_left_to_others():
    assert inverse(np.arange(4, dtype=np.int16)) is None
    assert inverse(np.arange(8, dtype=np.int32)[::2]) is None
