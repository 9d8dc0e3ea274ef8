"""Machine code for the filter gradient of Winograd convolutions.

Tiles of images and of dy are transformed (`tiles_text`); their products are summed over tiles,
separately for each of the 36 and each panel of outputs (`sums_text`); and the sums are transformed
into the gradient (`finish_text`). If all tiles form one group, the last two are one body, whose
sums stay in cache (`panels_text`). No sum depends on the number of threads. See `winograd_ir`.
"""

from __future__ import annotations

from itertools import repeat

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.tiles.tile import Tile
from sparkflow_runtime.codegen.winograd.winograd_ir import (
    POINTS,
    PRODUCTS,
    UNROLLED,
    Field,
    Form,
    Transforms,
)


def tiles_text(form: Form) -> str:
    """Transforms tiles; the loop is over those of a group.

    The arrays are images, dy, their transformed tiles, and zeros, as many as a pixel has channels.
    """
    return _Tiles(form).text()


def sums_text(form: Form) -> str:
    """Sums products; the loop is over products and panels. Arrays are both tiles and sums."""
    return _Sums(form).text()


def finish_text(form: Form) -> str:
    """Transforms sums; the loop is over channels, the arrays are sums and the gradient."""
    return _Finish(form).text()


def panels_text(form: Form) -> str:
    """Combines the previous two; the loop is over panels, and inside over chunks of channels.

    Arrays are both tiles, the gradient, scratch.
    """
    return _Panels(form).text()


class _Tiles(Transforms):
    def __init__(self, form: Form) -> None:
        super().__init__(form)
        self._sources = self._code.variable(f"[{PRODUCTS} x ptr]")

    def _write(self) -> None:
        code, size, form = self._code, self._size, self._form
        images, dy, lefts, rights, zeros = code.arrays(5)
        shape = size(Field.HEIGHT), size(Field.WIDTH), size(Field.CHANNELS)
        out_shape = size(Field.OUT_HEIGHT), size(Field.OUT_WIDTH), size(Field.OUTPUTS)
        origin = size(Field.TOP), size(Field.LEFT)
        panel_step = code.multiply(size(Field.GROUP), form.panel)
        with code.loop("%lo", "%hi") as number:
            tile = self._tile_at(code.add(size(Field.FIRST), number))
            self._places(images, tile, POINTS, origin, shape, zeros, self._sources)
            here = self._at(lefts, code.multiply(number, size(Field.LEFT_PITCH)))
            for channel, mask in self._vectors.along(shape[2], form.channels_rest):
                self._take(POINTS, channel, mask, self._at(here, channel), Field.LEFT_PLANE)
            self._places(dy, tile, form.tile, (0, 0), out_shape, zeros, self._sources)
            there = self._at(rights, code.multiply(number, form.panel))
            for output, mask in self._vectors.along(out_shape[2], form.outputs_rest):
                panel = code.let(f"sdiv i64 {output}, {form.panel}")
                inside = code.subtract(output, code.multiply(panel, form.panel))
                target = self._at(there, code.add(code.multiply(panel, panel_step), inside))
                self._take(form.tile, output, mask, target, Field.RIGHT_PLANE)

    def _take(
        self, count: int, channel: Value, mask: str | None, target: str, plane: Field
    ) -> None:
        """Transforms one vector of channels of the tile whose pixel addresses were found."""

        def load(i: int, j: int) -> str:
            return self._vectors.load(self._place(self._sources, i * count + j), channel, mask)

        transform = self._of_tile if plane == Field.LEFT_PLANE else self._of_filter
        self._spread(self._both_ways(transform, count, load), target, plane)


