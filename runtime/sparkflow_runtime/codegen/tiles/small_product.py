"""Products of small matrices as LLVM IR, without packing, so that eight rows cost nanoseconds.

`gemm_ir` packs both factors, which pays off if each element is used often. Here factors are read in
place. The right one needs contiguous rows; one that has to be transposed is first transposed into
separate memory.
"""

from __future__ import annotations

from itertools import repeat
from typing import Final

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.tiles.gemm_form import Size, places
from sparkflow_runtime.codegen.tiles.tile import Tile, TilePart, Writer

MOST: Final = 64
"""Maximum rows, columns and depth of a small product."""
_PANEL: Final = 2
"""Width of a tile in vectors of columns."""
_NUM_SIZES: Final = Size.RIGHT_COLUMN + 1
"""A single product uses only the first of them."""


def text(element: str, lanes: int, rows: int) -> str:
    """Returns the module: `body` computes out = left right; its arrays are left, right, out.

    It reads the fields of `Size` up to `RIGHT_COLUMN`.

    Args:
        element: `float` or `double`.
        lanes: Elements per vector register.
        rows: Rows of a tile, a power of two; twice as many registers are accumulators.
    """
    return _Writer(element, lanes, rows).text()


def stack_text(element: str, lanes: int, rows: int) -> str:
    """Returns the module: `body` computes a part of a stack of products, like that of `gemm_ir`.

    Unlike that one, it neither adds nor scales, and splits only by whole products.

    Args:
        element: `float` or `double`.
        lanes: Elements per vector register.
        rows: See `text`.
    """
    return _StackWriter(element, lanes, rows).text()


def dots_text(element: str, lanes: int) -> str:
    """Returns the module: `body` computes out = left right' for few rows of the left factor.

    Both are in C order. It reads the fields of `Size` up to `RIGHT_COLUMN`: M and N are the rows of
    the right and of the left factor, `LEFT_ROW` is K.
    """
    return _DotsWriter(element, lanes, 1).text()


