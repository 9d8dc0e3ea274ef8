import ctypes
from enum import IntEnum
from itertools import repeat

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.tiles.tile import Tile, Writer

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")

ROWS, WIDTH, LANES = 3, 2, 4
BODY = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)


class Size(IntEnum):
    DEPTH = 0
    INSIDE = 1
    """The number of valid lanes in the last vector."""


class Outer(Writer):
    """out[row, column] (+)= Σ left[row, depth] · right[depth, column], one tile."""

    def __init__(self, rows: int, adds: bool, one_by_one: bool) -> None:
        super().__init__("double", LANES, len(Size))
        self._rows, self._adds, self._one_by_one = rows, adds, one_by_one
        self._tile = Tile(self._vectors, ROWS, WIDTH)

    def _write(self) -> None:
        code, vectors = self._code, self._vectors
        left, right, out = code.arrays(3)
        part = self._tile.part(self._rows, [None, vectors.first(self._size(Size.INSIDE))])
        part.clear()
        with code.each(0, self._size(Size.DEPTH)) as turns:
            for k in turns:
                line = self._at(right, code.multiply(k, WIDTH * LANES))
                lines = [code.multiply(self._size(Size.DEPTH), n) for n in range(self._rows)]
                lefts = (repeat(vectors.broadcast(left, code.add(k, each))) for each in lines)
                rights = [*part.one_by_one(line)] if self._one_by_one else part.load(line)
                part.add_products(lefts, rights)
        outs = [self._at(out, n * WIDTH * LANES) for n in range(self._rows)]
        if self._adds:
            part.add_what_is_at(outs)
        part.store(outs)


@pytest.mark.parametrize("rows", [1, ROWS])
@pytest.mark.parametrize("inside", [1, LANES])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_tile_is_a_sum_of_outer_products_within_its_masks(
    rows: int, inside: int, adds: bool, one_by_one: bool
) -> None:
    rng = np.random.default_rng(3)
    depth, columns = 5, WIDTH * LANES
    left = rng.integers(-4, 5, (ROWS, depth)).astype(np.float64)
    right = rng.integers(-4, 5, (depth, columns)).astype(np.float64)
    out = rng.integers(-4, 5, (ROWS, columns)).astype(np.float64)
    expected = out.copy()
    there = slice(0, LANES + inside)
    product = left[:rows] @ right[:, there]
    expected[:rows, there] = product + (out[:rows, there] if adds else 0)
    text = Outer(rows, adds, one_by_one).text()
    body = BODY(native.link(text, ("body",)).address("body"))
    sizes = np.array([depth, inside], np.int64)
    arrays = np.array([each.ctypes.data for each in (left, right, out)], np.int64)
    body(sizes.ctypes.data, arrays.ctypes.data, 0, 0, 0)
    np.testing.assert_array_equal(out, expected)


def test_turns_that_are_known_are_written_out() -> None:
    writer = Outer(1, False, False)
    with writer._code.each(2, 5) as turns:
        assert list(turns) == [2, 3, 4]
    with writer._code.each(0, "%n") as turns:
        (turn,) = turns
        assert str(turn).startswith("%")
