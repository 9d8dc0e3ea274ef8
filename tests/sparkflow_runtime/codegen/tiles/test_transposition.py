"""Transposing matrices in machine code."""

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import host, native, threads
from sparkflow_runtime.codegen.tiles import transposition

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")

SIZES = [(1, 1, 1), (2, 3, 5), (1, 16, 16), (3, 17, 33), (1, 100, 70), (2, 64, 10), (2, 10, 64)]


def numbers(sizes, size_bytes):
    return np.random.default_rng(0).integers(0, 255, sizes, f"u{size_bytes}")


@pytest.mark.parametrize("size_bytes", sorted(transposition.ELEMENT_BYTES))
@pytest.mark.parametrize("sizes", SIZES)
def test_matrices_are_transposed(size_bytes, sizes):
    count, rows, columns = sizes
    x = numbers(sizes, size_bytes)
    out = np.zeros((count, columns, rows), x.dtype)
    assert transposition.bound(size_bytes, *sizes)(x, out) is True
    np.testing.assert_array_equal(out, x.swapaxes(1, 2))


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_every_width_of_registers_is_right(vector_bytes):
    body = native.body(transposition.text(4, vector_bytes))
    x = numbers((2, 37, 70), 4)
    out = np.zeros((2, 70, 37), x.dtype)
    assert body.bind((37, 70), (x.size, x.size), 2 * 5)(x, out) is True
    np.testing.assert_array_equal(out, x.swapaxes(1, 2))
    assert host.host().vector_bytes in (16, 32, 64)


def test_large_matrices_are_shared_by_threads(monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: 3)
    x = numbers((2, 500, 300), 4)
    out = np.zeros((2, 300, 500), x.dtype)
    assert transposition.bound(4, 2, 500, 300)(x, out) is True
    np.testing.assert_array_equal(out, x.swapaxes(1, 2))


def test_gaps_are_refused():
    x = numbers((1, 20, 40), 4)[:, :, ::2]
    out = np.zeros((1, 20, 20), x.dtype)
    assert transposition.bound(4, 1, 20, 20)(x, out) is False
    assert not out.any()


@pytest.mark.parametrize("words", [1, 3, 16])
@pytest.mark.parametrize("sizes", SIZES)
def test_short_rows_are_moved_whole(words, sizes):
    count, rows, columns = sizes
    x = numbers((*sizes, words), 4)
    out = np.zeros((count, columns, rows, words), x.dtype)
    assert transposition.has_elements(4 * words)
    assert transposition.bound(4 * words, *sizes, words)(x, out) is True
    np.testing.assert_array_equal(out, x.swapaxes(1, 2))


def test_what_is_no_number_and_no_short_row_is_not_transposed():
    assert not any(map(transposition.has_elements, (0, 3, 6, 10, 68, 1 << 20)))
