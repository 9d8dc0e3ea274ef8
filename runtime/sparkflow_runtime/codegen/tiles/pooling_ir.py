"""Machine code for two-dimensional pooling and its gradients, channels last.

One pass over the images: for each window, vectors of channels. Small windows inside the image are
unrolled; for others, loops run over the elements inside the image.

The arrays of a call are those that the task needs of, in this order: the images, the pooled images,
the gradient of the pooled images; then the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.tiles.tile import Writer

_LOWEST: Final = "0xFFF0000000000000"
"""Minus infinity, for both element types."""
WRITTEN_OUT: Final = 16
"""Windows of up to this many elements are unrolled."""


class Task(Enum):
    """The computation of a kernel."""

    MAXIMUM = "maximum"
    AVERAGE = "average"
    MAXIMUM_GRADIENT = "maximum gradient"
    AVERAGE_GRADIENT = "average gradient"

    @property
    def is_gradient(self) -> bool:
        """Whether the result has the shape of the images."""
        return self in (Task.MAXIMUM_GRADIENT, Task.AVERAGE_GRADIENT)


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
    """Whether the result of a gradient is set to zero first."""


@dataclass(frozen=True, slots=True)
class Form:
    """The compile-time parameters of a kernel.

    Attributes:
        task: The computation.
        element: `float` or `double`.
        lanes: Elements per vector.
        rows, columns: Size of a window.
        disjoint: Whether windows do not overlap.
    """

    task: Task
    element: str
    lanes: int
    rows: int
    columns: int
    disjoint: bool


def text(form: Form) -> str:
    """Returns the module."""
    return _Writer(form).text()


@dataclass(frozen=True, slots=True)
class _Axis:
    """The current window along one dimension: its elements `low` to `high` are in the image."""

    start: Value
    low: Value
    high: Value


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

    def _write(self) -> None:
        code, size, element = self._code, self._size, self._form.element
        task = self._form.task
        names = {
            Task.MAXIMUM: ("image", "pooled"),
            Task.AVERAGE: ("image", "pooled"),
            Task.MAXIMUM_GRADIENT: ("image", "pooled", "given", "result"),
            Task.AVERAGE_GRADIENT: ("given", "result"),
        }[task]
        arrays = dict(zip(names, code.arrays(len(names)), strict=True))
        with code.loop("%lo", "%hi") as number:
            at_image = code.multiply(number, self._image)
            at_pooled = code.multiply(number, self._pooled_image)
            bases = {
                name: code.at(element, base, at_image if name in ("image", "result") else at_pooled)
                for name, base in arrays.items()
            }
            if task.is_gradient:
                with code.when(code.compare("ne", size(Field.CLEARS), 0)):
                    code.clear(
                        bases["result"], code.multiply(self._image, self._vectors.size_bytes)
                    )
            with code.loop(0, size(Field.ROW_COUNT)) as i:
                row = self._axis(i, Field.ROW_STRIDE, Field.ABOVE, Field.HEIGHT, self._form.rows)
                above = code.multiply(i, self._pooled_line)
                with code.loop(0, size(Field.COLUMN_COUNT)) as j:
                    column = self._axis(
                        j, Field.COLUMN_STRIDE, Field.LEFT, Field.WIDTH, self._form.columns
                    )
                    place = code.add(above, code.multiply(j, size(Field.CHANNELS)))
                    start = code.add(
                        code.multiply(row.start, self._line),
                        code.multiply(column.start, size(Field.CHANNELS)),
                    )
                    window = {
                        name: code.at(
                            element, base, start if name in ("image", "result") else place
                        )
                        for name, base in bases.items()
                    }
                    self._window(window, row, column)

    def _axis(self, number: str, stride: Field, before: Field, dim: Field, size: int) -> _Axis:
        code = self._code
        start = code.subtract(code.multiply(number, self._size(stride)), self._size(before))
        low = code.larger(code.subtract(0, start), 0)
        high = code.smaller(code.subtract(self._size(dim), start), size)
        return _Axis(start, low, high)

    def _window(self, bases: dict[str, str], row: _Axis, column: _Axis) -> None:
        """Computes one window, whose first elements `bases` point to."""
        code, form = self._code, self._form
        count = code.multiply(
            code.subtract(row.high, row.low), code.subtract(column.high, column.low)
        )
        elements = form.rows * form.columns
        if elements > WRITTEN_OUT:
            self._channels(bases, count, row, column)
            return
        is_whole = code.compare("eq", count, elements)
        with code.when(is_whole):
            whole = (_Axis(0, 0, form.rows), _Axis(0, 0, form.columns))
            self._channels(bases, elements, *whole)
        with code.unless(is_whole):
            self._channels(bases, count, row, column)

    def _channels(self, bases: dict[str, str], count: Value, row: _Axis, column: _Axis) -> None:
        code, form = self._code, self._form
        divisor = None
        if form.task in (Task.AVERAGE, Task.AVERAGE_GRADIENT):
            number = code.let(f"sitofp i64 {count} to {form.element}")
            divisor = self._vectors.splat(number)
        with code.loop(0, self._whole, form.lanes) as channel:
            self._cell(bases, channel, None, divisor, row, column)
        with code.when(code.compare("sgt", self._rest, 0)):
            self._cell(bases, self._whole, self._mask, divisor, row, column)

    def _cell(
        self,
        bases: dict[str, str],
        channel: Value,
        mask: str | None,
        divisor: str | None,
        row: _Axis,
        column: _Axis,
    ) -> None:
        """Computes one vector of channels of one window."""
        code, vectors, kind = self._code, self._vectors, self._vectors.kind
        at = {name: code.at(self._form.element, base, channel) for name, base in bases.items()}
        match self._form.task:
            case Task.MAXIMUM:
                best = code.variable(kind)
                code.set(best, vectors.splat(_LOWEST), kind)
                with self._places(row, column) as offsets:
                    for offset in offsets:
                        value, so_far = (
                            vectors.load(at["image"], offset, mask),
                            code.get(best, kind),
                        )
                        # NaN is larger than all, as in numpy's maximum.
                        larger = code.let(f"fcmp ogt {kind} {value}, {so_far}")
                        nan = code.let(f"fcmp uno {kind} {value}, {value}")
                        takes = code.let(f"or {vectors.truth} {larger}, {nan}")
                        code.set(best, vectors.select(takes, value, so_far), kind)
                vectors.store(code.get(best, kind), at["pooled"], 0, mask)
            case Task.AVERAGE:
                total = code.variable(kind)
                code.set(total, "zeroinitializer", kind)
                with self._places(row, column) as offsets:
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
                code.set(free, _all_true(vectors.lanes), vectors.truth)
                with self._places(row, column) as offsets:
                    for offset in offsets:
                        value = vectors.load(at["image"], offset, mask)
                        equal = code.let(f"fcmp oeq {kind} {value}, {pooled}")
                        now = code.get(free, vectors.truth)
                        first = code.let(f"and {vectors.truth} {equal}, {now}")
                        code.set(
                            free, code.let(f"xor {vectors.truth} {first}, {now}"), vectors.truth
                        )
                        share = vectors.select(first, given, "zeroinitializer")
                        self._give(share, at["result"], offset, mask)
            case Task.AVERAGE_GRADIENT:
                given = vectors.load(at["given"], 0, mask)
                share = code.let(f"fdiv {kind} {given}, {divisor}")
                with self._places(row, column) as offsets:
                    for offset in offsets:
                        self._give(share, at["result"], offset, mask)

    def _give(self, share: str, result: str, offset: Value, mask: str | None) -> None:
        """Adds one window's contribution to an element of the gradient."""
        vectors = self._vectors
        if not self._form.disjoint:
            before = vectors.load(result, offset, mask)
            share = vectors.add(before, share)
        vectors.store(share, result, offset, mask)

    @contextmanager
    def _places(self, row: _Axis, column: _Axis) -> Iterator[list[Value]]:
        """Yields the offsets of the window's elements: unrolled if known, else in loops."""
        code, channels = self._code, self._size(Field.CHANNELS)

        def offset(y: Value, x: Value) -> Value:
            return code.add(code.multiply(y, self._line), code.multiply(x, channels))

        with ExitStack() as loops:
            ranges = [loops.enter_context(code.each(axis.low, axis.high)) for axis in (row, column)]
            yield [offset(y, x) for y in ranges[0] for x in ranges[1]]


def _all_true(lanes: int) -> str:
    return f"<{', '.join(['i1 true'] * lanes)}>"
