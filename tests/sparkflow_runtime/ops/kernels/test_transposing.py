"""Copies of transposed arrays."""

import itertools

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.kernels.transposing import contiguous, fill_transposed, matrices


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((3, 4), (1, 0), (1, 3, 4)),
        ((2, 3, 4, 5), (0, 3, 1, 2), (2, 12, 5)),
        ((2, 5, 3, 4), (0, 2, 3, 1), (2, 5, 12)),
        ((2, 3, 4), (2, 0, 1), (1, 6, 4)),
        ((1, 3, 1, 4), (3, 2, 0, 1), (1, 3, 4)),
        ((2, 3, 4), (0, 1, 2), None),
        ((2, 3, 4), (1, 0, 2), None),
        ((2, 3, 4), (2, 1, 0), None),
        ((1, 4), (1, 0), None),
    ],
)
def test_what_moves_is_seen_as_matrices(shape, axes, expected):
    assert matrices(shape, axes) == expected


@pytest.mark.parametrize("axes", list(itertools.permutations(range(4))), ids=str)
@pytest.mark.parametrize("has_code", [True, False])
def test_every_order_is_that_of_numpy(axes, has_code, monkeypatch):
    if not has_code:
        monkeypatch.setattr(native, "available", lambda: False)
    x = np.random.default_rng(0).random((3, 20, 7, 16), np.float32)
    for source in (x, x[..., ::2], np.asfortranarray(x), x.astype(complex)):
        expected = source.transpose(axes)
        out = np.empty(expected.shape, source.dtype)
        fill_transposed(source, axes, out)
        np.testing.assert_array_equal(out, expected)


def test_objects_are_counted():
    x = np.full((40, 40), "a", object)
    x[3, 4] = "b"
    out = np.empty((40, 40), object)
    fill_transposed(x, (1, 0), out)
    assert out[4, 3] == "b"


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_arrays_are_put_in_order(order):
    given = np.arange(7 * 40 * 33, dtype=np.float32).reshape(7, 40, 33).transpose(order)
    found = contiguous(given)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, given)
    assert (found is given) == (order == (0, 1, 2))
    for index in (np.s_[1:, ::2, 3:], np.s_[::-1, :, ::-1], np.s_[:, ::-1, :3]):
        np.testing.assert_array_equal(contiguous(given[index]), given[index])


@pytest.mark.parametrize("shape", [(9, 32, 64), (4, 16, 20, 16)])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.uint8, object])
def test_every_order_of_many_elements(shape, dtype):
    x = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    for axes in itertools.permutations(range(len(shape))):
        expected = np.ascontiguousarray(x.transpose(axes))
        out = np.empty_like(expected)
        fill_transposed(x, axes, out)
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(contiguous(x.transpose(axes)), expected)
