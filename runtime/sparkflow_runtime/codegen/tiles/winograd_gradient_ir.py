"""Machine code for the gradient of convolutions by filters, by minimal filtering.

Three bodies, one after another: tiles of images and of dy are transformed; their products are added
up over tiles, each of the 36 and each panel of outputs by itself; and the sums are transformed into
the gradient. No sum depends on how many threads there are. See `winograd_ir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.tiles.tile import Tile
from sparkflow_runtime.codegen.tiles.winograd_ir import (
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
    """Adds up products; the loop is over products and panels. Arrays are both tiles and sums."""
    return _Sums(form).text()


def finish_text(form: Form) -> str:
    """Transforms sums; the loop is over channels, the arrays are sums and the gradient."""
    return _Finish(form).text()


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
            for channel, mask in self._each_vector(shape[2], form.channels_rest):
                self._take(POINTS, channel, mask, self._at(here, channel), Field.LEFT_PLANE)
            self._places(dy, tile, form.tile, (0, 0), out_shape, zeros, self._sources)
            there = self._at(rights, code.multiply(number, form.panel))
            for output, mask in self._each_vector(out_shape[2], form.outputs_rest):
                panel = code.let(f"sdiv i64 {output}, {form.panel}")
                inside = code.subtract(output, code.multiply(panel, form.panel))
                target = self._at(there, code.add(code.multiply(panel, panel_step), inside))
                self._take(form.tile, output, mask, target, Field.RIGHT_PLANE)

    def _take(
        self, count: int, channel: Value, mask: str | None, target: str, plane: Field
    ) -> None:
        """Transforms one vector of channels of the tile whose pixels' places are known."""

        def load(i: int, j: int) -> str:
            return self._vectors.load(self._place(self._sources, i * count + j), channel, mask)

        transform = self._of_tile if plane == Field.LEFT_PLANE else self._of_filter
        self._spread(self._both_ways(transform, count, load), target, plane)


class _Sums(Transforms):
    def _write(self) -> None:
        code, size, form, vectors = self._code, self._size, self._form, self._vectors
        tiles, factors, sums = code.arrays(3)
        count, pitch = size(Field.GROUP), size(Field.LEFT_PITCH)
        tile = Tile(vectors, form.rows, form.vectors)
        part = tile.part(form.rows, [None] * form.vectors)
        unrolled = code.let(f"and i64 {count}, {-UNROLLED}")
        adds = code.compare("ne", size(Field.ADDS), 0)
        with code.loop("%lo", "%hi") as number:
            product = code.let(f"sdiv i64 {number}, {size(Field.PANELS)}")
            panel = code.subtract(number, code.multiply(product, size(Field.PANELS)))
            left = self._at(tiles, code.multiply(product, size(Field.LEFT_PLANE)))
            right = self._at(factors, code.multiply(product, size(Field.RIGHT_PLANE)))
            right = self._at(right, code.multiply(panel, code.multiply(count, form.panel)))
            out = self._at(sums, code.multiply(product, size(Field.OUT_PLANE)))
            out = self._at(out, code.multiply(panel, form.panel))
            with code.loop(0, size(Field.CHANNELS), form.rows) as channel:
                here = self._at(left, channel)
                part.clear()
                for start, stop, steps in ((0, unrolled, UNROLLED), (unrolled, count, 1)):
                    with code.loop(start, stop, steps) as first:
                        for step in range(steps):
                            now = code.add(first, step)
                            b = part.load(self._at(right, code.multiply(now, form.panel)))
                            a = self._at(here, code.multiply(now, pitch))
                            part.add_products(
                                (repeat(vectors.broadcast(a, r)) for r in range(form.rows)), b
                            )
                outs = [
                    self._at(out, code.multiply(code.add(channel, r), size(Field.OUT_PITCH)))
                    for r in range(form.rows)
                ]
                with code.when(adds):
                    part.add_what_is_at(outs)
                part.store(outs)


class _Finish(Transforms):
    def _write(self) -> None:
        code, size, form = self._code, self._size, self._form
        sums, out = code.arrays(2)
        outputs = size(Field.OUTPUTS)
        with code.loop("%lo", "%hi") as channel:
            source = self._at(sums, code.multiply(channel, size(Field.OUT_PITCH)))
            target = self._at(out, code.multiply(channel, outputs))
            tap = code.multiply(size(Field.CHANNELS), outputs)
            for output, mask in self._each_vector(outputs, form.outputs_rest):
                there = self._at(target, output)
                lines: Sequence[Sequence[str]] = self._gathered(self._at(source, output), form.taps)
                for i, line in enumerate(lines):
                    for j, value in enumerate(line):
                        place = code.multiply(tap, i * form.taps + j)
                        self._vectors.store(value, there, place, mask)
