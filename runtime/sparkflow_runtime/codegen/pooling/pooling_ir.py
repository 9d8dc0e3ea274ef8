"""Machine code for pooling over planes, rows and columns and its gradients, channels last.

Two-dimensional images are volumes of one plane. One pass over them: for each window, vectors of
channels. Small windows inside the image are unrolled, those of a row together (`pooling_runs`); for
others, loops run over the elements inside the image.

The arrays of a call are those that the task needs of, in this order: the images, the pooled images,
the gradient of the pooled images; then the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from itertools import product
from typing import Final

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.pooling.pooling_form import WRITTEN_OUT, Form, Task
from sparkflow_runtime.codegen.pooling.pooling_runs import LOWEST, Run, RunWriter, all_true
from sparkflow_runtime.codegen.tiles.tile import Writer

_WHOLE: Final = ("image", "result")
"""The arrays that have the shape of the images."""


class Field(IntEnum):
    """Indices into `sizes`."""

    HEIGHT = 0
    WIDTH = 1
    CHANNELS = 2
    ROW_STRIDE = 3
    COLUMN_STRIDE = 4
    ABOVE = 5
    """Padding."""
    LEFT = 6
    ROW_COUNT = 7
    """Windows."""
    COLUMN_COUNT = 8
    CLEARS = 9
    """Whether the result of a gradient is set to zero first; then volumes have one part."""
    DEPTH = 10
    """Planes per volume; the sizes above are those of a plane."""
    PLANE_STRIDE = 11
    BEFORE = 12
    """Padding."""
    PARTS = 13
    """Parts that the planes of windows of a volume are divided into."""
    PART_COUNT = 14
    """Planes of windows per part."""


def text(form: Form) -> str:
    """Returns the module."""
    return _Writer(form).text()


@dataclass(frozen=True, slots=True)
class _Axis:
    """The current window along one dimension: its elements `low` to `high` are in the image."""

    start: Value
    low: Value
    high: Value


@dataclass(frozen=True, slots=True)
class _Lines:
    """A row of windows.

    Attributes:
        bases: The arrays, at the volume.
        plane, row: The windows' extents.
        line: The place of the first image row.
        pooled: The place of the first pooled element.
    """

    bases: dict[str, str]
    plane: _Axis
    row: _Axis
    line: Value
    pooled: Value


class _Writer(Writer):
    def __init__(self, form: Form) -> None:
        super().__init__(form.element, form.lanes, len(Field))
        self._form = form
        code = self._code
        self._line = code.multiply(self._size(Field.WIDTH), self._size(Field.CHANNELS))
        self._image = code.multiply(self._line, self._size(Field.HEIGHT))
        self._pooled_line = code.multiply(
            self._size(Field.COLUMN_COUNT), self._size(Field.CHANNELS)
        )
        self._pooled_image = code.multiply(self._pooled_line, self._size(Field.ROW_COUNT))
        lanes = form.lanes
        self._whole = code.let(f"and i64 {self._size(Field.CHANNELS)}, {-lanes}")
        self._rest = code.subtract(self._size(Field.CHANNELS), self._whole)
        self._mask = self._vectors.first(self._rest)
        self._run_begin, self._run_end = self._find_run()

    def _find_run(self) -> tuple[Value, Value]:
        """Returns the first column of windows inside the image, and the one after the last."""
        code, size, step = self._code, self._size, self._form.step
        if not step:
            return 0, 0
        left, count = size(Field.LEFT), size(Field.COLUMN_COUNT)
        outside = code.let(f"sdiv i64 {code.add(left, step - 1)}, {step}")
        room = code.add(code.add(size(Field.WIDTH), left), step - self._form.columns)
        before_end = code.let(f"sdiv i64 {code.larger(room, 0)}, {step}")
        begin = code.smaller(outside, count)
        return begin, code.larger(begin, code.smaller(before_end, count))

    def _write(self) -> None:
        code, size, element = self._code, self._size, self._form.element
        names = {
            Task.MAXIMUM: ("image", "pooled"),
            Task.AVERAGE: ("image", "pooled"),
            Task.MAXIMUM_GRADIENT: ("image", "pooled", "given", "result"),
            Task.AVERAGE_GRADIENT: ("given", "result"),
        }[self._form.task]
        arrays = dict(zip(names, code.arrays(len(names)), strict=True))
        parts, count = size(Field.PARTS), size(Field.PART_COUNT)
        volume = code.multiply(self._image, size(Field.DEPTH))
        pooled_volume = code.multiply(self._pooled_image, code.multiply(parts, count))
        with code.loop("%lo", "%hi") as number:
            which = code.let(f"sdiv i64 {number}, {parts}")
            first = code.multiply(code.subtract(number, code.multiply(which, parts)), count)
            at_image = code.multiply(which, volume)
            at_pooled = code.multiply(which, pooled_volume)
            bases = {
                name: code.at(element, base, at_image if name in _WHOLE else at_pooled)
                for name, base in arrays.items()
            }
            clear = self._clearer(bases)
            with code.loop(first, code.add(first, count)) as h:
                plane = self._plane(h)
                if clear is not None:
                    clear(code.add(plane.start, plane.high))
                self._lines(bases, plane, code.multiply(h, self._pooled_image))
            if clear is not None:
                clear(size(Field.DEPTH))

    def _clearer(self, bases: dict[str, str]) -> Callable[[Value], None] | None:
        """Returns what sets a gradient to zero before a plane, from where it did so last.

        That is shortly before it is added to, so that it is still in cache.
        """
        if not self._form.task.is_gradient:
            return None
        code = self._code
        done = code.variable("i64", 0)

        def clear(stop: Value) -> None:
            with code.when(code.compare("ne", self._size(Field.CLEARS), 0)):
                start = code.get(done)
                place = self._at(bases["result"], code.multiply(start, self._image))
                planes = code.larger(code.subtract(stop, start), 0)
                size_bytes = code.multiply(self._image, self._vectors.size_bytes)
                code.clear(place, code.multiply(planes, size_bytes))
                code.set(done, code.add(start, planes))

        return clear

    def _lines(self, bases: dict[str, str], plane: _Axis, pooled: Value) -> None:
        """Computes a plane of windows; `pooled` is its place."""
        code, size = self._code, self._size
        columns = size(Field.COLUMN_COUNT)
        with code.loop(0, size(Field.ROW_COUNT)) as i:
            row = self._axis(i, Field.ROW_STRIDE, Field.ABOVE, Field.HEIGHT, self._form.rows)
            above = code.add(pooled, code.multiply(i, self._pooled_line))
            line = self._offset(plane.start, row.start, 0)
            lines = _Lines(bases, plane, row, line, above)
            if self._form.step:
                is_whole = code.compare("eq", code.subtract(row.high, row.low), self._form.rows)
                begin = code.select(is_whole, self._run_begin, columns)
                end = code.select(is_whole, self._run_end, columns)
                self._windows(lines, 0, begin)
                self._run(lines, begin, end)
                self._windows(lines, end, columns)
            else:
                self._windows(lines, 0, columns)

    def _windows(self, lines: _Lines, begin: Value, end: Value) -> None:
        """Computes these windows of a row one by one."""
        with self._code.loop(begin, end) as j:
            column = self._axis(j, Field.COLUMN_STRIDE, Field.LEFT, Field.WIDTH, self._form.columns)
            window = self._placed(lines, column.start, j)
            self._window(window, (lines.plane, lines.row, column))

    def _run(self, lines: _Lines, begin: Value, end: Value) -> None:
        """Computes these windows of a row, which are inside the image, as a run."""
        code, form = self._code, self._form
        writer = RunWriter(self._vectors, form, self._line, self._size(Field.CHANNELS))
        count = code.subtract(end, begin)
        with code.when(code.compare("sgt", count, 0)):
            column = code.subtract(code.multiply(begin, form.step), self._size(Field.LEFT))
            bases = self._placed(lines, column, begin)

            def write(channel: Value, mask: str | None) -> None:
                at = {name: self._at(base, channel) for name, base in bases.items()}
                writer.write(Run(at, count, mask))

            with code.loop(0, self._whole, form.lanes) as channel:
                write(channel, None)
            with code.when(code.compare("sgt", self._rest, 0)):
                write(self._whole, self._mask)

    def _placed(self, lines: _Lines, column: Value, number: Value) -> dict[str, str]:
        """Returns where a window of a row begins in each array.

        Args:
            lines: The row.
            column: The window's first column in the image.
            number: Its number in the row.
        """
        code, channels = self._code, self._size(Field.CHANNELS)
        pixel = code.add(lines.line, code.multiply(column, channels))
        place = code.add(lines.pooled, code.multiply(number, channels))
        return {
            name: self._at(base, pixel if name in _WHOLE else place)
            for name, base in lines.bases.items()
        }

    def _offset(self, plane: Value, row: Value, column: Value) -> Value:
        """Returns the place of a pixel."""
        code = self._code
        line = code.add(code.multiply(plane, self._image), code.multiply(row, self._line))
        return code.add(line, code.multiply(column, self._size(Field.CHANNELS)))

    def _plane(self, number: str) -> _Axis:
        if self._form.planes > 1:
            fields = (Field.PLANE_STRIDE, Field.BEFORE, Field.DEPTH)
            return self._axis(number, *fields, self._form.planes)
        # Without padding, which only larger windows have, a plane is always in the volume.
        return _Axis(self._code.multiply(number, self._size(Field.PLANE_STRIDE)), 0, 1)

    def _axis(self, number: str, stride: Field, before: Field, dim: Field, size: int) -> _Axis:
        code = self._code
        start = code.subtract(code.multiply(number, self._size(stride)), self._size(before))
        low = code.larger(code.subtract(0, start), 0)
        high = code.smaller(code.subtract(self._size(dim), start), size)
        return _Axis(start, low, high)

    def _window(self, bases: dict[str, str], axes: tuple[_Axis, _Axis, _Axis]) -> None:
        """Computes one window, whose first elements `bases` point to."""
        code, form = self._code, self._form
        count: Value = 1
        for axis in axes:
            count = code.multiply(count, code.subtract(axis.high, axis.low))
        elements = form.planes * form.rows * form.columns
        if elements > WRITTEN_OUT:
            self._channels(bases, count, axes)
            return
        is_whole = code.compare("eq", count, elements)
        with code.when(is_whole):
            planes, rows, columns = form.planes, form.rows, form.columns
            whole = (_Axis(0, 0, planes), _Axis(0, 0, rows), _Axis(0, 0, columns))
            self._channels(bases, elements, whole)
        with code.unless(is_whole):
            self._channels(bases, count, axes)

    def _channels(
        self, bases: dict[str, str], count: Value, axes: tuple[_Axis, _Axis, _Axis]
    ) -> None:
        code, form = self._code, self._form
        divisor = None
        if form.task in (Task.AVERAGE, Task.AVERAGE_GRADIENT):
            number = code.let(f"sitofp i64 {count} to {form.element}")
            divisor = self._vectors.splat(number)
        with code.loop(0, self._whole, form.lanes) as channel:
            self._cell(bases, channel, None, divisor, axes)
        with code.when(code.compare("sgt", self._rest, 0)):
            self._cell(bases, self._whole, self._mask, divisor, axes)

    def _cell(
        self,
        bases: dict[str, str],
        channel: Value,
        mask: str | None,
        divisor: str | None,
        axes: tuple[_Axis, _Axis, _Axis],
    ) -> None:
        """Computes one vector of channels of one window."""
        code, vectors, kind = self._code, self._vectors, self._vectors.kind
        at = {name: code.at(self._form.element, base, channel) for name, base in bases.items()}
        match self._form.task:
            case Task.MAXIMUM:
                best, has_nan = code.variable(kind), code.variable(vectors.truth)
                code.set(best, vectors.splat(LOWEST), kind)
                code.set(has_nan, "zeroinitializer", vectors.truth)
                with self._places(axes) as offsets:
                    for offset in offsets:
                        value = vectors.load(at["image"], offset, mask)
                        so_far = code.get(best, kind)
                        # One instruction each, which do not wait for each other.
                        stays = code.let(f"fcmp ogt {kind} {so_far}, {value}")
                        code.set(best, vectors.select(stays, so_far, value), kind)
                        nan = code.let(f"fcmp uno {kind} {value}, {value}")
                        seen = code.get(has_nan, vectors.truth)
                        code.set(
                            has_nan, code.let(f"or {vectors.truth} {seen}, {nan}"), vectors.truth
                        )
                # NaN is larger than all, as in numpy's maximum.
                found = vectors.select(
                    code.get(has_nan, vectors.truth),
                    vectors.constant(math.nan),
                    code.get(best, kind),
                )
                vectors.store(found, at["pooled"], 0, mask)
            case Task.AVERAGE:
                total = code.variable(kind)
                code.set(total, "zeroinitializer", kind)
                with self._places(axes) as offsets:
                    for offset in offsets:
                        value = vectors.load(at["image"], offset, mask)
                        now = code.get(total, kind)
                        code.set(total, vectors.add(now, value), kind)
                mean = code.let(f"fdiv {kind} {code.get(total, kind)}, {divisor}")
                vectors.store(mean, at["pooled"], 0, mask)
            case Task.MAXIMUM_GRADIENT:
                pooled = vectors.load(at["pooled"], 0, mask)
                given = vectors.load(at["given"], 0, mask)
                free = code.variable(vectors.truth)
                code.set(free, all_true(vectors.lanes), vectors.truth)
                with self._places(axes) as offsets:
                    for offset in offsets:
                        value = vectors.load(at["image"], offset, mask)
                        equal = code.let(f"fcmp oeq {kind} {value}, {pooled}")
                        now = code.get(free, vectors.truth)
                        first = code.let(f"and {vectors.truth} {equal}, {now}")
                        other = code.let(f"xor {vectors.truth} {equal}, {all_true(vectors.lanes)}")
                        code.set(
                            free, code.let(f"and {vectors.truth} {other}, {now}"), vectors.truth
                        )
                        self._give(given, at["result"], offset, mask, first)
            case Task.AVERAGE_GRADIENT:
                given = vectors.load(at["given"], 0, mask)
                share = code.let(f"fdiv {kind} {given}, {divisor}")
                with self._places(axes) as offsets:
                    for offset in offsets:
                        self._give(share, at["result"], offset, mask)

    def _give(
        self, share: str, result: str, offset: Value, mask: str | None, where: str | None = None
    ) -> None:
        """Adds one window's contribution to an element of the gradient, in some lanes or all."""
        vectors = self._vectors
        before = "zeroinitializer"
        if not self._form.disjoint:
            before = vectors.load(result, offset, mask)
            share = vectors.add(before, share)
        if where is not None:
            share = vectors.select(where, share, before)
        vectors.store(share, result, offset, mask)

    @contextmanager
    def _places(self, axes: tuple[_Axis, _Axis, _Axis]) -> Iterator[list[Value]]:
        """Yields the offsets of the window's elements: unrolled if known, else in loops."""
        with ExitStack() as loops:
            ranges = [loops.enter_context(self._code.each(each.low, each.high)) for each in axes]
            yield [self._offset(*place) for place in product(*ranges)]