class _Writer(Writer):
    def __init__(self, element: str, lanes: int, rows: int, num_sizes: int = _NUM_SIZES) -> None:
        super().__init__(element, lanes, num_sizes)
        self._rows = rows
        self._tile = Tile(self._vectors, rows, _PANEL)
        self._out_row: Value = self._sizes[Size.N]

    def _write(self) -> None:
        left, right, out = self._code.arrays(3)
        self._product(left, right, out)

    def _product(self, left: str, right: str, out: str) -> None:
        code, size = self._code, self._sizes
        is_deep = code.compare("sge", size[Size.K], self._vectors.lanes)
        is_vector = code.both(is_deep, code.compare("eq", size[Size.N], 1))
        for stride in (Size.LEFT_DEPTH, Size.RIGHT_DEPTH):
            is_vector = code.both(is_vector, code.compare("eq", size[stride], 1))
        with code.when(is_vector):
            self._with_vector(left, right, out)
        with code.unless(is_vector):
            self._with_matrix(left, right, out)

    def _with_vector(self, left: str, right: str, out: str) -> None:
        """Multiplies every row of the left factor by the only, contiguous column of the right."""
        code, size, vectors = self._code, self._sizes, self._vectors
        sums = code.variable(vectors.kind)
        with code.loop(0, size[Size.M]) as row:
            line = self._at(left, code.multiply(row, size[Size.LEFT_ROW]))
            code.set(sums, "zeroinitializer", vectors.kind)
            with code.loop(0, size[Size.K], vectors.lanes) as k:
                mask = vectors.first(code.subtract(size[Size.K], k))
                first, second = (vectors.load(each, k, mask) for each in (line, right))
                total = vectors.multiply_add(first, second, code.get(sums, vectors.kind))
                code.set(sums, total, vectors.kind)
            found = vectors.total(code.get(sums, vectors.kind))
            place = self._at(out, code.multiply(row, self._out_row))
            code.store(vectors.element, found, place, vectors.size_bytes)

    def _with_matrix(self, left: str, right: str, out: str) -> None:
        code, size, vectors = self._code, self._sizes, self._vectors
        turned = code.variable(f"[{MOST * MOST} x {vectors.element}]")
        factor = code.variable("ptr", None)
        depth_stride = code.variable("i64", size[Size.RIGHT_DEPTH])
        code.set(factor, right, "ptr")
        with code.when(code.compare("ne", size[Size.RIGHT_COLUMN], 1)):
            self._turn(right, turned)
            code.set(factor, turned, "ptr")
            code.set(depth_stride, size[Size.N])
        right, step = code.get(factor, "ptr"), code.get(depth_stride)
        width = _PANEL * vectors.lanes
        with code.loop(0, size[Size.N], width) as column:
            inside = code.subtract(size[Size.N], column)
            masks = [vectors.first(code.subtract(inside, v * vectors.lanes)) for v in range(_PANEL)]
            is_narrow = code.compare("sle", inside, vectors.lanes)
            is_wide = code.negated(is_narrow)
            beside, below = self._at(right, column), self._at(out, column)
            for condition, each_mask in ((is_narrow, masks[:1]), (is_wide, masks)):
                with code.when(condition):
                    self._panel(left, (beside, step), below, each_mask)

    def _turn(self, source: str, target: str) -> None:
        """Transposes the right factor so that its rows are contiguous."""
        code, size, element = self._code, self._sizes, self._vectors.element
        with code.loop(0, size[Size.N]) as n:
            line = self._at(source, code.multiply(n, size[Size.RIGHT_COLUMN]))
            with code.loop(0, size[Size.K]) as k:
                value = code.load(
                    element,
                    self._at(line, code.multiply(k, size[Size.RIGHT_DEPTH])),
                    self._vectors.size_bytes,
                )
                place = self._at(target, code.add(code.multiply(k, size[Size.N]), n))
                code.store(element, value, place, self._vectors.size_bytes)

    def _panel(self, left: str, right: tuple[str, str], out: str, masks: list[str]) -> None:
        """Computes all rows of some columns: tiles of `rows`, then half as many, down to one."""
        code, size = self._code, self._sizes
        done: Value = 0
        rows = self._rows
        while rows:
            last = code.let(f"and i64 {size[Size.M]}, {-rows}")
            with code.loop(done, last, rows) as row:
                above = self._at(left, code.multiply(row, size[Size.LEFT_ROW]))
                below = self._at(out, code.multiply(row, self._out_row))
                self._rows_of(self._tile.part(rows, masks), rows, above, right, below)
            done = last
            rows //= 2

    def _rows_of(
        self, part: TilePart, rows: int, left: str, right: tuple[str, Value], out: str
    ) -> None:
        code, size, vectors = self._code, self._sizes, self._vectors
        factor, step = right
        part.clear()
        lines = [code.multiply(n, size[Size.LEFT_ROW]) for n in range(rows)]
        with code.loop(0, size[Size.K]) as k:
            here = self._at(left, code.multiply(k, size[Size.LEFT_DEPTH]))
            values = part.load(self._at(factor, code.multiply(k, step)))
            part.add_products((repeat(vectors.broadcast(here, line)) for line in lines), values)
        part.store(self._at(out, code.multiply(n, self._out_row)) for n in range(rows))


class _DotsWriter(_Writer):
    def _write(self) -> None:
        code, size = self._code, self._sizes
        left, right, out = code.arrays(3)
        self._out_row = 1
        with code.loop(0, size[Size.N]) as row:
            line = self._at(left, code.multiply(row, size[Size.K]))
            self._with_vector(right, line, self._at(out, code.multiply(row, size[Size.M])))


class _StackWriter(_Writer):
    def __init__(self, element: str, lanes: int, rows: int) -> None:
        super().__init__(element, lanes, rows, len(Size))
        self._out_row = self._sizes[Size.OUT_ROW]

    def _write(self) -> None:
        code, size = self._code, self._sizes
        arrays = code.arrays(3)
        bounds = []
        for number in ("%part", code.add("%part", 1)):
            before = code.multiply(size[Size.COUNT], number)
            bounds.append(code.let(f"sdiv i64 {before}, {size[Size.COUNT_PARTS]}"))
        with code.loop(*bounds) as product:
            self._product(*places(code, self._vectors.element, size, arrays, product))
