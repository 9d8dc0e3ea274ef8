"""Machine code for depthwise convolutions with small filters, and their gradients.

    result:  y[o, c·m + q] = Σ over t of x[i(o, t), c] · f[t, c·m + q]
    image:   x[i, c] = Σ over q, and o and t that meet i, of y[o, c·m + q] · f[t, c·m + q]
    filter:  f[t, c·m + q] = Σ over o of x[i(o, t), c] · y[o, c·m + q]

Lanes are channels. The products of some adjacent columns are a `Pattern`, which is written out:
every vector of the left side is loaded once per line, and what is outside the images is left out,
so that nothing is padded. Which lines meet is read from a table. With a multiplier, whose outputs
are interleaved in memory, every output of a channel has its own sums; they are interleaved, or
added, in registers. If there are many outputs per channel, lanes are the outputs of one channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

from sparkflow_runtime.codegen.depthwise.meetings import Pattern
from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.tiles.tile import Writer

CHAINS: Final = 8
"""Sums of a filter gradient that are independent, at least: additions depend on the last ones."""


class Member(Enum):
    """What is computed."""

    RESULT = "result"
    IMAGE = "image"
    FILTER = "filter"


class Field(IntEnum):
    """Indices into `sizes`. Strides are in elements."""

    CHANNELS = 0
    MULTIPLIER = 1
    LINES = 2
    """Lines per image: of the result, the image, or of the result whose filter is computed."""
    LEFT_IMAGE = 3
    """From one image of the left side to the next."""
    OUT_LINE = 4
    """From one line to the next of what is computed; of the right side, for filters."""
    OUT_PART = 5
    """Elements of the filters' gradient, of which every part has its own."""
    LEFT_LINE = 6
    """From one line of the left side to the next."""
    PATTERNS = 7
    """Behind it, for every pattern: one past its last place."""


@dataclass(frozen=True, slots=True)
class Form:
    """The compile-time parameters of a kernel.

    Attributes:
        member: What is computed.
        element: `float` or `double`.
        lanes: Elements per vector.
        multiplier: Outputs per channel that have sums of their own; 1 if lanes are outputs.
        of_outputs: Whether lanes are the outputs of one channel.
        patterns: What is written out, in the order of their places.
        whole: Whether there are full vectors.
        rest: Whether the last vector is partial.
        is_far: Whether images are not in cache: lines are then fetched before they are needed.
    """

    member: Member
    element: str
    lanes: int
    multiplier: int
    of_outputs: bool
    patterns: tuple[Pattern, ...]
    whole: bool
    rest: bool
    is_far: bool = False


def text(form: Form) -> str:
    """Returns the module; the loop is over the lines of all images.

    Arrays: the left side, the right side (filters by [tap, output of the channel, channel], or in
    their own order), what is computed, and three tables of int64. Per line, the first of its
    meetings; the meetings, as distances in the left side and in the filters; the places of
    patterns, as distances in a line of what is computed (or of the right side, for filters) and in
    one of the left side.
    """
    return _Writer(form).text()


