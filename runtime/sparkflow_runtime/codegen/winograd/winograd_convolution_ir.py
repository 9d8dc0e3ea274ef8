"""Machine code for Winograd convolutions; see `winograd_ir`.

Either by groups of tiles, with filters transformed beforehand (`convolution_text`); or, if these
would exceed a cache, by panels of outputs, whose filters are transformed one chunk of channels at a
time (`tiles_text`, `panels_text`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.tiles.tile import Tile
from sparkflow_runtime.codegen.winograd.winograd_filters_ir import FilterTransforms
from sparkflow_runtime.codegen.winograd.winograd_ir import (
    POINTS,
    PRODUCTS,
    UNROLLED,
    Field,
    Form,
)


def convolution_text(form: Form) -> str:
    """A convolution; the loop is over tiles. Arrays: images, transformed filters, out, scratch."""
    return _Groups(form, is_turned=False).text()


def tiles_text(form: Form) -> str:
    """Transforms tiles of images; the loop is over those of a group, padded to whole tiles of rows.

    Arrays are images, their transformed tiles, and zeros, as many as a pixel has channels.
    """
    return _Tiles(form, is_turned=False).text()


def panels_text(form: Form, is_turned: bool) -> str:
    """Convolves the tiles of a group; the loop is over panels.

    Arrays are transformed tiles, filters, out, scratch.

    Args:
        form: Compile-time parameters.
        is_turned: See `FilterTransforms`.
    """
    return _Panels(form, is_turned).text()


class _Steps(FilterTransforms):
    """Emits the work on a group of tiles: transform them, multiply, and compute the outputs."""

    def __init__(self, form: Form, is_turned: bool) -> None:
        super().__init__(form, is_turned)
        self._tile = Tile(self._vectors, form.rows, form.vectors)
        self._sources = self._code.variable(f"[{PRODUCTS} x ptr]")
        self._targets = self._code.variable(f"[{form.tile**2} x ptr]")

    def _take(
        self, images: str, numbers: tuple[Value, Value], tiles: str, zeros: str, last: Value
    ) -> None:
        """Transforms tiles.

        Args:
            images: Address of the images.
            numbers: The range of positions in the group.
            tiles: Address of the transformed tile at position 0.
            zeros: As many as a pixel has channels.
            last: The position of the last tile, which is repeated beyond the end.
        """
        code, size, form = self._code, self._size, self._form
        shape = size(Field.HEIGHT), size(Field.WIDTH), size(Field.CHANNELS)
        origin = size(Field.TOP), size(Field.LEFT)
        with code.loop(*numbers) as number:
            tile = self._tile_at(code.add(self._first, code.smaller(number, last)))
            self._places(images, tile, POINTS, origin, shape, zeros, self._sources)
            target = self._at(tiles, code.multiply(number, size(Field.LEFT_PITCH)))
            for channel, mask in self._vectors.along(shape[2], form.channels_rest):

                def load(i: int, j: int, channel: Value = channel, mask: str | None = mask) -> str:
                    place = self._place(self._sources, i * POINTS + j)
                    return self._vectors.load(place, channel, mask)

                done = self._both_ways(self._of_tile, POINTS, load)
                self._spread(done, self._at(target, channel), Field.LEFT_PLANE)

    def _multiply(
        self,
        factors: tuple[str, str],
        out: str,
        count: Value,
        depth: Value,
        adds: str | None = None,
    ) -> None:
        """Multiplies [tiles, channels] by one panel, [channels, panel].

        Args:
            factors: Addresses of both factors.
            out: Address of the result.
            count: Number of tiles.
            depth: Number of channels.
            adds: Whether the product is added to the result.
        """
        code, size, form, vectors = self._code, self._size, self._form, self._vectors
        left, right = factors
        pitch, out_pitch = size(Field.LEFT_PITCH), size(Field.OUT_PITCH)
        unrolled = code.let(f"and i64 {depth}, {-UNROLLED}")
        part = self._tile.part(form.rows, [None] * form.vectors)
        with code.loop(0, count, form.rows) as row:
            lefts = [
                self._at(left, code.multiply(code.add(row, r), pitch)) for r in range(form.rows)
            ]
            part.clear()
            for start, stop, steps in ((0, unrolled, UNROLLED), (unrolled, depth, 1)):
                with code.loop(start, stop, steps) as k:
                    for step in range(steps):
                        now = code.add(k, step)
                        b = part.load(self._at(right, code.multiply(now, form.panel)))
                        part.add_products(
                            (repeat(vectors.broadcast(each, now)) for each in lefts), b
                        )
            below = self._at(out, code.multiply(row, out_pitch))
            outs = [self._at(below, code.multiply(out_pitch, r)) for r in range(form.rows)]
            if adds is not None:
                with code.when(adds):
                    part.add_what_is_at(outs)
            part.store(outs)

    def _find_targets(self, number: Value, out: str, aside: str) -> None:
        """Finds the addresses of a tile's outputs; `aside` for those outside the result."""
        shape = [self._size(each) for each in (Field.OUT_HEIGHT, Field.OUT_WIDTH, Field.OUTPUTS)]
        tile = self._tile_at(self._code.add(self._first, number))
        height, width, outputs = shape
        here = (height, width, outputs)
        self._places(out, tile, self._form.tile, (0, 0), here, aside, self._targets)

    def _give(self, source: str, output: Value, mask: str | None) -> None:
        """Transforms sums into a vector of outputs of the tile whose targets were found."""
        for i, line in enumerate(self._gathered(source, self._form.tile)):
            for j, value in enumerate(line):
                place = self._place(self._targets, i * self._form.tile + j)
                self._vectors.store(value, place, output, mask)

    @property
    def _first(self) -> Value:
        """The number of the group's first tile."""
        return self._size(Field.FIRST)


