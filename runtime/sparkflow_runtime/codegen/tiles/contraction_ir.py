"""Machine code for contractions over affine index maps, which convolutions and gradients are.

    broadcast:  out[row, column] = Σ over depth of left[row + depth] · right[depth, column]
    otherwise:  out[row, column] = Σ over depth of left[row + depth, column] · right[depth, column]

Rows and depth each iterate over three nested loops. A tile of rows and vectors of columns stays in
registers while the depth is traversed (batch-reduce GEMM; Georganas et al., "High-Performance Deep
Learning via a Single Building Block", 2019), so nothing is ever rearranged into a matrix (no
im2col). All sizes are runtime numbers, see `Field`: one body handles convolutions of all sizes,
strides and batches.

Images are planes of volumes: those of a batch of two-dimensional images are one volume, of which
every window sees one plane. The outermost loops are over volumes and planes of windows; elements
of windows before the first plane or after the last are left out. If images need zero padding, those
of one group of planes at a time are copied into scratch memory, where they stay in cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from itertools import repeat
from typing import Final

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.tiles.tile import Tile, TilePart, Writer

UNROLLED: Final = 4
"""Unroll factor of the innermost loop over the depth."""


class Field(IntEnum):
    """Indices into `sizes`. Strides, steps and origins are in elements.

    Loops are numbered from the outermost, 0, to the innermost, 2. A wrap is added to an offset
    instead of a step when an inner loop over the rows restarts.
    """

    GROUP = 0
    """Planes of windows per group."""
    LEFT_IMAGE = 1
    """From one plane of a volume to the next; the next two are between planes of windows."""
    RIGHT_IMAGE = 2
    OUT_IMAGE = 3
    OUT_PART = 4
    LEFT_ORIGIN = 5
    OUT_ORIGIN = 6
    IS_PADDED = 7
    """Whether the left side is read from a padded copy in scratch memory."""
    PADDED_PART = 8
    PADDED_IMAGE = 9
    PADDED_ORIGIN = 10
    PADDED_LINE = 11
    LINES = 12
    LINE = 13
    ROWS_0 = 14
    ROWS_1 = 15
    ROWS_2 = 16
    LEFT_STEP = 17
    LEFT_WRAP_1 = 18
    LEFT_WRAP_0 = 19
    OUT_STEP = 20
    OUT_WRAP_1 = 21
    OUT_WRAP_0 = 22
    BLOCK = 23
    """Rows per block, processed panel by panel; a multiple of the tile's rows."""
    DEPTH_0 = 24
    DEPTH_1 = 25
    DEPTH_2 = 26
    LEFT_DEPTH_0 = 27
    LEFT_DEPTH_1 = 28
    LEFT_DEPTH_2 = 29
    RIGHT_DEPTH_0 = 30
    RIGHT_DEPTH_1 = 31
    RIGHT_DEPTH_2 = 32
    COLUMNS = 33
    RIGHT_PANEL = 34
    CHUNK = 35
    """Iterations of the depth's middle loop per block of rows, if not by image."""
    PART = 36
    """Size of the scratch memory: the padded images, followed by a panel of the right side."""
    RUNS = 37
    """Number of runs of `LINE` elements in which a line of an image is copied."""
    PADDED_RUN = 38
    LEFT_VOLUME = 39
    OUT_VOLUME = 40
    PLANES = 41
    """Planes of windows per volume; at least 1."""
    PLANES_GIVEN = 42
    """Planes of images per volume."""
    PLANES_BEFORE = 43
    """How many planes before the volume its first window starts; negative if inside."""
    PLANES_STEP = 44
    """Stride between windows in planes."""
    PLANES_SEEN = 45
    """Planes from the first to the last that a window sees, both included."""
    PLANES_TAP = 46
    """Planes from one that a window sees to the next."""
    TAPS = 47
    """Planes that a window sees, in the volume or not."""
    WHOLE_START = 48
    """The first plane of windows that see no planes outside the volume."""
    WHOLE_STOP = 49
    """One past the last of them."""
    RIGHT_TAP = 50
    """What to add for each of a window's first planes that are left out."""
    OUT_TAP = 51
    LINES_BEFORE = 52
    """How many lines before the image its first window starts, if by image.

    The middle loop of the depth is then over the lines of a window, and leaves out those that are
    zero for a whole tile. If it is over something else, this and the next exclude nothing.
    """
    LINES_END = 53
    """How many lines after the start of the first window the image ends."""
    LINES_STEP = 54
    """Stride between windows in lines."""


