"""Packs a factor of a matrix product into the order in which tiles read it, as LLVM IR.

Products pack blocks of their factors on the fly, see `gemm_ir`. A factor that is reused by several
products is packed once, as a whole.
"""

from __future__ import annotations

from typing import Final

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.tiles.gemm_form import Form, Size
from sparkflow_runtime.codegen.tiles.tile import Writer

_LINES: Final = 4
"""Lines that are copied in parallel."""


def text(form: Form) -> str:
    """Returns the module whose `body` packs a right factor; arrays: the factor, the packed copy.

    For each block of the sum and each slice of a tile's columns, the copy has the elements in the
    tile's reading order: k × `packed_columns(n)` in all. `Size` has the factor's strides; `OUT_ROW`
    is `packed_columns(n)`.
    """
    return _Packer(form).text()


class PackingWriter(Writer):
    """Emits the code that packs blocks of factors.

    Args:
        form: Compile-time parameters.
    """

    def __init__(self, form: Form) -> None:
        super().__init__(form.element, form.lanes, len(Size))
        self._form = form

    def _quotient_up(self, total: Value, unit: Value) -> str:
        code = self._code
        return code.let(f"sdiv i64 {code.subtract(code.add(total, unit), 1)}, {unit}")

    def _depth(self, longest: Value) -> str:
        """Returns the length of blocks of the sum: as equal as possible."""
        depth_blocks = self._quotient_up(self._size(Size.K), longest)
        return self._quotient_up(self._size(Size.K), depth_blocks)

    def _copy(
        self,
        places: tuple[str, str],
        strides: tuple[Value, Value],
        across: Value,
        depth: Value,
        slices: tuple[int, Value],
    ) -> None:
        """Copies a block into slices: for each slice of `width`, for each depth, `width` elements.

        Args:
            places: Source and target addresses.
            strides: Strides along the depth and across; one of them is 1.
            across: Number of elements across; the last slice may be narrower.
            depth: Depth of the block.
            slices: Width of the slices, and stride between them in elements.
        """
        code = self._code
        is_turned = code.compare("ne", strides[1], 1)
        with code.when(is_turned):
            self._copy_turned(places, strides[1], across, depth, slices)
        with code.unless(is_turned):
            self._copy_along(places, strides[0], across, depth, slices)

    def _copy_along(
        self,
        places: tuple[str, str],
        stride: Value,
        across: Value,
        depth: Value,
        slices: tuple[int, Value],
    ) -> None:
        """Copies elements that are contiguous across.

        The last slice may be narrower; the rest of its lines is zero. Its stores are of whole
        vectors: the excess is overwritten by the next line.
        """
        code, vectors, lanes = self._code, self._vectors, self._form.lanes
        source, target = places
        width, step = slices
        whole_slices = code.let(f"sdiv i64 {across}, {width}")
        whole = code.multiply(whole_slices, width)
        rest = code.subtract(across, whole)
        kind = f"<{width} x {self._form.element}>"
        is_part = code.compare("sgt", rest, 0)
        masks = [vectors.first(code.subtract(rest, start)) for start in range(0, width, lanes)]
        blocks = code.let(f"and i64 {depth}, {-_LINES}")
        # A few lines at a time: many lines may map to the same cache sets.
        for start, stop, count in ((0, blocks, _LINES), (blocks, depth, 1)):
            with code.loop(start, stop, count) as k:
                lines = [
                    self._at(source, code.multiply(code.add(k, n), stride)) for n in range(count)
                ]
                to = self._at(target, code.multiply(k, width))
                with code.loop(0, whole_slices) as i:
                    place = self._at(to, code.multiply(i, step))
                    for n, line in enumerate(lines):
                        here = self._at(line, code.multiply(i, width))
                        values = code.load(kind, here, vectors.size_bytes)
                        code.store(kind, values, self._at(place, n * width), vectors.size_bytes)
                with code.when(is_part):
                    place = self._at(to, code.multiply(whole_slices, step))
                    for n, line in enumerate(lines):
                        slot, first = self._at(place, n * width), self._at(line, whole)
                        for number, mask in enumerate(masks):
                            values = vectors.load(first, number * lanes, mask)
                            vectors.store(values, slot, number * lanes)

    def _copy_turned(
        self,
        places: tuple[str, str],
        stride: Value,
        across: Value,
        depth: Value,
        slices: tuple[int, Value],
    ) -> None:
        """Copies elements that are contiguous along the depth: squares are transposed in registers.

        A slice narrower than `width` repeats its last line, which is never used. Stores are of
        whole vectors: the excess is overwritten by the next one.
        """
        code, vectors, lanes = self._code, self._vectors, self._form.lanes
        source, target = places
        width, step = slices
        whole = code.let(f"and i64 {depth}, {-lanes}")
        last = code.subtract(across, 1)
        with code.loop(0, self._quotient_up(across, width)) as i:
            first = code.multiply(i, width)
            lines = [
                self._at(source, code.multiply(code.smaller(code.add(first, n), last), stride))
                for n in range(width)
            ]
            to = self._at(target, code.multiply(i, step))
            with code.loop(0, whole, lanes) as k:
                turned = []
                for group in range(0, width, lanes):
                    square = [vectors.load(line, k) for line in lines[group : group + lanes]]
                    square += square[-1:] * (lanes - len(square))
                    turned.append(self._turned(square))
                place = self._at(to, code.multiply(k, width))
                for n in range(lanes):
                    for number, square in enumerate(turned):
                        vectors.store(square[n], place, n * width + number * lanes)
            with code.loop(whole, depth) as k:
                place = self._at(to, code.multiply(k, width))
                for n, line in enumerate(lines):
                    value = code.load(self._form.element, self._at(line, k), vectors.size_bytes)
                    code.store(self._form.element, value, self._at(place, n), vectors.size_bytes)


class _Packer(PackingWriter):
    def _write(self) -> None:
        code, size, form = self._code, self._size, self._form
        right, packed = code.arrays(2)
        depth = self._depth(form.depth)
        with code.loop(0, size(Size.K), depth) as done:
            deep = code.smaller(depth, code.subtract(size(Size.K), done))
            source = self._at(right, code.multiply(done, size(Size.RIGHT_DEPTH)))
            target = self._at(packed, code.multiply(done, size(Size.OUT_ROW)))
            strides = size(Size.RIGHT_DEPTH), size(Size.RIGHT_COLUMN)
            slices = form.columns, code.multiply(deep, form.columns)
            self._copy((source, target), strides, size(Size.N), deep, slices)