class _Groups(_Steps):
    def _write(self) -> None:
        code, size, form = self._code, self._size, self._form
        images, filters, out, scratch = code.arrays(4)
        zeros = self._at(scratch, code.multiply("%part", size(Field.PART)))
        code.clear(zeros, code.multiply(size(Field.LEFT_PITCH), 4))
        aside = self._at(zeros, size(Field.LEFT_PITCH))
        tiles = self._at(aside, size(Field.OUT_PITCH))
        sums = self._at(tiles, code.multiply(size(Field.LEFT_PLANE), PRODUCTS))
        panel_step = code.multiply(size(Field.CHANNELS), form.panel)
        with code.loop("%lo", "%hi", size(Field.GROUP)) as first:
            self._sizes[Field.FIRST] = first
            count = code.smaller(size(Field.GROUP), code.subtract("%hi", first))
            up = code.let(f"sdiv i64 {code.add(count, form.rows - 1)}, {form.rows}")
            numbers = 0, code.multiply(up, form.rows)
            self._take(images, numbers, tiles, zeros, code.subtract(count, 1))
            with (
                code.loop(0, PRODUCTS) as product,
                code.loop(0, size(Field.PANELS)) as panel,
            ):
                left = self._at(tiles, code.multiply(product, size(Field.LEFT_PLANE)))
                right = self._at(filters, code.multiply(product, size(Field.RIGHT_PLANE)))
                right = self._at(right, code.multiply(panel, panel_step))
                target = self._at(sums, code.multiply(product, size(Field.OUT_PLANE)))
                target = self._at(target, code.multiply(panel, form.panel))
                self._multiply((left, right), target, count, size(Field.CHANNELS))
            with code.loop(0, count) as number:
                self._find_targets(number, out, aside)
                source = self._at(sums, code.multiply(number, size(Field.OUT_PITCH)))
                for output, mask in self._vectors.along(size(Field.OUTPUTS), form.outputs_rest):
                    self._give(self._at(source, output), output, mask)


class _Tiles(_Steps):
    def _write(self) -> None:
        images, tiles, zeros = self._code.arrays(3)
        last = self._code.subtract(self._size(Field.GROUP), 1)
        self._take(images, ("%lo", "%hi"), tiles, zeros, last)


class _Panels(_Steps):
    def _write(self) -> None:
        code, size, form = self._code, self._size, self._form
        tiles, filters, out, scratch = code.arrays(4)
        aside = self._at(scratch, code.multiply("%part", size(Field.PART)))
        right = self._at(aside, code.multiply(size(Field.PANELS), form.panel))
        sums = self._at(right, code.multiply(size(Field.RIGHT_PLANE), PRODUCTS))
        count = size(Field.GROUP)
        with code.loop("%lo", "%hi") as panel:
            output = code.multiply(panel, form.panel)
            with code.loop(0, size(Field.CHANNELS), size(Field.CHUNK)) as channel:
                rest = code.subtract(size(Field.CHANNELS), channel)
                depth = code.smaller(size(Field.CHUNK), rest)
                for v, vector in self._vectors_from(output):
                    target = self._at(right, v * form.lanes)
                    self._take_filters(filters, (channel, depth), vector, target)
                adds = code.compare("ne", channel, 0)
                with code.loop(0, PRODUCTS) as product:
                    left = code.multiply(product, size(Field.LEFT_PLANE))
                    left = self._at(tiles, code.add(left, channel))
                    factor = self._at(right, code.multiply(product, size(Field.RIGHT_PLANE)))
                    target = self._at(sums, code.multiply(product, size(Field.OUT_PLANE)))
                    self._multiply((left, factor), target, count, depth, adds)
            with code.loop(0, count) as number:
                self._find_targets(number, out, aside)
                source = self._at(sums, code.multiply(number, form.panel))
                for v, vector in self._vectors_from(output):
                    inside = code.subtract(size(Field.OUTPUTS), vector)
                    mask = self._vectors.first(inside) if form.outputs_rest else None
                    with code.when(code.compare("sgt", inside, 0)):
                        self._give(self._at(source, v * form.lanes), vector, mask)

    def _vectors_from(self, output: Value) -> Iterable[tuple[int, Value]]:
        """Yields number and first output of each vector of a panel."""
        for v in range(self._form.vectors):
            yield v, self._code.add(output, v * self._form.lanes)