class _Steps(Transforms):
    def __init__(self, form: Form) -> None:
        super().__init__(form)
        self._tile = Tile(self._vectors, form.rows, form.vectors)

    def _add_up(
        self,
        factors: tuple[str, str],
        out: str,
        channels: Value,
        adds: str | None = None,
    ) -> None:
        """Multiplies [channels, tiles] by one panel, [tiles, panel].

        Args:
            factors: Addresses of both factors, the first one stored as [tiles, channels].
            out: Address of the result.
            channels: Number of channels.
            adds: Whether the product is added to the result.
        """
        code, size, form, vectors = self._code, self._size, self._form, self._vectors
        left, right = factors
        count, out_pitch = size(Field.GROUP), size(Field.OUT_PITCH)
        part = self._tile.part(form.rows, [None] * form.vectors)
        unrolled = code.let(f"and i64 {count}, {-UNROLLED}")
        with code.loop(0, channels, form.rows) as channel:
            here = self._at(left, channel)
            part.clear()
            for start, stop, steps in ((0, unrolled, UNROLLED), (unrolled, count, 1)):
                with code.loop(start, stop, steps) as first:
                    for step in range(steps):
                        now = code.add(first, step)
                        b = part.load(self._at(right, code.multiply(now, form.panel)))
                        a = self._at(here, code.multiply(now, size(Field.LEFT_PITCH)))
                        part.add_products(
                            (repeat(vectors.broadcast(a, r)) for r in range(form.rows)), b
                        )
            outs = [
                self._at(out, code.multiply(code.add(channel, r), out_pitch))
                for r in range(form.rows)
            ]
            if adds is not None:
                with code.when(adds):
                    part.add_what_is_at(outs)
            part.store(outs)

    def _give(self, source: str, target: str, mask: str | None) -> None:
        """Transforms sums into a vector of the gradient, for all taps of a channel."""
        code = self._code
        tap = code.multiply(self._size(Field.CHANNELS), self._size(Field.OUTPUTS))
        for i, line in enumerate(self._gathered(source, self._form.taps)):
            for j, value in enumerate(line):
                place = code.multiply(tap, i * self._form.taps + j)
                self._vectors.store(value, target, place, mask)

    def _factors(self, tiles: str, factors: str, product: Value, panel: Value) -> tuple[str, str]:
        """Returns the addresses of both sides of one product."""
        code, size = self._code, self._size
        left = self._at(tiles, code.multiply(product, size(Field.LEFT_PLANE)))
        right = self._at(factors, code.multiply(product, size(Field.RIGHT_PLANE)))
        step = code.multiply(size(Field.GROUP), self._form.panel)
        return left, self._at(right, code.multiply(panel, step))


class _Sums(_Steps):
    def _write(self) -> None:
        code, size = self._code, self._size
        tiles, factors, sums = code.arrays(3)
        adds = code.compare("ne", size(Field.ADDS), 0)
        with code.loop("%lo", "%hi") as number:
            product = code.let(f"sdiv i64 {number}, {size(Field.PANELS)}")
            panel = code.subtract(number, code.multiply(product, size(Field.PANELS)))
            out = self._at(sums, code.multiply(product, size(Field.OUT_PLANE)))
            out = self._at(out, code.multiply(panel, self._form.panel))
            both = self._factors(tiles, factors, product, panel)
            self._add_up(both, out, size(Field.CHANNELS), adds)


class _Finish(_Steps):
    def _write(self) -> None:
        code, size, form = self._code, self._size, self._form
        sums, out = code.arrays(2)
        outputs = size(Field.OUTPUTS)
        with code.loop("%lo", "%hi") as channel:
            source = self._at(sums, code.multiply(channel, size(Field.OUT_PITCH)))
            target = self._at(out, code.multiply(channel, outputs))
            for output, mask in self._vectors.along(outputs, form.outputs_rest):
                self._give(self._at(source, output), self._at(target, output), mask)


class _Panels(_Steps):
    def _write(self) -> None:
        code, size, form = self._code, self._size, self._form
        tiles, factors, out, scratch = code.arrays(4)
        sums = self._at(scratch, code.multiply("%part", size(Field.PART)))
        with (
            code.loop("%lo", "%hi") as panel,
            code.loop(0, size(Field.CHANNELS), size(Field.CHUNK)) as channel,
        ):
            rest = code.subtract(size(Field.CHANNELS), channel)
            count = code.smaller(size(Field.CHUNK), rest)
            with code.loop(0, PRODUCTS) as product:
                left, right = self._factors(tiles, factors, product, panel)
                target = self._at(sums, code.multiply(product, size(Field.OUT_PLANE)))
                self._add_up((self._at(left, channel), right), target, count)
            with code.loop(0, count) as number:
                source = self._at(sums, code.multiply(number, form.panel))
                line = code.multiply(code.add(channel, number), size(Field.OUTPUTS))
                for v in range(form.vectors):
                    output = code.add(code.multiply(panel, form.panel), v * form.lanes)
                    inside = code.subtract(size(Field.OUTPUTS), output)
                    mask = self._vectors.first(inside) if form.outputs_rest else None
                    with code.when(code.compare("sgt", inside, 0)):
                        there = self._at(out, code.add(line, output))
                        self._give(self._at(source, v * form.lanes), there, mask)