@dataclass(frozen=True, slots=True)
class Form:
    """The compile-time parameters of a kernel.

    Attributes:
        element: `float` or `double`.
        lanes: Elements per vector.
        rows: Rows of the tile.
        vectors: Vectors per row of the tile; together they form a panel.
        broadcast: See the module docstring.
        by_image: Rows are image positions, and their outermost loop is over the planes of a group;
            both sides are stored in reading order (steps of 1 and a panel). Otherwise the outermost
            loop of the depth is over planes, and the body accumulates over its part.
        whole: Whether there are full panels.
        rest: Vectors of the last panel if it is partial, else 0.
        is_far: Whether results are not in cache: they are then fetched while they are computed.
        fixed: Numbers known at compile time. Short loops over the depth are unrolled if their
            lengths are among these, since their exits are mispredicted.
    """

    element: str
    lanes: int
    rows: int
    vectors: int
    broadcast: bool
    by_image: bool
    whole: bool
    rest: int
    is_far: bool = False
    fixed: tuple[tuple[Field, int], ...] = ()

    @property
    def packs(self) -> bool:
        """Whether the body packs the right side panel by panel; else it is already packed."""
        return self.broadcast and not self.by_image

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes


def text(form: Form) -> str:
    """Returns the module. The call's arrays are left, right, out and scratch."""
    return _Writer(form).text()


