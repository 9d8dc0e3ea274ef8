"""Machine code for non-maximum suppression: boxes by descending score, without overlapping ones.

The candidates of a class are a heap, so that only those that are looked at are sorted. A key of it
is an int64, with the score above the complement of the box's number: of equal scores the lower
number is first. Each candidate is compared with the boxes selected before, a vector of them at a
time. All numbers of boxes come from the heap, so that no value of an input leads outside an array.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from math import factorial, log
from typing import Any, Final, NamedTuple

import numpy as np

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.llvm_text import Code, Vectors, constant
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
_SHARED_CANDIDATES: Final = 1 << 14
"""Fewer are looked at by a single thread."""
_MOST: Final = (1 << 31) - 2
"""Numbers of boxes are int32."""
_LEAST_KEY: Final = -(1 << 63)
_TERMS: Final = 13
"""Of the series of exp: its error is less than 1e-15 for |x| ≤ log(2) / 2."""
_SMALLEST_EXPONENT: Final = -200.0
"""exp of it is 0 as float32."""


class Rule(Enum):
    """When a candidate is left out because of a box selected before.

    Attributes:
        ABOVE: Their overlap is greater than the threshold.
        NOT_WITHIN: It is not at most the threshold: also if it is not a number.
        SOFT: As `NOT_WITHIN`; other overlaps lower the score. Source: Bodla et al., Soft-NMS, 2017.
        MATRIX: As `ABOVE`, with given overlaps instead of boxes.
    """

    ABOVE = "above"
    NOT_WITHIN = "not within"
    SOFT = "soft"
    MATRIX = "matrix"


class Selection(NamedTuple):
    """The selected boxes of each image and class.

    Attributes:
        numbers: [images, classes, limit] int32, the numbers of boxes in the order of selection;
            undefined beyond the count.
        scores: [images, classes, limit] float32, the lowered scores, likewise; of `Rule.SOFT` only.
        counts: [images, classes] int32.
    """

    numbers: Array
    scores: Array
    counts: Array


def selected(
    rule: Rule,
    boxes: Array,
    scores: Array,
    limit: int,
    threshold: float,
    least: float,
    sigma: float = 0.0,
) -> Selection | None:
    """Selects boxes of each image and class by descending score.

    Args:
        rule: When candidates are left out.
        boxes: [images, boxes, classes or 1, 4] float32, two opposite corners; with `Rule.MATRIX`
            the overlaps, [1, boxes or more, 1, boxes or more].
        scores: [images, boxes, classes] float32.
        limit: The maximum number of boxes of a class, at least 0.
        threshold: The limit of overlaps: of the intersection divided by the union.
        least: Only candidates with greater scores are selected.
        sigma: Of `Rule.SOFT`, > 0: a score is multiplied by exp(-overlap² / (2 · sigma)).

    Returns:
        The selection, with the limit reduced to the number of boxes; None without machine code.
    """
    images, count, classes = scores.shape
    if count > _MOST or not native.available():
        return None
    limit = min(limit, count)
    lanes = _lanes()
    room = -(-limit // lanes) * lanes
    problems = images * classes
    is_shared = problems * count >= _SHARED_CANDIDATES
    parts = max(1, min(threads.count(), problems)) if is_shared else 1
    found = Selection(
        np.empty((images, classes, limit), np.int32),
        np.empty((images, classes, limit if rule is Rule.SOFT else 0), np.float32),
        np.empty((images, classes), np.int32),
    )
    heaps = np.empty((parts, count + 1), np.int64)
    kept = np.empty((parts, 5, room), np.float32)
    starts = np.empty((parts, count if rule is Rule.SOFT else 0), np.int32)
    scale = np.float32(-0.5) / np.float32(sigma) if rule is Rule.SOFT else np.float32(0)
    limits = np.array([threshold, least, scale], np.float32)
    run = _bound(rule, boxes.shape, classes, count, limit, room, problems, parts, is_shared)
    inputs = np.ascontiguousarray(boxes), np.ascontiguousarray(scores), limits
    return found if run(*inputs, *found, heaps, kept, starts) else None


@once
def _lanes() -> int:
    return Vectors.whole(Code(), "float").lanes


@latest(256)
def _bound(
    rule: Rule,
    shape: tuple[int, int, int, int],
    classes: int,
    count: int,
    limit: int,
    room: int,
    problems: int,
    parts: int,
    releases_gil: bool,
) -> Callable[..., bool]:
    images, rows, alike, columns = shape
    is_soft = rule is Rule.SOFT
    sizes = (count, classes, alike * columns, columns if alike > 1 else 0, limit, room)
    chosen = problems * limit
    counts = (
        *(images * rows * alike * columns, problems * count, 3),
        *(chosen, chosen if is_soft else 0, problems),
        *(parts * (count + 1), parts * 5 * room, parts * count if is_soft else 0),
    )
    return _body(rule, _lanes()).bind(sizes, counts, problems, parts, releases_gil)


@once
def _body(rule: Rule, lanes: int) -> native.Body:
    return native.written_body(text, (rule, lanes))


def text(rule: Rule, lanes: int) -> str:
    """Returns the module; the loop is over the classes of all images.

    Sizes: boxes, classes, distances in `boxes` from one box to the next and from one class to the
    next, the limit, and the limit in whole vectors. Arrays: the inputs of `selected`; threshold,
    least score and scale of the exponent; the three arrays of a `Selection`; for each part the
    heap (a key more than boxes), the coordinates and areas of the selected boxes, and for each box
    the number of selected ones that have lowered its score.

    Args:
        rule: When candidates are left out.
        lanes: Selected boxes per vector.
    """
    return _Writer(rule, lanes).text()


class _Writer:
    def __init__(self, rule: Rule, lanes: int) -> None:
        code = self._code = Code()
        self._rule, self._vectors = rule, Vectors(code, "float", lanes)
        self._count, self._classes, self._step, class_step, self._limit, room = code.sizes(6)
        self._class_step = class_step
        arrays = code.arrays(9)
        self._boxes, self._scores, limits = arrays[:3]
        self._numbers, self._values, self._counts, heaps, kept, starts = arrays[3:]
        self._threshold, self._least, self._scale = (self._load(limits, n) for n in range(3))
        self._heap = code.at("i64", heaps, code.multiply("%part", code.add(self._count, 1)))
        kept = code.at("float", kept, code.multiply("%part", code.multiply(room, 5)))
        self._kept = [code.at("float", kept, code.multiply(room, n)) for n in range(5)]
        self._starts = code.at("i32", starts, code.multiply("%part", self._count))
        self._size, self._selected = code.variable("i64"), code.variable("i64")

    def text(self) -> str:
        code = self._code
        with code.loop("%lo", "%hi") as problem:
            image = code.let(f"sdiv i64 {problem}, {self._classes}")
            label = code.subtract(problem, code.multiply(image, self._classes))
            first = code.multiply(image, self._count)
            here = code.add(
                code.multiply(first, self._step), code.multiply(label, self._class_step)
            )
            boxes = code.at("float", self._boxes, here)
            start = code.add(code.multiply(first, self._classes), label)
            chosen = code.multiply(problem, self._limit)
            numbers = code.at("i32", self._numbers, chosen)
            values = code.at("float", self._values, chosen)
            self._fill(code.at("float", self._scores, start))
            code.set(self._selected, 0)
            if self._rule is Rule.SOFT:
                code.clear(self._starts, code.multiply(self._count, 4))
            with code.turns() as go_on_if:
                go_on_if(code.compare("slt", code.get(self._selected), self._limit))
                go_on_if(code.compare("sgt", code.get(self._size), 0))
                self._look_at_best(boxes, numbers, values)
            self._store("i32", code.get(self._selected), self._counts, problem)
        return code.module()

    def _look_at_best(self, boxes: str, numbers: str, values: str) -> None:
        """Selects the first candidate, leaves it out, or puts it back with its lowered score."""
        code = self._code
        key = code.load("i64", self._heap)
        number = code.let(f"and i64 {code.let(f'xor i64 {key}, -1')}, {0xFFFFFFFF}")
        row = code.at("float", boxes, code.multiply(number, self._step))
        next_key = code.variable("i64")
        code.set(next_key, _LEAST_KEY)
        if self._rule is Rule.MATRIX:
            with code.unless(self._is_above(row, numbers)):
                self._select(number, numbers)
        else:
            box = self._corners(row)
            if self._rule is Rule.SOFT:
                self._lower(key, number, box, next_key, numbers, values)
            else:
                with code.unless(self._overlaps(box)):
                    self._keep(box)
                    self._select(number, numbers)
        is_left = code.compare("eq", code.get(next_key), _LEAST_KEY)
        with code.when(is_left):
            rest = code.subtract(code.get(self._size), 1)
            code.set(self._size, rest)
            last = code.at("i64", self._heap, rest)
            code.set(next_key, code.load("i64", last))
            code.store("i64", _LEAST_KEY, last)
        self._sink(0, code.get(next_key))

    def _fill(self, scores: str) -> None:
        """Makes the heap of the candidates, with a least key behind it."""
        code = self._code
        code.set(self._size, 0)
        with code.loop(0, self._count) as number:
            score = self._load(scores, code.multiply(number, self._classes))
            size = code.get(self._size)
            place = code.at("i64", self._heap, size)
            code.store("i64", self._key(score, number), place)
            is_candidate = code.let(f"fcmp ogt float {score}, {self._least}")
            code.set(self._size, code.add(size, code.let(f"zext i1 {is_candidate} to i64")))
        size = code.get(self._size)
        code.store("i64", _LEAST_KEY, code.at("i64", self._heap, size))
        half = code.let(f"lshr i64 {size}, 1")
        with code.loop(0, half) as turn:
            node = code.subtract(code.subtract(half, 1), turn)
            self._sink(node, code.load("i64", code.at("i64", self._heap, node)))

    def _sink(self, place: str | int, key: str) -> None:
        """Puts a key into the heap at a free place or, in exchange for larger ones, below it."""
        code = self._code
        free = code.variable("i64")
        code.set(free, place)
        size = code.get(self._size)
        with code.turns() as go_on_if:
            hole = code.get(free)
            left = code.add(code.let(f"shl i64 {hole}, 1"), 1)
            go_on_if(code.compare("slt", left, size))
            # The right one may be the least key behind the heap.
            here = code.at("i64", self._heap, left)
            first, second = code.load("i64", here), code.load("i64", code.at("i64", here, 1))
            is_second = code.compare("sgt", second, first)
            larger = code.select(is_second, second, first)
            go_on_if(code.compare("sgt", larger, key))
            code.store("i64", larger, code.at("i64", self._heap, hole))
            code.set(free, code.add(left, code.let(f"zext i1 {is_second} to i64")))
        code.store("i64", key, code.at("i64", self._heap, code.get(free)))

    def _key(self, score: str, number: str) -> str:
        code = self._code
        equal_zeros = code.let(f"fadd float {score}, 0.0")
        bits = self._ordered(code.let(f"bitcast float {equal_zeros} to i32"))
        high = code.let(f"shl i64 {code.let(f'sext i32 {bits} to i64')}, 32")
        low = code.let(f"xor i64 {number}, {0xFFFFFFFF}")
        return code.let(f"or i64 {high}, {low}")

    def _ordered(self, bits: str) -> str:
        """The bits of numbers in their order: those of negative ones count backwards; and back."""
        sign = self._code.let(f"ashr i32 {bits}, 31")
        flipped = self._code.let(f"and i32 {sign}, {0x7FFFFFFF}")
        return self._code.let(f"xor i32 {bits}, {flipped}")

    def _corners(self, row: str) -> list[str]:
        """Returns y1, x1, y2, x2 with the lower ones first, and the area of the box at a place."""
        values = [self._load(row, n) for n in range(4)]
        low = [self._extreme("olt", values[n], values[n + 2], "float", "i1") for n in range(2)]
        high = [self._extreme("ogt", values[n], values[n + 2], "float", "i1") for n in range(2)]
        height, width = (self._code.let(f"fsub float {high[n]}, {low[n]}") for n in range(2))
        return [*low, *high, self._code.let(f"fmul float {height}, {width}")]

    def _overlap(self, a: list[str], b: list[str], kind: str, truth: str) -> str:
        """Intersection over union of boxes as `_corners` returns; 0 if an area is not positive."""
        code = self._code
        sides = []
        for n in range(2):
            end = self._extreme("olt", a[n + 2], b[n + 2], kind, truth)
            begin = self._extreme("ogt", a[n], b[n], kind, truth)
            side = code.let(f"fsub {kind} {end}, {begin}")
            sides.append(self._extreme("ogt", side, "zeroinitializer", kind, truth))
        common = code.let(f"fmul {kind} {sides[0]}, {sides[1]}")
        both = code.let(f"fadd {kind} {b[4]}, {a[4]}")
        union = code.let(f"fsub {kind} {both}, {common}")
        share = code.let(f"fdiv {kind} {common}, {union}")
        first, second = (code.let(f"fcmp ogt {kind} {x[4]}, zeroinitializer") for x in (a, b))
        are_positive = code.let(f"and {truth} {first}, {second}")
        return code.let(f"select {truth} {are_positive}, {kind} {share}, {kind} zeroinitializer")

    def _extreme(self, relation: str, a: str, b: str, kind: str, truth: str) -> str:
        is_first = self._code.let(f"fcmp {relation} {kind} {a}, {b}")
        return self._code.let(f"select {truth} {is_first}, {kind} {a}, {kind} {b}")

    def _overlaps(self, box: list[str]) -> str:
        """Whether a box is left out because of a selected one."""
        code, vectors = self._code, self._vectors
        mine = [vectors.splat(each) for each in box]
        threshold = vectors.splat(self._threshold)
        relation = "ogt" if self._rule is Rule.ABOVE else "ugt"

        def are_above(place: str) -> str:
            theirs = [vectors.load(each, place) for each in self._kept]
            overlap = self._overlap(mine, theirs, vectors.kind, vectors.truth)
            above = code.let(f"fcmp {relation} {vectors.kind} {overlap}, {threshold}")
            return code.call(
                "i1", f"llvm.vector.reduce.or.v{vectors.lanes}i1", (vectors.truth, above)
            )

        return self._any_selected(are_above, vectors.lanes)

    def _is_above(self, row: str, numbers: str) -> str:
        """Whether an overlap in a row of the matrix with a selected box is above the threshold."""

        def is_above(place: str) -> str:
            overlap = self._load(row, self._code.load_index("i32", numbers, place))
            return self._code.let(f"fcmp ogt float {overlap}, {self._threshold}")

        return self._any_selected(is_above, 1)

    def _any_selected(self, test: Callable[[str], str], step: int) -> str:
        """Whether a test holds for a selected box; it looks at `step` boxes from a place on."""
        code = self._code
        found, place = code.variable("i1"), code.variable("i64")
        code.set(found, "false", "i1")
        code.set(place, 0)
        with code.turns() as go_on_if:
            now = code.get(place)
            go_on_if(code.compare("slt", now, code.get(self._selected)))
            holds = test(now)
            code.set(found, holds, "i1")
            go_on_if(code.negated(holds))
            code.set(place, code.add(now, step))
        return code.get(found, "i1")

    def _lower(
        self, key: str, number: str, box: list[str], next_key: str, numbers: str, values: str
    ) -> None:
        """Lowers a score for the boxes selected since the last time; selects it if unchanged."""
        code = self._code
        bits = self._ordered(code.let(f"trunc i64 {code.let(f'ashr i64 {key}, 32')} to i32"))
        before = code.let(f"bitcast i32 {bits} to float")
        score, place = code.variable("float"), code.variable("i64")
        code.set(score, before, "float")
        code.set(place, code.get(self._selected))
        seen = code.load_index("i32", self._starts, number)
        with code.turns() as go_on_if:
            now = code.get(place)
            go_on_if(code.compare("sgt", now, seen))
            at = code.subtract(now, 1)
            code.set(place, at)
            theirs = [self._load(each, at) for each in self._kept]
            overlap = self._overlap(box, theirs, "float", "i1")
            is_within = code.let(f"fcmp ole float {overlap}, {self._threshold}")
            with code.unless(is_within):
                code.set(score, constant(float("nan"), "float"), "float")
            go_on_if(is_within)
            with code.when(code.let(f"fcmp one float {overlap}, 0.0")):
                scaled = code.let(f"fmul float {self._scale}, {overlap}")
                weight = self._exp(code.let(f"fmul float {scaled}, {overlap}"))
                lower = code.let(f"fmul float {code.get(score, 'float')}, {weight}")
                code.set(score, lower, "float")
            now_score = code.get(score, "float")
            go_on_if(code.let(f"fcmp ogt float {now_score}, {self._least}"))
        after = code.get(score, "float")
        self._store("i32", code.get(self._selected), self._starts, number)
        is_unchanged = code.let(f"fcmp oeq float {after}, {before}")
        with code.when(is_unchanged):
            self._store("float", after, values, code.get(self._selected))
            self._keep(box)
            self._select(number, numbers)
        is_candidate = code.let(f"fcmp ogt float {after}, {self._least}")
        with code.when(code.both(code.negated(is_unchanged), is_candidate)):
            code.set(next_key, self._key(after, number))

    def _keep(self, box: list[str]) -> None:
        """Writes the coordinates of a box behind those of the selected ones."""
        code, vectors = self._code, self._vectors
        place = code.get(self._selected)
        rest = code.let(f"and i64 {place}, {vectors.lanes - 1}")
        with code.when(code.compare("eq", rest, 0)):
            # Without an area, the lanes behind the last selected box overlap nothing.
            for each in self._kept:
                vectors.store("zeroinitializer", each, place)
        for each, value in zip(self._kept, box, strict=True):
            self._store("float", value, each, place)

    def _select(self, number: str, numbers: str) -> None:
        place = self._code.get(self._selected)
        self._store("i32", number, numbers, place)
        self._code.set(self._selected, self._code.add(place, 1))

    def _exp(self, value: str) -> str:
        """Returns exp of a float32 ≤ 0, rounded once: computed as 2^n · exp(rest) in float64."""
        code = self._code
        given = code.let(f"fpext float {value} to double")
        smallest = constant(_SMALLEST_EXPONENT, "double")
        is_small = code.let(f"fcmp ule double {given}, {smallest}")
        wide = code.let(f"select i1 {is_small}, double {smallest}, double {given}")
        ratio = code.let(f"fmul double {wide}, {constant(1 / log(2), 'double')}")
        whole = code.call("double", "llvm.rint.f64", ("double", ratio))
        part = code.let(f"fmul double {whole}, {constant(log(2), 'double')}")
        rest = code.let(f"fsub double {wide}, {part}")
        total = constant(1 / factorial(_TERMS), "double")
        for power in reversed(range(_TERMS)):
            product = code.let(f"fmul double {total}, {rest}")
            term = constant(1 / factorial(power), "double")
            total = code.let(f"fadd double {product}, {term}")
        exponent = code.let(f"fptosi double {whole} to i64")
        bits = code.let(f"shl i64 {code.add(exponent, 1023)}, 52")
        power_of_two = code.let(f"bitcast i64 {bits} to double")
        result = code.let(f"fmul double {total}, {power_of_two}")
        return code.let(f"fptrunc double {result} to float")

    def _load(self, base: str, index: str | int) -> str:
        return self._code.load("float", self._code.at("float", base, index), 4)

    def _store(self, kind: str, value: str, base: str, index: str | int) -> None:
        short = self._code.let(f"trunc i64 {value} to i32") if kind == "i32" else value
        self._code.store(kind, short, self._code.at(kind, base, index), 4)
