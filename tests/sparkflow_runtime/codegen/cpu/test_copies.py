import numpy as np
import pytest

from sparkflow_runtime.codegen.cpu.copies import ZEROS, Pieces, bind_copies
from sparkflow_runtime.codegen.machine import native

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


def test_two_arrays_side_by_side_and_zeros() -> None:
    left, right = np.arange(6.0).reshape(3, 2), np.arange(10.0, 13.0).reshape(3, 1)
    out = np.full((3, 5), 7.0)
    pieces = [
        Pieces(0, 0, 0, 16, 3, source_step=16, target_step=40),
        Pieces(1, 0, 16, 8, 3, source_step=8, target_step=40),
        Pieces(ZEROS, 0, 24, 16, 3, target_step=40),
    ]
    assert bind_copies(pieces, 2)(left, right, out)
    assert out.tolist() == [[0, 1, 10, 0, 0], [2, 3, 11, 0, 0], [4, 5, 12, 0, 0]]


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 16, 64, 100])
def test_lengths(length: int) -> None:
    source = np.arange(250, dtype=np.uint8)
    out = np.zeros(250, np.uint8)
    bind_copies([Pieces(0, 3, 1, length, 2, source_step=-3, target_step=length)], 1)(source, out)
    wanted = [*source[3 : 3 + length], *source[:length]]
    assert out[1 : 1 + 2 * length].tolist() == wanted
    assert not out[0]
    assert not out[1 + 2 * length :].any()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_words_at_equal_distances(dtype: type) -> None:
    """As many as are copied at once, fewer, and more."""
    source = np.arange(40).astype(dtype)
    size = source.itemsize
    for count in (0, 1, 3, 4, 5, 8, 11):
        out = np.full(40, 99, dtype)
        pieces = Pieces(0, size, 2 * size, size, count, 2 * size, 3 * size)
        assert bind_copies([pieces], 1)(source, out)
        wanted = np.full(40, 99, dtype)
        wanted[2 : 2 + 3 * count : 3] = source[1 : 1 + 2 * count : 2]
        np.testing.assert_array_equal(out, wanted)


def test_nothing_to_copy() -> None:
    out = np.full(3, 7.0)
    bind_copies([], 0)(out)
    assert out.tolist() == [7, 7, 7]