class _Writer(Writer):
    def __init__(self, form: Form) -> None:
        super().__init__(form.element, form.lanes, Field.PATTERNS + len(form.patterns))
        self._form = form
        code = self._code
        self._left, self._right, self._out, *tables = code.arrays(6)
        self._starts, self._meetings, self._places = tables
        channels = self._size(Field.CHANNELS)
        self._outputs = code.multiply(channels, self._size(Field.MULTIPLIER))
        pixels = (channels, self._outputs)
        self._left_pixel, self._out_pixel = pixels[::-1] if form.member is Member.IMAGE else pixels

    def _write(self) -> None:
        code, size = self._code, self._size
        lines = size(Field.LINES)
        is_filter = self._form.member is Member.FILTER
        if is_filter:
            part = code.multiply("%part", size(Field.OUT_PART))
            self._out = self._at(self._out, part)
            code.clear(self._out, code.multiply(size(Field.OUT_PART), self._vectors.size_bytes))
        with code.loop("%lo", "%hi") as number:
            image = code.let(f"sdiv i64 {number}, {lines}")
            line = code.subtract(number, code.multiply(image, lines))
            left = self._at(self._left, code.multiply(image, size(Field.LEFT_IMAGE)))
            here = code.multiply(number, size(Field.OUT_LINE))
            first = code.load_index("i64", self._starts, line)
            last = code.load_index("i64", self._starts, code.add(line, 1))
            if is_filter:
                right = self._at(self._right, here)
                with code.loop(first, last) as meeting:
                    for block in self._blocks():
                        self._filter(block, left, right, meeting)
            else:
                self._line(left, self._at(self._out, here), (first, last))

    def _blocks(self) -> Iterator[_Block]:
        """The vectors of channels, or of a channel's outputs; the code is emitted for each."""
        code, form = self._code, self._form
        channels, multiplier = self._size(Field.CHANNELS), self._size(Field.MULTIPLIER)
        if not form.of_outputs:
            for start, mask in self._along(channels):
                masks: list[str | None] = [None] * form.multiplier
                if mask is not None:
                    rest = code.multiply(code.subtract(channels, start), form.multiplier)
                    masks = [
                        self._vectors.first(code.subtract(rest, n * form.lanes))
                        for n in range(form.multiplier)
                    ]
                yield _Block(start, mask, code.multiply(start, form.multiplier), masks)
            return
        with code.loop(0, channels) as channel:
            first = code.multiply(channel, multiplier)
            if form.member is Member.IMAGE:
                yield _Block(channel, None, first, [None])
                return
            for start, mask in self._along(multiplier):
                yield _Block(channel, mask, code.add(first, start), [mask])

    def _along(self, count: Value) -> Iterator[tuple[Value, str | None]]:
        """Yields the start of each vector, and the mask of the last one if it is partial."""
        code, form = self._code, self._form
        whole = code.let(f"and i64 {count}, {-form.lanes}")
        if form.whole:
            with code.loop(0, whole, form.lanes) as start:
                yield start, None
        if form.rest:
            yield whole, self._vectors.first(code.subtract(count, whole))

    def _each_place(self) -> Iterator[tuple[Pattern, str, str]]:
        """The places of the patterns: their distances in what is computed and the left side."""
        code = self._code
        start: Value = 0
        for number, pattern in enumerate(self._form.patterns):
            stop = self._sizes[Field.PATTERNS + number]
            with code.loop(start, stop) as place:
                at = code.let(f"shl i64 {place}, 1")
                first = code.load_index("i64", self._places, at)
                yield pattern, first, code.load_index("i64", self._places, code.add(at, 1))
            start = stop

    def _meeting(self, number: Value) -> tuple[str, str]:
        """Returns the distances of a meeting's lines in the left side and in the filters."""
        at = self._code.let(f"shl i64 {number}, 1")
        other = self._code.load_index("i64", self._meetings, at)
        return other, self._code.load_index("i64", self._meetings, self._code.add(at, 1))

    def _line(self, left: str, out: str, meetings: tuple[str, str]) -> None:
        """Computes a line of the result or of the image.

        All channels of a pixel are read together, which is faster if it is not in the cache.
        """
        code = self._code
        last, _ = self._meeting(code.larger(code.subtract(meetings[1], 1), 0))
        for pattern, out_at, left_at in self._each_place():
            start, target = self._at(left, left_at), self._at(out, out_at)
            for block in self._blocks():
                if self._form.is_far:
                    self._fetch(block, pattern, self._at(start, last))
                self._pixels(block, pattern, start, target, meetings)

    def _fetch(self, block: _Block, pattern: Pattern, line: str) -> None:
        """Fetches what a pattern sees of the line after the last one that it reads."""
        pixel = self._at(line, self._size(Field.LEFT_LINE))
        for _ in range(pattern.seen):
            self._code.prefetch(self._at(pixel, block.channel))
            pixel = self._at(pixel, self._left_pixel)

    def _pixels(
        self, block: _Block, pattern: Pattern, left: str, out: str, meetings: tuple[str, str]
    ) -> None:
        """Computes adjacent pixels of a line."""
        code, form = self._code, self._form
        sums = self._sums(pattern.width)
        with code.loop(*meetings) as meeting:
            other, taps = self._meeting(meeting)
            line = self._at(left, other)
            if form.member is Member.IMAGE and form.of_outputs:
                for each, mask in self._along(self._size(Field.MULTIPLIER)):
                    at = code.add(block.output, each)
                    self._accumulate(_Block(at, mask, at, [mask]), line, taps, pattern, sums)
            else:
                self._accumulate(block, line, taps, pattern, sums)
        for of_pixel in sums:
            self._store(block, [code.get(each, self._vectors.kind) for each in of_pixel], out)
            out = self._at(out, self._out_pixel)

    def _accumulate(
        self, block: _Block, line: str, taps: str, pattern: Pattern, sums: Sequence[Sequence[str]]
    ) -> None:
        """Adds the products of a pattern in one line."""
        filters = self._at(self._right, taps)
        right: dict[int, list[str]] = {}
        now, left_of = 0, line
        vectors: list[str] = []
        for other, number, tap in pattern.products:
            if not vectors or other != now:
                left_of = self._advanced(left_of, other - now, self._left_pixel)
                now, vectors = other, self._load_left(block, left_of)
            if tap not in right:
                right[tap] = self._load_filter(block, filters, tap)
            self._add_products(sums[number], vectors, right[tap])

    def _filter(self, block: _Block, left: str, right: str, meeting: str) -> None:
        """Adds the products of a line of the result to a line of the filters' gradient."""
        code, form, kind = self._code, self._form, self._vectors.kind
        other, taps = self._meeting(meeting)
        size = 1 + max((tap for each in form.patterns for *_, tap in each.products), default=0)
        copies = -(-CHAINS // (size * form.multiplier))
        sums = [self._sums(copies) for _ in range(size)]
        line = self._at(left, other)
        for pattern, right_at, left_at in self._each_place():
            rights: dict[int, list[str]] = {}
            now, left_of = 0, self._at(line, left_at)
            vectors: list[str] = []
            right_now, right_of = 0, self._at(right, right_at)
            for place, number, tap in pattern.products:
                if not vectors or place != now:
                    left_of = self._advanced(left_of, place - now, self._left_pixel)
                    now, vectors = place, self._load_left(block, left_of)
                if number not in rights:
                    right_of = self._advanced(right_of, number - right_now, self._outputs)
                    right_now = number
                    rights[number] = self._apart(self._load_outputs(block, right_of))
                self._add_products(sums[tap][number % copies], vectors, rights[number])
        target = self._at(self._out, taps)
        for of_tap in sums:
            totals, *more = ([code.get(each, kind) for each in copy] for copy in of_tap)
            for others in more:
                totals = [self._vectors.add(a, b) for a, b in zip(totals, others, strict=True)]
            self._add_to_outputs(block, totals, target)
            target = self._at(target, self._outputs)

    def _sums(self, count: int) -> list[list[str]]:
        """New sums, of every output, for some elements."""
        kind = self._vectors.kind
        return [
            [self._code.variable(kind, "zeroinitializer") for _ in range(self._form.multiplier)]
            for _ in range(count)
        ]

    def _add_products(self, sums: Sequence[str], left: Sequence[str], right: Sequence[str]) -> None:
        code, kind = self._code, self._vectors.kind
        for n, each in enumerate(sums):
            total = code.get(each, kind)
            factor = left[n if len(left) > 1 else 0]
            code.set(each, self._vectors.multiply_add(factor, right[n], total), kind)

    def _advanced(self, base: str, pixels: int, pixel: Value) -> str:
        return self._at(base, self._code.multiply(pixels, pixel))

    def _load_left(self, block: _Block, pixel: str) -> list[str]:
        """Loads the vectors of a pixel of the left side, one if it is the same for all outputs."""
        if self._form.member is Member.IMAGE:
            return self._load_outputs(block, pixel)
        if self._form.of_outputs:
            return [self._vectors.broadcast(pixel, block.channel)]
        return [self._vectors.load(pixel, block.channel, block.mask)]

    def _load_filter(self, block: _Block, filters: str, tap: int) -> list[str]:
        code, form = self._code, self._form
        place = self._at(filters, code.multiply(tap, self._outputs))
        if form.member is Member.IMAGE or form.multiplier == 1:
            return self._load_outputs(block, place)
        channels = self._size(Field.CHANNELS)
        return [
            self._vectors.load(
                place, code.add(block.channel, code.multiply(n, channels)), block.mask
            )
            for n in range(form.multiplier)
        ]

    def _load_outputs(self, block: _Block, pixel: str) -> list[str]:
        place = self._at(pixel, block.output)
        return [
            self._vectors.load(place, n * self._form.lanes, mask)
            for n, mask in enumerate(block.output_masks)
        ]

    def _store(self, block: _Block, sums: list[str], pixel: str) -> None:
        form, vectors = self._form, self._vectors
        if form.member is Member.RESULT:
            place = self._at(pixel, block.output)
            together = self._together(sums)
            for n, (each, mask) in enumerate(zip(together, block.output_masks, strict=True)):
                vectors.store(each, place, n * form.lanes, mask)
        elif form.of_outputs:
            place = self._at(pixel, block.channel)
            self._code.store(form.element, vectors.total(sums[0]), place, vectors.size_bytes)
        else:
            total, *more = self._apart(sums)
            for each in more:
                total = vectors.add(total, each)
            vectors.store(total, pixel, block.channel, block.mask)

    def _add_to_outputs(self, block: _Block, sums: list[str], pixel: str) -> None:
        vectors, place = self._vectors, self._at(pixel, block.output)
        together = self._together(sums)
        for n, (each, mask) in enumerate(zip(together, block.output_masks, strict=True)):
            at = n * self._form.lanes
            vectors.store(vectors.add(vectors.load(place, at, mask), each), place, at, mask)

    def _together(self, outputs: list[str]) -> list[str]:
        """Interleaves vectors: the first lanes of all, the second lanes of all, and so on."""
        count, lanes = len(outputs), self._form.lanes
        return [
            self._picked(outputs, [divmod(n * lanes + k, count)[::-1] for k in range(lanes)])
            for n in range(count)
        ]

    def _apart(self, vectors: list[str]) -> list[str]:
        """The reverse."""
        count, lanes = len(vectors), self._form.lanes
        return [
            self._picked(vectors, [divmod(k * count + n, lanes) for k in range(lanes)])
            for n in range(count)
        ]

    def _picked(self, vectors: Sequence[str], places: Sequence[tuple[int, int]]) -> str:
        """A vector of lanes of others, given as numbers of the vector and of its lane."""
        if len(vectors) == 1:
            return vectors[0]
        lanes, kind = self._form.lanes, self._vectors.kind
        used = sorted({number for number, _ in places})
        found = vectors[used[0]]
        masks = [lane if number == used[0] else None for number, lane in places]
        for turn, number in enumerate(used[1:] or used[:1]):
            picks = []
            for lane, (source, at) in enumerate(places):
                if source == number:
                    picks.append(f"i32 {lanes + at}")
                elif masks[lane] is None:
                    picks.append("i32 poison")
                else:
                    picks.append(f"i32 {masks[lane] if turn == 0 else lane}")
            found = self._code.let(
                f"shufflevector {kind} {found}, {kind} {vectors[number]}, "
                f"<{lanes} x i32> <{', '.join(picks)}>"
            )
            masks = [
                0 if source == number or mask is not None else None
                for (source, _), mask in zip(places, masks, strict=True)
            ]
        return found


@dataclass(frozen=True, slots=True)
class _Block:
    """A vector of channels, or of outputs of a channel.

    Attributes:
        channel: The first channel.
        mask: The valid lanes; None for all.
        output: The first output, among those of all channels.
        output_masks: The valid lanes of each vector of outputs.
    """

    channel: Value
    mask: str | None
    output: Value
    output_masks: Sequence[str | None]
