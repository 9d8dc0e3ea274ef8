"""Matrix products as LLVM IR, after Goto and van de Geijn (ACM TOMS 34, 2008).

A tile of `rows` × `vectors` vectors of the result stays in registers while it runs over a block of
the sum. Both factors are packed into the order in which the micro-kernel reads them, in blocks that
fit the caches: transposed factors cost nothing extra, and leading dimensions that are powers of two
do not thrash. A factor that is read only once is read in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.tiles.gemm_form import Form, Size, places
from sparkflow_runtime.codegen.tiles.packing_ir import PackingWriter
from sparkflow_runtime.codegen.tiles.tile import Tile

UNROLLED: Final = 4
"""Unroll factor of the innermost loop."""
_SMALL_BYTES: Final = 32768
"""Packed copies up to this size are on the stack."""
_ALIGNMENT: Final = 64
_READINGS: Final = 16
"""A right factor of one vector per line is copied only if more tiles than this read it."""
_NEAR_BYTES: Final = 1 << 20
"""Right factors up to this size are assumed to be in a near cache."""


def text(form: Form) -> str:
    """Returns the module: `body` computes a part of the products; arrays: left, right, out."""
    return _Writer(form).text()


class _Writer(PackingWriter):
    def __init__(self, form: Form) -> None:
        super().__init__(form)
        self._tile = Tile(self._vectors, form.rows, form.vectors)

    def _write(self) -> None:
        code, size, form = self._code, self._size, self._form
        left, right, out = code.arrays(3)
        columns_part = code.let(f"srem i64 %part, {size(Size.COLUMN_PARTS)}")
        rest = code.let(f"sdiv i64 %part, {size(Size.COLUMN_PARTS)}")
        rows_part = code.let(f"srem i64 {rest}, {size(Size.ROW_PARTS)}")
        count_part = code.let(f"sdiv i64 {rest}, {size(Size.ROW_PARTS)}")
        first, last = self._share(Size.COUNT, 1, count_part, Size.COUNT_PARTS)
        top, bottom = self._share(Size.M, form.rows, rows_part, Size.ROW_PARTS)
        start, stop = self._share(Size.N, form.columns, columns_part, Size.COLUMN_PARTS)
        self._start = start
        rows, columns = code.subtract(bottom, top), code.subtract(stop, start)
        self._scales = code.compare("ne", size(Size.SCALES), 0)
        left = self._at(left, code.multiply(top, size(Size.LEFT_ROW)))
        if not form.right_is_packed:
            right = self._at(right, code.multiply(start, size(Size.RIGHT_COLUMN)))
        out = self._at(out, code.add(code.multiply(top, size(Size.OUT_ROW)), start))
        some = code.both(code.compare("sgt", rows, 0), code.compare("sgt", columns, 0))
        with code.when(some):
            self._products((left, right, out), rows, columns, first, last)

    def _tiles(self, total: Value, unit: int) -> tuple[str, Value]:
        """Returns the number of tiles, and the missing part of the last one."""
        tiles = self._quotient_up(total, unit)
        return tiles, self._code.subtract(self._code.multiply(tiles, unit), total)

    def _slice(self, depth: Value, width: int) -> Value:
        """Elements of a slice in a copy: an odd number of cache lines, to spread over sets."""
        code, line = self._code, _ALIGNMENT // self._vectors.size_bytes
        lines = self._quotient_up(code.multiply(depth, width), line)
        return code.multiply(code.let(f"or i64 {lines}, 1"), line)

    def _share(self, size: Size, unit: int, part: str, parts: Size) -> tuple[str, str]:
        """Returns the range of one part, in whole units."""
        code, total, split = self._code, self._size(size), self._size(parts)
        units = self._quotient_up(total, unit)
        bounds = []
        for number in (part, code.add(part, 1)):
            units_before = code.let(f"sdiv i64 {code.multiply(units, number)}, {split}")
            bounds.append(code.smaller(code.multiply(units_before, unit), total))
        return bounds[0], bounds[1]

    def _products(
        self, arrays: tuple[str, str, str], rows: Value, columns: Value, first: str, last: str
    ) -> None:
        """Computes the products from `first` to `last`, for this part's rows and columns."""
        code, size, form = self._code, self._size, self._form
        # A factor is not copied if it is read once, or a few times in whole vectors.
        # This depends on the whole product only, as do the blocks of the sum: the result is the
        # same on any number of threads.
        left_stays = code.compare("sle", size(Size.N), form.columns)
        is_turned = code.compare("ne", size(Size.LEFT_DEPTH), 1)
        few_rows = code.compare("sle", rows, form.rows)
        in_order = code.compare("eq", size(Size.RIGHT_COLUMN), 1)
        column_tiles, rest = self._tiles(columns, form.columns)
        is_whole = code.compare("eq", rest, 0)
        is_vector = code.both(
            code.compare("eq", size(Size.N), form.lanes),
            code.compare("sle", rows, _READINGS * form.rows),
        )
        right_stays = code.either(code.both(few_rows, is_whole), is_vector)
        right_stays = code.both(right_stays, in_order)
        if form.right_is_packed:
            right_stays = code.compare("eq", 0, 0)
        # Blocks of the sum, as equal as possible; short ones for lines that are far apart.
        lines_are_apart = code.both(left_stays, code.negated(is_turned))
        depth = self._depth(code.select(lines_are_apart, form.depth // 4, form.depth))
        left_slice = self._slice(depth, form.rows)
        right_slice = self._slice(depth, form.columns)
        fitting = code.let(f"sdiv i64 {form.left_block}, {left_slice}")
        row_tiles, _ = self._tiles(rows, form.rows)
        block_tiles = code.smaller(code.larger(fitting, 1), row_tiles)
        block = code.multiply(block_tiles, form.rows)
        width_tiles = code.smaller(form.right_block // form.columns, column_tiles)
        width = code.multiply(width_tiles, form.columns)
        left_size = code.select(left_stays, 0, code.multiply(block_tiles, left_slice))
        right_size = code.select(right_stays, 0, code.multiply(width_tiles, right_slice))
        # Copies may write one vector too many at their ends.
        spare = 2 * _ALIGNMENT // self._vectors.size_bytes
        copied = code.add(code.add(left_size, right_size), 2 * spare)
        memory, release = self._memory(code.multiply(copied, self._vectors.size_bytes))
        left_copy = memory
        right_copy = self._at(memory, code.add(left_size, spare))
        with code.loop(first, last) as product:
            left, right, out = places(code, form.element, self._sizes, arrays, product)
            with code.loop(0, size(Size.K), depth) as done:
                deep = code.smaller(depth, code.subtract(size(Size.K), done))
                replaces = code.compare("eq", size(Size.ADDS), 0)
                is_first = code.both(code.compare("eq", done, 0), replaces)
                left_now = self._at(left, code.multiply(done, size(Size.LEFT_DEPTH)))
                right_now = self._at(right, code.multiply(done, size(Size.RIGHT_DEPTH)))
                with code.loop(0, rows, block) as row:
                    high = code.smaller(block, code.subtract(rows, row))
                    above = self._at(left_now, code.multiply(row, size(Size.LEFT_ROW)))
                    with code.unless(left_stays):
                        self._copy(
                            (above, left_copy),
                            (size(Size.LEFT_DEPTH), size(Size.LEFT_ROW)),
                            high,
                            deep,
                            (form.rows, left_slice),
                        )
                    with code.loop(0, columns, width) as column:
                        wide = code.smaller(width, code.subtract(columns, column))
                        beside = self._beside(right_now, column, deep)
                        with code.unless(right_stays):
                            self._copy(
                                (beside, right_copy),
                                (size(Size.RIGHT_DEPTH), size(Size.RIGHT_COLUMN)),
                                wide,
                                deep,
                                (form.columns, right_slice),
                            )
                        corner = code.add(code.multiply(row, size(Size.OUT_ROW)), column)
                        ahead = self._ahead(
                            (right_now, beside), (column, wide, columns), (done, deep), right_stays
                        )
                        self._block(
                            _Factor(
                                code.choose(left_stays, above, left_copy),
                                code.select(
                                    left_stays,
                                    code.multiply(size(Size.LEFT_ROW), form.rows),
                                    left_slice,
                                ),
                                code.select(left_stays, size(Size.LEFT_ROW), 1),
                                code.select(left_stays, size(Size.LEFT_DEPTH), form.rows),
                            ),
                            _Factor(
                                code.choose(right_stays, beside, right_copy),
                                *self._right_strides(right_stays, deep, right_slice),
                            ),
                            self._at(out, corner),
                            (high, wide, deep),
                            is_first,
                            ahead,
                        )
        with code.when(release):
            code.invoke("free", ("ptr", code.get(self._given, "ptr")))

    def _beside(self, right: str, column: Value, deep: Value) -> str:
        """Returns the address of a right factor's block; `column` counts from the part's first."""
        code = self._code
        if self._form.right_is_packed:
            return self._at(right, code.multiply(code.add(self._start, column), deep))
        return self._at(right, code.multiply(column, self._size(Size.RIGHT_COLUMN)))

    def _right_strides(self, stays: str, deep: Value, copied: Value) -> tuple[Value, Value, Value]:
        """Returns the right factor's strides between tiles, between columns and along the depth."""
        code, columns = self._code, self._form.columns
        if self._form.right_is_packed:
            return code.multiply(deep, columns), 1, columns
        next_depth = code.select(stays, self._size(Size.RIGHT_DEPTH), columns)
        return code.select(stays, columns, copied), 1, next_depth

    def _ahead(
        self,
        bases: tuple[str, str],
        columns: tuple[Value, Value, Value],
        depths: tuple[Value, Value],
        stays: str,
    ) -> _Ahead:
        """Returns the right factor's block to pack after this one, if it may not be in cache."""
        code, size = self._code, self._size
        line, beside = bases
        column, wide, count = columns
        done, deep = depths
        next_column = code.add(column, wide)
        is_inside = code.compare("slt", next_column, count)
        below = code.compare("slt", code.add(done, deep), size(Size.K))
        along = self._at(beside, code.multiply(wide, size(Size.RIGHT_COLUMN)))
        down = self._at(line, code.multiply(deep, size(Size.RIGHT_DEPTH)))
        is_there = code.both(code.either(is_inside, below), code.negated(stays))
        size_bytes = code.multiply(
            code.multiply(size(Size.K), size(Size.N)), self._vectors.size_bytes
        )
        is_there = code.both(is_there, code.compare("sgt", size_bytes, _NEAR_BYTES))
        return _Ahead(code.choose(is_inside, along, down), is_there)

    def _memory(self, size_bytes: Value) -> tuple[str, str]:
        """Returns aligned memory for copies, and whether it must be freed."""
        code = self._code
        self._given = code.variable("ptr")
        small = code.variable(f"[{_SMALL_BYTES + _ALIGNMENT} x i8]")
        needed = code.add(size_bytes, _ALIGNMENT)
        is_big = code.compare("sgt", needed, _SMALL_BYTES + _ALIGNMENT)
        code.set(self._given, small, "ptr")
        with code.when(is_big):
            code.set(self._given, code.call("ptr", "malloc", ("i64", needed)), "ptr")
        address = code.let(f"ptrtoint ptr {code.get(self._given, 'ptr')} to i64")
        up = code.let(f"and i64 {code.add(address, _ALIGNMENT - 1)}, {-_ALIGNMENT}")
        return code.let(f"inttoptr i64 {up} to ptr"), is_big

    # -------------------------------------------------------------------------------- tiles

    def _block(
        self,
        left: _Factor,
        right: _Factor,
        out: str,
        extents: tuple[Value, Value, Value],
        is_first: str,
        ahead: _Ahead,
    ) -> None:
        """Computes all tiles of a block: sets `out` (if `is_first`) or adds to it."""
        code, vectors, form, size = self._code, self._vectors, self._form, self._size
        high, wide, deep = extents
        whole_tiles = code.let(f"sdiv i64 {high}, {form.rows}")
        whole_rows = code.multiply(whole_tiles, form.rows)
        rest_rows = code.subtract(high, whole_rows)
        both_copied = code.both(
            code.compare("eq", left.next_depth, form.rows),
            code.compare("eq", right.next_depth, form.columns),
        )
        # This many tiles prefetch a whole panel, see `_fetch`.
        fetching: Value = 0
        if form.fetches_ahead:
            fetching = code.select(ahead.is_there, code.smaller(UNROLLED, whole_tiles), 0)
        # The same with compile-time strides.
        left_copy = _Factor(left.base, left.next_tile, 1, form.rows)
        right_copy = _Factor(right.base, right.next_tile, 1, form.columns)
        with code.loop(0, self._quotient_up(wide, form.columns)) as panel:
            inside = code.subtract(wide, code.multiply(panel, form.columns))
            factor = self._at(right.base, code.multiply(panel, right.next_tile))
            beside = self._at(out, code.multiply(panel, form.columns))
            masks = [
                vectors.first(code.subtract(inside, v * form.lanes)) for v in range(form.vectors)
            ]

            next_panel = self._at(
                ahead.base,
                code.multiply(panel, code.multiply(form.columns, size(Size.RIGHT_COLUMN))),
            )

            def tile(
                base: str,
                row: Value,
                rows: int,
                masks: Sequence[str | None],
                fetched: tuple[str, Value] | None = None,
            ) -> None:
                below = self._at(beside, code.multiply(row, size(Size.OUT_ROW)))
                factors = (left, right) if masks else (left_copy, right_copy)
                extents = (rows, deep)
                self._rows_of((base, factor), factors, below, extents, masks, is_first, fetched)

            def tiles(
                masks: Sequence[str | None], first: Value, last: Value, fetches: bool
            ) -> None:
                with code.loop(first, last) as number:
                    base = self._at(left.base, code.multiply(number, left.next_tile))
                    fetched = (next_panel, number) if fetches else None
                    tile(base, code.multiply(number, form.rows), form.rows, masks, fetched)

            def rest(masks: Sequence[str | None]) -> None:
                """The remaining rows, in tiles of 8, 4, 2 and 1."""
                rows = 1 << (form.rows - 1).bit_length() - 1
                base = self._at(left.base, code.multiply(whole_tiles, left.next_tile))
                while rows:
                    done = code.let(f"and i64 {rest_rows}, {-2 * rows}")
                    bit = code.let(f"and i64 {rest_rows}, {rows}")
                    with code.when(code.compare("ne", bit, 0)):
                        above = self._at(base, code.multiply(done, left.next_row))
                        tile(above, code.add(whole_rows, done), rows, masks)
                    rows //= 2

            is_narrow = code.compare("sle", inside, form.lanes)
            is_whole = code.compare("sge", inside, form.columns)
            is_plain = code.both(is_whole, both_copied)
            either = code.either(is_narrow, is_plain)
            with code.when(is_plain):
                if form.fetches_ahead:
                    tiles((), 0, fetching, fetches=True)
                tiles((), fetching, whole_tiles, fetches=False)
            with code.when(is_narrow):
                tiles(masks[:1], 0, whole_tiles, fetches=False)
                rest(masks[:1])
            with code.unless(either):
                tiles([None, *masks[1:]], 0, whole_tiles, fetches=False)
            with code.unless(is_narrow):
                rest(masks)

    def _rows_of(
        self,
        bases: tuple[str, str],
        factors: tuple[_Factor, _Factor],
        out: str,
        extents: tuple[int, Value],
        masks: Sequence[str | None],
        is_first: str,
        fetched: tuple[str, Value] | None = None,
    ) -> None:
        """Computes one tile, a vector per mask; without masks at full width, from copies.

        Meanwhile it prefetches a part of the next block to pack, per step of the sum as much as the
        step reads of the right factor: `fetched` gives its address and the part.
        """
        code, vectors = self._code, self._vectors
        left_factor, right_factor = factors
        rows, deep = extents
        unrolls = not masks
        part = self._tile.part(rows, masks or [None] * self._form.vectors)
        outs = [self._at(out, code.multiply(n, self._size(Size.OUT_ROW))) for n in range(rows)]
        part.clear()
        if unrolls:
            self._prefetch(outs)
        unrolled = code.let(f"and i64 {deep}, {-UNROLLED}")
        left_now = code.variable("ptr")
        right_now = code.variable("ptr")
        code.set(left_now, bases[0], "ptr")
        code.set(right_now, bases[1], "ptr")
        steps = [code.multiply(n, left_factor.next_row) for n in range(rows)]
        turns = ((0, unrolled, UNROLLED), (unrolled, deep, 1)) if unrolls else ((0, deep, 1),)
        for start, stop, repeats in turns:
            with code.loop(start, stop, repeats) as step:
                if fetched is not None and repeats == UNROLLED:
                    group = code.let(f"sdiv i64 {step}, {UNROLLED}")
                    before = code.multiply(fetched[1], code.let(f"sdiv i64 {unrolled}, {UNROLLED}"))
                    self._fetch(fetched[0], code.add(before, group))
                for _ in range(repeats):
                    here, there = code.get(left_now, "ptr"), code.get(right_now, "ptr")
                    line_of_right = part.load(there, is_masked=False)
                    shared = (repeat(vectors.broadcast(here, step)) for step in steps)
                    part.add_products(shared, line_of_right)
                    code.set(left_now, self._at(here, left_factor.next_depth), "ptr")
                    code.set(right_now, self._at(there, right_factor.next_depth), "ptr")
        # Blocks are summed separately, which rounds less than one long sum.
        with code.unless(code.either(is_first, self._scales)):
            part.add_what_is_at(outs)
        with code.when(self._scales):
            # Loaded where it is used: the accumulators leave no register for it.
            scale = vectors.broadcast(code.load("ptr", code.at("ptr", "%arrays", 3)), 0)
            with code.when(is_first):
                part.multiply_by(scale)
            with code.unless(is_first):
                part.multiply_and_add_what_is_at(scale, outs)
        part.store(outs)

    def _fetch(self, base: str, number: Value) -> None:
        """Prefetches as much of the panel to pack next as one step of a sum reads.

        It is issued once every `UNROLLED` steps, so `UNROLLED` tiles prefetch the panel. With
        weights in memory this saves 4 to 12 % of a product of 64 rows, 0 to 6 % of 128 rows (Zen 5,
        November 2026).

        Args:
            base: Address of the panel.
            number: Which part of it, out of one per step of the block.
        """
        code, form = self._code, self._form
        size_bytes = self._vectors.size_bytes
        is_turned = code.compare("ne", self._size(Size.RIGHT_COLUMN), 1)
        across = code.let(f"urem i64 {number}, {form.columns}")
        down = code.multiply(code.let(f"udiv i64 {number}, {form.columns}"), form.columns)
        turned = code.add(code.multiply(across, self._size(Size.RIGHT_COLUMN)), down)
        along = code.multiply(number, self._size(Size.RIGHT_DEPTH))
        place = self._at(base, code.select(is_turned, turned, along))
        for offset in range(0, form.columns * size_bytes, _ALIGNMENT):
            code.prefetch(code.at("i8", place, offset), locality=2)

    def _prefetch(self, lines: list[str]) -> None:
        """Prefetches a tile of the result while its sums are computed: 10 % (Zen 3, Nov 2026)."""
        code, size_bytes = self._code, self._vectors.size_bytes
        end = self._form.columns * size_bytes
        for line in lines:
            for offset in (*range(0, end, _ALIGNMENT), end - size_bytes):
                code.prefetch(code.at("i8", line, offset))


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A block of the right factor to prefetch.

    Attributes:
        base: Its address.
        is_there: Whether it exists.
    """

    base: str
    is_there: str


@dataclass(frozen=True, slots=True)
class _Factor:
    """The location of a block of a factor, packed or not; strides in elements.

    Attributes:
        base: Its address.
        next_tile: Stride between tiles.
        next_row: Stride between rows (columns) within a tile.
        next_depth: Stride between steps of the sum.
    """

    base: str
    next_tile: Value
    next_row: Value
    next_depth: Value
