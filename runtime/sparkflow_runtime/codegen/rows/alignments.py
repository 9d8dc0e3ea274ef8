"""The sums over alignments of connectionist temporal classification (Graves et al. 2006).

A sequence of labels is aligned with times by repeating labels and by blanks before, between and
after them. `_Writer` adds up the probabilities of all alignments, per example, in float64 and as
logarithms, which neither overflow nor underflow: forwards up to each time and position, then
backwards, where the products give the occupancy of every class and thereby the gradient.

Positions are in two arrays, the labels and the blanks; blank i precedes label i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import host, native, scratch, threads
from sparkflow_runtime.codegen.machine.entry import NOT_COUNTED
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value, Vectors, constant
from sparkflow_runtime.codegen.rows.sparse_rows_update import joined
from sparkflow_runtime.dtypes import float64
from sparkflow_runtime.once import latest

Array = np.ndarray[Any, Any]
_ELEMENTS: Final = {"f": "float", "d": "double"}
_SIZE: Final = 8
"""Bytes of a number in scratch memory."""
_SHARED_NUMBERS: Final = 1 << 15
"""Smaller problems, counted in logits and positions, are solved by a single thread: 100 µs."""
_LONG_NUMBERS: Final = 1 << 11
"""Larger ones do not hold the GIL."""
_NOTHING: Final = constant(-math.inf, "double")
"""The logarithm of 0."""


def losses(
    inputs: Array, labels: Array, starts: Array, lengths: Array, merges: bool
) -> tuple[Array, Array] | None:
    """Computes minus the log probability of each example's labels, and its gradient.

    Args:
        inputs: [time, batch, classes] logits, not empty; the last class is the blank.
        labels: int32, the labels of all examples in order, in [0, classes - 1).
        starts: [batch + 1] int64, where the labels of each example begin, and their number.
        lengths: [batch] int64 in [0, time]; the loss and gradient of examples of length 0 are 0.
        merges: Whether repeated classes are merged.

    Returns:
        [batch] and [time, batch, classes]; where no alignment is possible, infinity and the
        probabilities. None if there is no machine code.
    """
    kind = _ELEMENTS.get(inputs.dtype.char)
    if kind is None or not inputs.dtype.isnative or not inputs.size or not native.available():
        return None
    inputs = np.ascontiguousarray(inputs)
    time, batch, classes = inputs.shape
    longest = int(np.diff(starts).max())
    lanes = host.host().lanes(float64)
    width = -(-(longest + 1) // lanes) * lanes
    numbers = batch * time * (classes + 4 * width)
    parts = min(threads.count(), batch) if numbers >= _SHARED_NUMBERS else 1
    run, memory_bytes = _bound(kind, merges, time, batch, classes, width, parts)
    memory = scratch.take(memory_bytes)
    loss = np.empty(batch, inputs.dtype)
    gradient = np.empty_like(inputs)
    if not run(inputs, labels, starts, lengths, loss, gradient, memory):
        return None
    for example in np.nonzero(np.isnan(loss))[0]:
        gradient[: lengths[example], example] = np.nan
    return loss, gradient


@latest(256)
def _bound(
    kind: str, merges: bool, time: int, batch: int, classes: int, width: int, parts: int
) -> tuple[Callable[..., bool], int]:
    """Returns the function, and the bytes of memory that it needs."""
    lanes = host.host().lanes(float64)
    line = width + 2 * lanes
    row = -(-classes // lanes) * lanes
    share = 2 * (time + 1) * line + time * (width + 1) + 3 * line + 2 * width + 2 * row
    logits = batch * time * classes
    numbers = logits + 4 * batch * time * width
    run = native.written_body(_text, (kind, merges)).bind(
        (time, batch, classes, width, line, row, share),
        (logits, NOT_COUNTED, batch + 1, batch, batch, logits, NOT_COUNTED),
        batch,
        parts,
        numbers >= _LONG_NUMBERS,
    )
    return run, parts * share * _SIZE


def _text(kind: str, merges: bool) -> str:
    return joined(_functions(), _Writer(kind, merges).text())


def _functions() -> str:
    """Returns the functions `exp` and `log` of vectors that fill a register."""
    from llvmlite import ir

    from sparkflow_runtime.codegen.cpu import maths

    module = ir.Module(context=ir.Context())
    kind = maths.type_of(float64, host.host().lanes(float64))
    for name in ("exp", "log"):
        function = ir.Function(module, ir.FunctionType(kind, [kind]), name=name)
        function.linkage = "internal"
        function.attributes.add("alwaysinline")
        builder = ir.IRBuilder(function.append_basic_block())
        builder.ret(maths.emit(builder, name, float64, *function.args))
    return "\n".join(str(each) for each in module.globals.values())


class _Writer:
    """Writes the function that processes some of the examples.

    Args:
        kind: LLVM's type of logits and results.
        merges: See `losses`.
    """

    def __init__(self, kind: str, merges: bool) -> None:
        self._code = code = Code()
        self._kind = kind
        self._merges = merges
        self._vectors = Vectors.whole(code, "double")
        self._lanes = self._vectors.lanes
        self._given = Vectors(code, kind, self._lanes)
        self._time, self._batch, self._classes, self._width, self._line, self._row, share = (
            code.sizes(7)
        )
        self._inputs, self._labels, self._starts, self._lengths, self._loss, self._out, memory = (
            code.arrays(7)
        )
        self._blank = code.subtract(self._classes, 1)
        self._free = code.at("double", memory, code.multiply("%part", share))
        lines = code.multiply(code.add(self._time, 1), self._line)
        self._ahead_labels, self._ahead_blanks = (self._take(lines) for _ in range(2))
        self._emitted = self._take(code.multiply(self._time, self._width))
        self._emitted_blanks = self._take(self._time)
        self._back_labels, self._back_blanks, self._skips = (
            self._take(self._line) for _ in range(3)
        )
        self._occupied, self._likely = (self._take(self._width) for _ in range(2))
        self._by_class, self._powers = (self._take(self._row) for _ in range(2))
        self._first: Value = 0
        self._count: Value = 0

    def text(self) -> str:
        """Returns the module, without the functions that it calls."""
        code = self._code
        with code.loop("%lo", "%hi") as example:
            self._first = code.load("i64", code.at("i64", self._starts, example))
            after = code.load("i64", code.at("i64", self._starts, code.add(example, 1)))
            self._count = code.subtract(after, self._first)
            length = code.load("i64", code.at("i64", self._lengths, example))
            with code.loop(length, self._time) as t:
                bytes_each = 4 if self._kind == "float" else 8
                line = code.at(self._kind, self._out, self._place(t, example))
                code.clear(line, code.multiply(self._classes, bytes_each))
            is_empty = code.compare("eq", length, 0)
            with code.when(is_empty):
                self._give("0.0", code.at(self._kind, self._loss, example))
            with code.unless(is_empty):
                self._example(example, length)
        return code.module()

    def _example(self, example: str, length: str) -> None:
        code = self._code
        self._find_skips()
        missing = code.variable("double", "0.0")
        with code.loop(0, length) as t:
            normaliser = self._softmax(t, self._place(t, example))
            none = code.let(f"fmul double {normaliser}, 0.0")
            so_far = code.get(missing, "double")
            code.set(missing, code.let(f"fadd double {so_far}, {none}"), "double")
        self._forwards(length)
        ends = [
            self._vectors.broadcast(
                lines,
                code.add(
                    code.multiply(length, self._line),
                    code.add(self._count, self._lanes - back),
                ),
            )
            for lines, back in ((self._ahead_labels, 1), (self._ahead_blanks, 0))
        ]
        total = self._element(self._log_sum(ends))
        # Sums of logarithms lose NaN, so it is added: not a number times 0
        total = code.let(f"fadd double {total}, {code.get(missing, 'double')}")
        loss = code.let(f"fneg double {total}")
        self._give(loss, code.at(self._kind, self._loss, example))
        is_possible = code.let(f"fcmp une double {total}, {_NOTHING}")
        with code.when(is_possible):
            self._backwards(example, length, self._vectors.splat(total))

    def _find_skips(self) -> None:
        """Sets `_skips`: 0 where a label may follow the one before without a blank, else -inf."""
        code, lanes = self._code, self._lanes
        first = self._vectors.constant(0.0 if not self._merges else -math.inf)
        self._fill(self._skips, first)
        if not self._merges:
            return
        with code.loop(1, self._count) as i:
            here, before = (
                self._label(code.add(self._first, place)) for place in (i, code.subtract(i, 1))
            )
            differs = code.compare("ne", here, before)
            score = code.let(f"select i1 {differs}, double 0.0, double {_NOTHING}")
            code.store("double", score, code.at("double", self._skips, code.add(i, lanes)))

    def _softmax(self, t: str, line: Value) -> str:
        """Writes the probabilities at one time to the result, and the labels' logarithms.

        Args:
            t: The time.
            line: Where the logits and results of this time and example begin.

        Returns:
            The logarithm of the sum of exp(logit - largest logit).
        """
        code, vectors = self._code, self._vectors
        source, target = (code.at(self._kind, each, line) for each in (self._inputs, self._out))
        nothing = vectors.constant(-math.inf)
        largest = code.variable(vectors.kind, nothing)
        for place, mask in vectors.along(self._classes):
            x = self._widened(self._given.load(source, place, mask))
            if mask is not None:
                x = vectors.select(mask, x, nothing)
            vectors.store(x, self._powers, place)
            code.set(largest, self._larger(x, code.get(largest, vectors.kind)), vectors.kind)
        greatest = self._reduced("fmax", code.get(largest, vectors.kind))
        offset = vectors.splat(greatest)
        total = code.variable(vectors.kind, "zeroinitializer")
        with code.loop(0, self._row, self._lanes) as place:
            x = self._subtract(vectors.load(self._powers, place), offset)
            power = self._call("exp", x)
            vectors.store(power, self._powers, place)
            code.set(total, vectors.add(power, code.get(total, vectors.kind)), vectors.kind)
        sum_of_powers = vectors.splat(vectors.total(code.get(total, vectors.kind)))
        one = vectors.constant(1.0)
        inverse = code.let(f"fdiv {vectors.kind} {one}, {sum_of_powers}")
        for place, mask in vectors.along(self._classes):
            y = vectors.multiply(vectors.load(self._powers, place), inverse)
            self._given.store(self._narrowed(y), target, place, mask)
        normaliser = self._element(self._call("log", sum_of_powers))

        def log_likelihood(number: Value) -> str:
            x = code.load(self._kind, code.at(self._kind, source, number), 4)
            if self._kind == "float":
                x = code.let(f"fpext float {x} to double")
            x = code.let(f"fsub double {x}, {greatest}")
            return code.let(f"fsub double {x}, {normaliser}")

        blank = code.at("double", self._emitted_blanks, t)
        code.store("double", log_likelihood(self._blank), blank)
        emitted = code.at("double", self._emitted, code.multiply(t, self._width))
        with code.loop(0, self._count) as i:
            score = log_likelihood(self._label(code.add(self._first, i)))
            code.store("double", score, code.at("double", emitted, i))
        with code.loop(self._count, self._width) as i:
            code.store("double", _NOTHING, code.at("double", emitted, i))
        return normaliser

    def _forwards(self, length: str) -> None:
        """Fills line t + 1 of `_ahead_*` with the scores up to time t; line 0 is the start."""
        code, vectors, lanes = self._code, self._vectors, self._lanes
        nothing = vectors.constant(-math.inf)
        for lines in (self._ahead_labels, self._ahead_blanks):
            self._fill(lines, nothing)
        code.store("double", "0.0", code.at("double", self._ahead_blanks, lanes))
        with code.loop(0, length) as t:
            before = code.multiply(t, self._line)
            after = code.add(before, self._line)
            emitted = code.multiply(t, self._width)
            emitted_blank = vectors.broadcast(self._emitted_blanks, t)
            vectors.store(nothing, self._ahead_labels, after)
            with self._positions() as (i, at):
                here = code.add(before, at)
                labels = vectors.load(self._ahead_labels, here)
                previous = vectors.load(self._ahead_labels, code.subtract(here, 1))
                blanks = vectors.load(self._ahead_blanks, here)
                skipping = vectors.add(previous, vectors.load(self._skips, at))
                ways = [blanks, skipping, *([labels] if self._merges else [])]
                there = code.add(after, at)
                score = self._log_sum([blanks, previous])
                vectors.store(vectors.add(score, emitted_blank), self._ahead_blanks, there)
                emission = vectors.load(self._emitted, code.add(emitted, i))
                score = vectors.add(self._log_sum(ways), emission)
                vectors.store(score, self._ahead_labels, there)

    def _backwards(self, example: str, length: str, total: str) -> None:
        """Subtracts the occupancies from the result, from the last time to the first.

        `_back_*` hold the scores from a time to the end, before each step of the time after.
        """
        code, vectors, lanes = self._code, self._vectors, self._lanes
        nothing = vectors.constant(-math.inf)
        for line in (self._back_labels, self._back_blanks):
            self._fill(line, nothing)
        end = code.at("double", self._back_blanks, code.add(self._count, lanes))
        code.store("double", "0.0", end)
        blank_share = code.variable(vectors.kind)
        with code.loop(0, length) as turn:
            t = code.subtract(code.subtract(length, 1), turn)
            ahead = code.multiply(code.add(t, 1), self._line)
            emitted = code.multiply(t, self._width)
            emitted_blank = vectors.broadcast(self._emitted_blanks, t)
            code.set(blank_share, "zeroinitializer", vectors.kind)
            with self._positions() as (i, at):
                next_at = code.add(at, 1)
                labels, blanks = (
                    vectors.load(line, at) for line in (self._back_labels, self._back_blanks)
                )
                next_labels, next_blanks = (
                    vectors.load(line, next_at) for line in (self._back_labels, self._back_blanks)
                )
                skipping = vectors.add(next_labels, vectors.load(self._skips, next_at))
                ways = [next_blanks, skipping, *([labels] if self._merges else [])]
                of_blanks, of_labels = self._log_sum([blanks, labels]), self._log_sum(ways)
                vectors.store(vectors.add(of_blanks, emitted_blank), self._back_blanks, at)
                emission = vectors.load(self._emitted, code.add(emitted, i))
                vectors.store(vectors.add(of_labels, emission), self._back_labels, at)
                shares = [
                    self._call(
                        "exp",
                        self._subtract(
                            vectors.add(score, vectors.load(lines, code.add(ahead, at))), total
                        ),
                    )
                    for score, lines in (
                        (of_blanks, self._ahead_blanks),
                        (of_labels, self._ahead_labels),
                    )
                ]
                sum_so_far = code.get(blank_share, vectors.kind)
                code.set(blank_share, vectors.add(sum_so_far, shares[0]), vectors.kind)
                vectors.store(shares[1], self._occupied, i)
                vectors.store(self._call("exp", emission), self._likely, i)
            line = code.at(self._kind, self._out, self._place(t, example))
            likely = self._element(self._call("exp", emitted_blank))
            occupied = vectors.total(code.get(blank_share, vectors.kind))
            slope = code.let(f"fsub double {likely}, {occupied}")
            self._give(slope, code.at(self._kind, line, self._blank))
            self._subtract_by_class(line)

    def _subtract_by_class(self, line: str) -> None:
        """Writes the labels' gradients at one time; equal labels share theirs."""
        code = self._code

        def label_at(i: Value) -> str:
            return self._label(code.add(self._first, i))

        def number_of(label: str) -> str:
            return code.at("double", self._by_class, label)

        with code.loop(0, self._count) as i:
            code.store("double", "0.0", number_of(label_at(i)))
        with code.loop(0, self._count) as i:
            place = number_of(label_at(i))
            share = code.load("double", code.at("double", self._occupied, i))
            so_far = code.load("double", place)
            code.store("double", code.let(f"fadd double {so_far}, {share}"), place)
        with code.loop(0, self._count) as i:
            label = label_at(i)
            likely = code.load("double", code.at("double", self._likely, i))
            occupied = code.load("double", number_of(label))
            slope = code.let(f"fsub double {likely}, {occupied}")
            self._give(slope, code.at(self._kind, line, label))

    @contextmanager
    def _positions(self) -> Iterator[tuple[str, Value]]:
        """Loops over vectors of positions; yields the first one and its place in a line."""
        with self._code.loop(0, self._width, self._lanes) as i:
            yield i, self._code.add(i, self._lanes)

    def _log_sum(self, scores: list[str]) -> str:
        """The logarithm of the sum of the exponentials of two or three vectors."""
        code, vectors = self._code, self._vectors
        first, second = scores[:2]
        largest, others = self._larger(first, second), [self._smaller(first, second)]
        if len(scores) > 2:
            others.append(self._smaller(largest, scores[2]))
            largest = self._larger(largest, scores[2])
        total = vectors.constant(1.0)
        for other in others:
            total = vectors.add(total, self._call("exp", self._subtract(other, largest)))
        found = vectors.add(largest, self._call("log", total))
        nothing = vectors.constant(-math.inf)
        is_none = code.let(f"fcmp oeq {vectors.kind} {largest}, {nothing}")
        return vectors.select(is_none, nothing, found)

    def _take(self, count: Value) -> str:
        """Reserves scratch memory of this part for `count` numbers."""
        taken = self._free
        self._free = self._code.at("double", taken, count)
        return taken

    def _fill(self, line: str, value: str) -> None:
        """Fills a line, including the vector before its first position and that after the last."""
        with self._code.loop(0, self._line, self._lanes) as place:
            self._vectors.store(value, line, place)

    def _place(self, t: Value, example: Value) -> Value:
        """Where the classes of an example begin at a time."""
        code = self._code
        return code.multiply(code.add(code.multiply(t, self._batch), example), self._classes)

    def _label(self, number: Value) -> str:
        return self._code.load_index("i32", self._labels, number)

    def _give(self, value: str, address: str) -> None:
        """Stores a float64 as a result."""
        if self._kind == "float":
            value = self._code.let(f"fptrunc double {value} to float")
        self._code.store(self._kind, value, address, 4)

    def _widened(self, x: str) -> str:
        if self._kind == "double":
            return x
        return self._code.let(f"fpext {self._given.kind} {x} to {self._vectors.kind}")

    def _narrowed(self, x: str) -> str:
        if self._kind == "double":
            return x
        return self._code.let(f"fptrunc {self._vectors.kind} {x} to {self._given.kind}")

    def _call(self, function: str, x: str) -> str:
        kind = self._vectors.kind
        return self._code.let(f"call {kind} @{function}({kind} {x})")

    def _subtract(self, a: str, b: str) -> str:
        return self._code.let(f"fsub {self._vectors.kind} {a}, {b}")

    def _larger(self, a: str, b: str) -> str:
        condition = self._code.let(f"fcmp ogt {self._vectors.kind} {a}, {b}")
        return self._vectors.select(condition, a, b)

    def _smaller(self, a: str, b: str) -> str:
        condition = self._code.let(f"fcmp olt {self._vectors.kind} {a}, {b}")
        return self._vectors.select(condition, a, b)

    def _element(self, vector: str) -> str:
        """The first number of a vector."""
        return self._code.let(f"extractelement {self._vectors.kind} {vector}, i64 0")

    def _reduced(self, function: str, vector: str) -> str:
        v = self._vectors
        name = f"llvm.vector.reduce.{function}.{v.suffix}"
        return self._code.call("double", name, (v.kind, vector))