class _Writer(Writer):
    def __init__(self, form: Form) -> None:
        super().__init__(form.element, form.lanes, len(Field))
        self._form = form
        code = self._code
        for field, number in form.fixed:
            self._sizes[field] = number
        self._left, self._right, self._out, self._scratch = code.arrays(4)
        self._tile = Tile(self._vectors, form.rows, form.vectors)
        names = ("count_1", "count_2", "left", "out")
        self._place = {name: code.variable("i64") for name in names}
        self._block_place = {name: code.variable("i64") for name in names}
        self._row_offsets = [
            {name: code.variable("i64") for name in ("left", "out")} for _ in range(form.rows)
        ]

    def _write(self) -> None:
        code, size = self._code, self._size
        padded = self._at(self._scratch, code.multiply("%part", size(Field.PART)))
        self._packed = self._at(padded, size(Field.PADDED_PART))
        is_padded = code.compare("ne", size(Field.IS_PADDED), 0)
        with code.when(is_padded):
            code.clear(padded, self._bytes(size(Field.PADDED_PART)))
        out_part = code.multiply("%part", size(Field.OUT_PART))
        if not self._form.by_image:
            start = self._at(self._out, out_part)
            code.clear(start, self._bytes(size(Field.OUT_PART)))
        planes = size(Field.PLANES)
        end = code.let(f"sdiv i64 {code.add(code.subtract('%hi', 1), planes)}, {planes}")
        with code.loop(code.let(f"sdiv i64 %lo, {planes}"), end) as volume:
            before = code.multiply(volume, planes)
            given = self._at(self._left, code.multiply(volume, size(Field.LEFT_VOLUME)))
            out_at = code.add(code.multiply(volume, size(Field.OUT_VOLUME)), out_part)
            out = self._at(self._out, code.add(out_at, size(Field.OUT_ORIGIN)))
            start = code.larger(code.subtract("%lo", before), 0)
            stop = code.smaller(code.subtract("%hi", before), planes)
            with self._groups(start, stop) as (first, count):
                number = code.add(before, first)
                right = self._at(self._right, code.multiply(number, size(Field.RIGHT_IMAGE)))
                out_now = self._at(out, code.multiply(first, size(Field.OUT_IMAGE)))
                self._group((padded, given, right, out_now), first, count)

    @contextmanager
    def _groups(self, start: str, stop: str) -> Iterator[tuple[str, str]]:
        """Loops over groups of planes; yields the first plane and their number.

        It is 1 for planes whose windows reach out of the volume.
        """
        code, size = self._code, self._size
        whole_stop = size(Field.WHOLE_STOP)
        done = code.variable("i64", start)
        with code.loop(start, stop) as first:
            is_next = code.compare("eq", first, code.get(done))
            with code.when(is_next):
                is_whole = code.both(
                    code.compare("sge", first, size(Field.WHOLE_START)),
                    code.compare("slt", first, whole_stop),
                )
                until = code.smaller(stop, whole_stop)
                whole = code.smaller(size(Field.GROUP), code.subtract(until, first))
                count = code.select(is_whole, whole, 1)
                code.set(done, code.add(first, count))
                yield first, count

    def _taps(self, seen: Value) -> tuple[str, str]:
        """Returns the range of a window's planes inside the volume, if its first is `seen`."""
        code, size = self._code, self._size
        tap, taps = size(Field.PLANES_TAP), size(Field.TAPS)

        def number(planes: Value) -> str:
            return code.let(f"sdiv i64 {code.add(code.subtract(planes, 1), tap)}, {tap}")

        low = code.smaller(number(code.larger(code.subtract(0, seen), 0)), taps)
        left = code.larger(code.subtract(size(Field.PLANES_GIVEN), seen), 0)
        return low, code.larger(code.smaller(number(left), taps), low)

    def _group(self, bases: tuple[str, str, str, str], first: str, count: str) -> None:
        """Computes the products of a group of planes of windows.

        Args:
            bases: Where the padded copy and the volume of the left side start; and where the right
                side and the result do for the first plane.
            first: The number of the first plane in its volume.
            count: How many there are.
        """
        code, size = self._code, self._size
        padded, volume, right, out = bases
        seen = code.multiply(first, size(Field.PLANES_STEP))
        seen = code.subtract(seen, size(Field.PLANES_BEFORE))
        is_padded = code.compare("ne", size(Field.IS_PADDED), 0)
        with code.when(is_padded):
            self._copy_planes(padded, volume, seen, count)
        direct = self._at(volume, code.multiply(seen, size(Field.LEFT_IMAGE)))
        left = self._at(code.choose(is_padded, padded, direct), size(Field.LEFT_ORIGIN))
        low, high = self._taps(seen)
        left_tap = code.multiply(size(Field.PLANES_TAP), size(Field.PADDED_IMAGE))
        left = self._at(left, code.multiply(low, left_tap))
        right = self._at(right, code.multiply(low, size(Field.RIGHT_TAP)))
        out = self._at(out, code.multiply(low, size(Field.OUT_TAP)))
        planes = (count, code.subtract(high, low))
        if self._form.by_image:
            self._blocks(left, right, out, planes, size(Field.DEPTH_1))
            return
        with code.loop(0, size(Field.DEPTH_1), size(Field.CHUNK)) as done:
            rest = code.subtract(size(Field.DEPTH_1), done)
            left_done = code.multiply(done, size(Field.LEFT_DEPTH_1))
            right_done = code.multiply(done, size(Field.RIGHT_DEPTH_1))
            self._blocks(
                self._at(left, left_done),
                self._at(right, right_done),
                out,
                planes,
                code.smaller(rest, size(Field.CHUNK)),
            )

    def _bytes(self, elements: Value) -> Value:
        return self._code.multiply(elements, self._vectors.size_bytes)

    def _copy_planes(self, padded: str, volume: str, first: Value, windows: str) -> None:
        """Copies the planes of a volume that some windows see, the first of which is `first`."""
        code, size = self._code, self._size
        inside = self._at(padded, size(Field.PADDED_ORIGIN))
        line_bytes = self._bytes(size(Field.LINE))
        seen = code.multiply(code.subtract(windows, 1), size(Field.PLANES_STEP))
        seen = code.add(seen, size(Field.PLANES_SEEN))
        low = code.larger(code.subtract(0, first), 0)
        high = code.smaller(code.subtract(size(Field.PLANES_GIVEN), first), seen)
        with code.loop(low, high) as image:
            plane = code.add(first, image)
            source = self._at(volume, code.multiply(plane, size(Field.LEFT_IMAGE)))
            target = self._at(inside, code.multiply(image, size(Field.PADDED_IMAGE)))
            source_at = code.variable("i64", 0)
            with code.loop(0, size(Field.LINES)) as line:
                start = self._at(target, code.multiply(line, size(Field.PADDED_LINE)))
                with code.loop(0, size(Field.RUNS)) as run:
                    now = code.get(source_at)
                    code.copy(
                        self._at(start, code.multiply(run, size(Field.PADDED_RUN))),
                        self._at(source, now),
                        line_bytes,
                    )
                    code.set(source_at, code.add(now, size(Field.LINE)))

    def _blocks(
        self, left: str, right: str, out: str, planes: tuple[Value, Value], depth_1: Value
    ) -> None:
        """Loops over blocks of rows, then panels of columns, then tiles of rows."""
        code, size, form = self._code, self._size, self._form
        inner = code.multiply(size(Field.ROWS_1), size(Field.ROWS_2))
        windows, taps = planes
        if form.by_image:
            rows = code.multiply(inner, windows)
            depth = (code.multiply(taps, size(Field.DEPTH_0)), depth_1)
        else:
            rows = code.multiply(inner, code.multiply(taps, size(Field.ROWS_0)))
            depth = (windows, depth_1)
        for variable in self._block_place.values():
            code.set(variable, 0)
        columns = size(Field.COLUMNS)
        panels = code.let(f"sdiv i64 {columns}, {form.panel}")
        rest = code.subtract(columns, code.multiply(panels, form.panel))
        with code.loop(0, rows, size(Field.BLOCK)) as block:
            stop = code.smaller(rows, code.add(block, size(Field.BLOCK)))

            def tiles(panel: str, count: int, mask: str | None) -> None:
                column = code.multiply(panel, form.panel)
                panel_left = left if form.broadcast else self._at(left, column)
                offset = code.multiply(panel, size(Field.RIGHT_PANEL))
                panel_right = self._at(right, offset)
                panel_out = self._at(out, column)
                if form.packs:
                    self._pack(panel_right, depth, count, mask)
                    panel_right = self._packed
                for name, variable in self._place.items():
                    code.set(variable, code.get(self._block_place[name]))
                with code.loop(block, stop, form.rows) as row:
                    self._rows_of(
                        (panel_left, panel_right, panel_out),
                        code.subtract(rows, row),
                        depth,
                        count,
                        mask,
                    )

            if form.whole:
                with code.loop(0, panels) as panel:
                    tiles(panel, form.vectors, None)
            if form.rest:
                inside = code.subtract(rest, (form.rest - 1) * form.lanes)
                tiles(panels, form.rest, self._vectors.first(inside))
            for name, variable in self._block_place.items():
                code.set(variable, code.get(self._place[name]))

    def _pack(self, right: str, depth: tuple[Value, Value], count: int, mask: str | None) -> None:
        """Packs a panel of the right side into contiguous memory."""
        code, size, form, vectors = self._code, self._size, self._form, self._vectors
        target = code.variable("i64", 0)
        masks = [None] * (count - 1) + [mask]
        with (
            code.loop(0, depth[0]) as i,
            code.loop(0, depth[1]) as j,
            code.loop(0, size(Field.DEPTH_2)) as k,
        ):
            place: Value = code.multiply(i, size(Field.RIGHT_DEPTH_0))
            place = code.add(place, code.multiply(j, size(Field.RIGHT_DEPTH_1)))
            place = code.add(place, code.multiply(k, size(Field.RIGHT_DEPTH_2)))
            source = self._at(right, place)
            now = code.get(target)
            for v, each in enumerate(masks):
                value = vectors.load(source, v * form.lanes, each)
                vectors.store(value, self._packed, code.add(now, v * form.lanes))
            code.set(target, code.add(now, form.panel))

    def _rows_of(
        self,
        bases: tuple[str, str, str],
        left_rows: Value,
        depth: tuple[Value, Value],
        count: int,
        mask: str | None,
    ) -> None:
        """Computes one tile at `_place`, `count` vectors wide, the last one masked."""
        left, right, out = bases
        lines = self._lines(left_rows, depth[1])
        offsets = self._offsets(left_rows)
        lefts = [self._at(left, offset) for offset, _ in offsets]
        outs = [self._at(out, offset) for _, offset in offsets]
        part = self._tile.part(self._form.rows, [*[None] * (count - 1), mask])
        part.clear()
        if self._form.is_far:
            for place in outs:
                for v in range(count):
                    self._code.prefetch(self._at(place, v * self._form.lanes), writes=True)
        self._walk(lefts, right, depth, lines, part)
        if not self._form.by_image:
            # Added to the output at the end, since sums of sums are more precise; and all rows are
            # read before any is written, since a row may occur several times.
            part.add_what_is_at(outs)
        part.store(outs)

    def _lines(self, left_rows: Value, depth_1: Value) -> tuple[Value, Value]:
        """Returns the range of the middle loop of the depth for the tile at `_place`."""
        code, size = self._code, self._size
        if not self._form.by_image or isinstance(depth_1, int):
            return 0, depth_1
        first, line = code.get(self._place["count_1"]), size(Field.ROWS_2)
        end = code.add(code.get(self._place["count_2"]), code.smaller(left_rows, self._form.rows))
        last = code.select(code.compare("sgt", end, line), code.add(first, 1), first)
        is_near = code.both(
            code.compare("sle", end, code.add(line, line)),
            code.compare("slt", last, size(Field.ROWS_1)),
        )
        low, high = (
            code.subtract(size(field), code.multiply(which, size(Field.LINES_STEP)))
            for field, which in ((Field.LINES_BEFORE, last), (Field.LINES_END, first))
        )
        return (
            code.select(is_near, code.larger(low, 0), 0),
            code.select(is_near, code.smaller(high, depth_1), depth_1),
        )

    def _offsets(self, left_rows: Value) -> list[tuple[str, str]]:
        """Returns the addresses of the tile's rows, left and out; advances `_place`."""
        code, size, place, rows = self._code, self._size, self._place, self._form.rows
        found = self._row_offsets
        next_2 = code.add(code.get(place["count_2"]), rows)
        is_inside = code.compare("slt", next_2, size(Field.ROWS_2))
        is_inside = code.both(is_inside, code.compare("sgt", left_rows, rows))
        with code.when(is_inside):  # no loop restarts: the rows have a constant stride
            code.set(place["count_2"], next_2)
            for name, step in (("left", Field.LEFT_STEP), ("out", Field.OUT_STEP)):
                now: Value = code.get(place[name])
                for each in found:
                    code.set(each[name], now)
                    now = code.add(now, size(step))
                code.set(place[name], now)
        with code.unless(is_inside):
            self._offsets_one_by_one(left_rows)
        return [(code.get(each["left"]), code.get(each["out"])) for each in found]

    def _offsets_one_by_one(self, left_rows: Value) -> None:
        """As `_offsets`, for arbitrary rows.

        Past the last row it stays there: the tile then computes that row repeatedly, with the same
        result.
        """
        code, size, place = self._code, self._size, self._place
        for row, found in enumerate(self._row_offsets):
            now = {name: code.get(variable) for name, variable in place.items()}
            code.set(found["left"], now["left"])
            code.set(found["out"], now["out"])
            next_2, next_1 = code.add(now["count_2"], 1), code.add(now["count_1"], 1)
            wraps = code.compare("eq", next_2, size(Field.ROWS_2))
            full = code.compare("eq", next_1, size(Field.ROWS_1))
            code.set(place["count_2"], code.select(wraps, 0, next_2))
            moved = code.select(full, 0, next_1)
            code.set(place["count_1"], code.select(wraps, moved, now["count_1"]))
            more = code.compare("sgt", left_rows, row + 1)
            for name, step, wrap_1, wrap_0 in (
                ("left", Field.LEFT_STEP, Field.LEFT_WRAP_1, Field.LEFT_WRAP_0),
                ("out", Field.OUT_STEP, Field.OUT_WRAP_1, Field.OUT_WRAP_0),
            ):
                wrap = code.select(full, size(wrap_0), size(wrap_1))
                ahead = code.select(wraps, wrap, size(step))
                ahead = code.select(more, ahead, 0)
                code.set(place[name], code.add(now[name], ahead))

    def _walk(
        self,
        lefts: list[str],
        right: str,
        depth: tuple[Value, Value],
        lines: tuple[Value, Value],
        part: TilePart,
    ) -> None:
        """Accumulates the products of the whole depth, but for a part of its middle loop."""
        code, size, form = self._code, self._size, self._form
        right_1, right_0 = size(Field.RIGHT_DEPTH_1), size(Field.RIGHT_DEPTH_0)
        if form.packs:
            right_1 = code.multiply(size(Field.DEPTH_2), form.panel)
            right_0 = code.multiply(depth[1], right_1)
        with code.loop(0, depth[0]) as i:
            left_i = code.multiply(i, size(Field.LEFT_DEPTH_0))
            right_i = code.multiply(i, right_0)
            with code.each(*lines) as turns:
                for j in turns:
                    left_j = code.multiply(j, size(Field.LEFT_DEPTH_1))
                    right_j = code.multiply(j, right_1)
                    self._run(
                        lefts, code.add(left_i, left_j), right, code.add(right_i, right_j), part
                    )

    def _run(
        self, lefts: list[str], left_at: Value, right: str, right_at: Value, part: TilePart
    ) -> None:
        """Emits the innermost loop over the depth."""
        code, form = self._code, self._form
        is_dense = form.by_image and form.broadcast
        left_step = 1 if is_dense else self._size(Field.LEFT_DEPTH_2)
        right_step = form.panel if form.broadcast else self._size(Field.RIGHT_DEPTH_2)
        count = self._size(Field.DEPTH_2)
        lefts = [self._at(left, left_at) for left in lefts]
        right = self._at(right, right_at)
        if isinstance(count, int):
            offsets = [
                (code.multiply(k, left_step), code.multiply(k, right_step)) for k in range(count)
            ]
            self._steps(lefts, right, offsets, part)
            return
        # With strides known only at run time LLVM would keep an address per step and row.
        unrolled = code.let(f"and i64 {count}, {-UNROLLED}") if is_dense else 0
        left_now, right_now = code.variable("i64", 0), code.variable("i64", 0)
        loops: list[tuple[Value, Value, int]] = [(unrolled, count, 1)]
        if is_dense:
            loops.insert(0, (0, unrolled, UNROLLED))
        for start, stop, steps in loops:
            with code.loop(start, stop, steps):
                left_k: Value = code.get(left_now)
                right_k: Value = code.get(right_now)
                offsets = []
                for _ in range(steps):
                    offsets.append((left_k, right_k))
                    left_k, right_k = code.add(left_k, left_step), code.add(right_k, right_step)
                self._steps(lefts, right, offsets, part)
                code.set(left_now, left_k)
                code.set(right_now, right_k)

    def _steps(
        self,
        lefts: Sequence[str],
        right: str,
        offsets: Sequence[tuple[Value, Value]],
        part: TilePart,
    ) -> None:
        """Accumulates the products at these depths."""
        broadcast = self._form.broadcast
        for left_at, right_at in offsets:
            factors = part.load(self._at(right, right_at), is_masked=not broadcast)
            sources = (self._at(left, left_at) for left in lefts)
            part.add_products(
                (
                    repeat(self._vectors.broadcast(source, 0))
                    if broadcast
                    else part.one_by_one(source)
                    for source in sources
                ),
                factors,
            )
