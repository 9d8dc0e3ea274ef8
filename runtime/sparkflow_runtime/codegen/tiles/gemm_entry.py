"""How Python calls a matrix product: inspects three arrays, sets up the product and runs it.

Like `entry`, but strides are read, too: a factor may be in either order, may be a slice of a larger
matrix, and may broadcast along a stack's dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from sparkflow_runtime.codegen.machine import denormals, entry
from sparkflow_runtime.codegen.machine.host import (
    DATA,
    DIMENSIONS,
    DIMENSIONS_NUMBER,
    FLAGS,
    STRIDES,
)
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.codegen.tiles.gemm_form import Size

DESCRIPTOR: Final = 56
"""Offset of an array's dtype, like those in `host`."""
_ALIGNED: Final = 0x100
"""The bit of an array's flags for aligned elements."""
_OBJECT_TYPE: Final = 8
PART_WORK: Final = 200_000
"""Multiplications that justify a thread: four microseconds, while waking one may cost 20."""
TURNED_MOST: Final = 16
"""Maximum rows and columns of a right factor for which transposing it by elements pays off."""
RELEASE_WORK: Final = 1_000_000
"""Multiplications from which the GIL is released: about 20 microseconds."""


_NEXT: Final = (Size.LEFT_NEXT, Size.RIGHT_NEXT, Size.OUT_NEXT)
_JUMPS: Final = (Size.LEFT_JUMP, Size.RIGHT_JUMP, Size.OUT_JUMP)


class Field(IntEnum):
    """Fields of the record of a bound product.

    Attributes:
        SHIFT: Binary logarithm of the element size in bytes.
        TURNS_LEFT, TURNS_RIGHT: 1 if the factor is transposed first.
        ADDS: 1 if the product is added to the result.
        SMALL_BODY: The body for products whose sizes are at most SMALL_MOST.
    """

    BODY = 0
    RUN_PARTS = 1
    POOL = 2
    THREADS = 3
    DESCRIPTOR = 4
    SHIFT = 5
    TURNS_LEFT = 6
    TURNS_RIGHT = 7
    ARRAY_TYPE = 8
    TRUE = 9
    FALSE = 10
    INCREMENT = 11
    SAVE_THREAD = 12
    RESTORE_THREAD = 13
    ADDS = 14
    SMALL_BODY = 15
    SMALL_MOST = 16


_SIGNATURE: Final = (
    "define internal void @describe(ptr %record, ptr %args, i64 %nargs, ptr %sizes, ptr %arrays, "
    "ptr %result)"
)


def text() -> str:
    """Returns the module: `entry`, a METH_FASTCALL function whose `self` is the record's array."""
    return f"{_describe()}\n{_ENTRY}"


_ENTRY: Final = f"""{entry.RUN_PART}{denormals.text()}
define ptr @entry(ptr %self, ptr %args, i64 %nargs) {{
  %at_record = getelementptr i8, ptr %self, i64 {DATA}
  %record = load ptr, ptr %at_record
  %sizes = alloca [{len(Size)} x i64]
  %arrays = alloca [4 x ptr]
  %result = alloca [3 x i64]
  %given = alloca %arguments
  store i64 0, ptr %result
  call void @describe(ptr %record, ptr %args, i64 %nargs, ptr %sizes, ptr %arrays, ptr %result)
  %at_increment = getelementptr i64, ptr %record, i64 {Field.INCREMENT.value}
  %increment = load ptr, ptr %at_increment
  %parts = load i64, ptr %result
  %refused = icmp eq i64 %parts, 0
  br i1 %refused, label %refuse, label %accept

refuse:
  %at_false = getelementptr i64, ptr %record, i64 {Field.FALSE.value}
  %false = load ptr, ptr %at_false
  call void %increment(ptr %false)
  ret ptr %false

accept:
  %at_releases = getelementptr i64, ptr %result, i64 1
  %releases_number = load i64, ptr %at_releases
  %releases = icmp ne i64 %releases_number, 0
  br i1 %releases, label %release, label %go

release:
  %at_save = getelementptr i64, ptr %record, i64 {Field.SAVE_THREAD.value}
  %save = load ptr, ptr %at_save
  %state = call ptr %save()
  br label %go

go:
  %thread = phi ptr [null, %accept], [%state, %release]
  %denormals = call i64 @flush_denormals()
  %at_body = getelementptr i64, ptr %result, i64 2
  %body = load ptr, ptr %at_body
  %serial = icmp eq i64 %parts, 1
  br i1 %serial, label %alone, label %together

alone:
  call void %body(ptr %sizes, ptr %arrays, i64 0, i64 0, i64 0)
  br label %done

together:
  %at_run = getelementptr i64, ptr %record, i64 {Field.RUN_PARTS.value}
  %run = load ptr, ptr %at_run
  %at_pool = getelementptr i64, ptr %record, i64 {Field.POOL.value}
  %pool = load ptr, ptr %at_pool
  {entry.run_parts("%run", "%pool", "%body", "%sizes", "%arrays", "0", "%parts")}
  br label %done

done:
  call void @restore_denormals(i64 %denormals)
  br i1 %releases, label %restore, label %accepted

restore:
  %at_restore = getelementptr i64, ptr %record, i64 {Field.RESTORE_THREAD.value}
  %restore_thread = load ptr, ptr %at_restore
  call void %restore_thread(ptr %thread)
  br label %accepted

accepted:
  %at_true = getelementptr i64, ptr %record, i64 {Field.TRUE.value}
  %true = load ptr, ptr %at_true
  call void %increment(ptr %true)
  ret ptr %true
}}
"""


def _describe() -> str:
    """Returns `describe`, which fills sizes, arrays and three results.

    The results are the number of parts (0: refused), 1 if the GIL is to be released, and the body.
    """
    return _Describing().text()


class _Matrices:
    """The registers that hold the fields of one array."""

    def __init__(self, code: Code, item: str, shift: str) -> None:
        self._code = code
        self.rank = code.let(
            f"sext i32 {code.load('i32', self._at(item, DIMENSIONS_NUMBER), 4)} to i64"
        )
        self._dims = code.load("ptr", self._at(item, DIMENSIONS))
        self._strides = code.load("ptr", self._at(item, STRIDES))
        self.data = code.load("ptr", self._at(item, DATA))
        self._shift = shift

    def _at(self, item: str, offset: int) -> str:
        return self._code.at("i8", item, offset)

    def dim(self, number: Value) -> str:
        """Returns the size of a dimension."""
        return self._code.load("i64", self._code.at("i64", self._dims, number))

    def stride(self, number: Value) -> str:
        """Returns the stride of a dimension in elements."""
        stride = self._code.load("i64", self._code.at("i64", self._strides, number))
        return self._code.let(f"ashr i64 {stride}, {self._shift}")

    def in_stack(self, back: Value, size: str) -> tuple[str, str]:
        """Returns the stride of a dimension counted from the end, and whether its size fits.

        An array with size 1 there, or without the dimension, broadcasts.
        """
        code = self._code
        number = code.subtract(code.subtract(self.rank, 1), back)
        there = code.compare("sge", number, 0)
        place = code.larger(number, 0)
        dim = code.select(there, self.dim(place), 1)
        is_one = code.compare("eq", dim, 1)
        fits = code.either(is_one, code.compare("eq", dim, size))
        return code.select(is_one, 0, self.stride(place)), fits


@dataclass(frozen=True, slots=True)
class _Stack:
    """The registers that describe a stack of products, see `Size`.

    Attributes:
        count: Number of products.
        group: Number of products at a constant stride.
        steps: Strides within a group: left, right, out.
        jumps: Strides between groups.
        fits: Whether the stack has this layout, and the factors' stacks fit the result's.
    """

    count: Value
    group: str
    steps: Sequence[str]
    jumps: Sequence[str]
    fits: str


class _Describing:
    def __init__(self) -> None:
        self._code = Code()

    def _field(self, field: Field) -> str:
        return self._code.load("i64", self._code.at("i64", "%record", field))

    def _both(self, *conditions: str) -> str:
        found, *others = conditions
        for other in others:
            found = self._code.both(found, other)
        return found

    def text(self) -> str:
        code = self._code
        self._scales = code.compare("eq", "%nargs", 4)
        with code.when(code.either(code.compare("eq", "%nargs", 3), self._scales)):
            items = [code.load("ptr", code.at("ptr", "%args", i)) for i in range(3)]
            kind = self._field(Field.ARRAY_TYPE)
            types = [code.load("i64", code.at("i8", item, _OBJECT_TYPE)) for item in items]
            with code.when(self._both(*(code.compare("eq", each, kind) for each in types))):
                self._look(items)
        return code.module(_SIGNATURE)

    def _look(self, items: list[str]) -> None:
        code = self._code
        wanted = self._field(Field.DESCRIPTOR)
        fits = []
        for item in items:
            descriptor = code.load("i64", code.at("i8", item, DESCRIPTOR))
            fits.append(code.compare("eq", descriptor, wanted))
            flags = code.load("i32", code.at("i8", item, FLAGS), 4)
            aligned = code.let(f"and i32 {flags}, {_ALIGNED}")
            fits.append(code.let(f"icmp ne i32 {aligned}, 0"))
        shift = self._field(Field.SHIFT)
        matrices = [_Matrices(code, item, shift) for item in items]
        fits += [code.compare("sge", each.rank, 2) for each in matrices]
        with code.when(self._both(*fits)):
            self._measure(matrices)

    def _measure(self, matrices: list[_Matrices]) -> None:
        code = self._code
        dims, strides = [], []
        for each in matrices:
            last, before = code.subtract(each.rank, 1), code.subtract(each.rank, 2)
            dims.append((each.dim(before), each.dim(last)))
            strides.append((each.stride(before), each.stride(last)))
        for number, turned in ((0, Field.TURNS_LEFT), (1, Field.TURNS_RIGHT)):
            turns = code.compare("ne", self._field(turned), 0)
            for pairs in (dims, strides):
                a, b = pairs[number]
                pairs[number] = (code.select(turns, b, a), code.select(turns, a, b))
        (m, k), (depth, n), (rows, columns) = dims
        stack = self._stack(matrices)
        fits = [
            code.compare("eq", k, depth),
            code.compare("eq", m, rows),
            code.compare("eq", n, columns),
            code.compare("sgt", k, 0),
            # Matrix-vector products are memory-bound: BLAS is as fast.
            code.compare("sgt", m, 1),
            code.compare("sgt", n, 1),
            code.compare("sgt", stack.count, 0),
            code.compare("eq", strides[2][1], 1),
            stack.fits,
            *(code.compare("sle", each.rank, matrices[2].rank) for each in matrices[:2]),
        ]
        is_small = self._is_small((m, n, k), strides[1][1])
        for pair in strides[:2]:
            ones = [code.compare("eq", each, 1) for each in pair]
            fits.append(code.either(ones[0], ones[1]))
        with code.when(self._both(*fits)):
            for number, each in enumerate(matrices):
                code.store("ptr", each.data, code.at("ptr", "%arrays", number))
            given = {
                Size.M: m,
                Size.N: n,
                Size.K: k,
                Size.LEFT_ROW: strides[0][0],
                Size.LEFT_DEPTH: strides[0][1],
                Size.RIGHT_DEPTH: strides[1][0],
                Size.RIGHT_COLUMN: strides[1][1],
                Size.OUT_ROW: strides[2][0],
                Size.COUNT: stack.count,
                Size.GROUP: stack.group,
            }
            given |= dict(zip(_NEXT, stack.steps, strict=True))
            given |= dict(zip(_JUMPS, stack.jumps, strict=True))
            for field, value in given.items():
                self._say(field, value)
            self._say(Size.ADDS, self._field(Field.ADDS))
            self._say(Size.SCALES, code.let(f"zext i1 {self._scales} to i64"))
            with code.when(self._scales):
                scale = code.load("ptr", code.at("ptr", "%args", 3))
                at_data = code.at("i8", scale, DATA)
                code.store("ptr", code.load("ptr", at_data), code.at("ptr", "%arrays", 3))
            self._split(m, n, k, stack.count, is_small)

    def _is_small(self, sizes: tuple[str, str, str], right_column: str) -> str:
        """Whether the body for small products handles it."""
        code = self._code
        m, n, k = sizes
        largest = code.larger(m, code.larger(n, k))
        # The other body would copy the right factor line by line, faster than transposing it.
        is_in_order = code.compare("eq", right_column, 1)
        most = code.select(is_in_order, self._field(Field.SMALL_MOST), TURNED_MOST)
        is_plain = code.negated(self._scales)
        replaces = code.compare("eq", self._field(Field.ADDS), 0)
        return self._both(code.compare("sle", largest, most), is_plain, replaces)

    def _say(self, field: Size, value: Value) -> None:
        self._code.store("i64", value, self._code.at("i64", "%sizes", field))

    def _stack(self, matrices: Sequence[_Matrices]) -> _Stack:
        """Merges the dimensions of a stack, as far as all arrays traverse them in the same way.

        At most two are left: a transposed [rows, length, heads, width] has two.
        """
        code = self._code
        group, groups = code.variable("i64", 1), code.variable("i64", 1)
        steps = [code.variable("i64", 0) for _ in matrices]
        jumps = [code.variable("i64", 0) for _ in matrices]
        fits = code.variable("i1", 1)
        out = matrices[2]
        with code.loop(2, out.rank) as back:
            size = out.dim(code.subtract(code.subtract(out.rank, 1), back))
            found = [each.in_stack(back, size) for each in matrices]
            inner, outer = code.get(group), code.get(groups)
            is_first, is_inside = code.compare("eq", inner, 1), code.compare("eq", outer, 1)
            within, beyond = (
                self._both(
                    *(
                        code.compare("eq", stride, code.multiply(code.get(step), count))
                        for (stride, _), step in zip(found, held, strict=True)
                    )
                )
                for held, count in ((steps, inner), (jumps, outer))
            )
            grows = code.either(is_first, code.both(is_inside, within))
            is_second = code.both(code.negated(grows), is_inside)
            even = code.either(code.either(grows, is_second), beyond)
            # Strides along a dimension of size 1 do not matter.
            matters = code.compare("ne", size, 1)
            fitting = [code.get(fits, "i1"), *(each for _, each in found)]
            even = code.either(even, code.negated(matters))
            code.set(fits, self._both(*fitting, even), "i1")
            for condition, held in ((is_first, steps), (is_second, jumps)):
                sets = code.both(condition, matters)
                for variable, (stride, _) in zip(held, found, strict=True):
                    code.set(variable, code.select(sets, stride, code.get(variable)))
            code.set(group, code.select(grows, code.multiply(inner, size), inner))
            code.set(groups, code.select(grows, outer, code.multiply(outer, size)))
        inner, outer = code.get(group), code.get(groups)
        return _Stack(
            code.multiply(inner, outer),
            inner,
            [code.get(each) for each in steps],
            [code.get(each) for each in jumps],
            code.get(fits, "i1"),
        )

    def _split(self, m: str, n: str, k: str, count: Value, is_small: str) -> None:
        """Chooses the parts: whole products, or else the split with the fewest copies."""
        code = self._code
        each = code.multiply(code.multiply(m, n), k)
        work = code.multiply(each, count)
        worth = code.larger(code.let(f"sdiv i64 {work}, {PART_WORK}"), 1)
        parts = code.smaller(self._field(Field.THREADS), worth)
        rest = code.let(f"srem i64 {count}, {parts}")
        even = code.compare("eq", rest, 0)
        many = code.compare("sge", count, code.multiply(parts, 4))
        small = code.compare("slt", each, code.multiply(parts, PART_WORK))
        whole = code.either(even, many)
        whole = code.either(whole, small)
        bodies = self._field(Field.SMALL_BODY), self._field(Field.BODY)
        code.store("i64", code.select(is_small, *bodies), code.at("i64", "%result", 2))
        whole = code.either(whole, is_small)
        count_parts = code.select(whole, code.smaller(parts, count), 1)
        within = code.select(whole, 1, parts)
        best = code.variable("i64", 1)
        least = code.variable("i64", (1 << 63) - 1)
        with code.loop(1, code.add(within, 1)) as row_parts:
            divides = code.compare("eq", code.let(f"srem i64 {within}, {row_parts}"), 0)
            column_parts = code.let(f"sdiv i64 {within}, {row_parts}")
            # Each part of the rows copies the whole right factor, and vice versa.
            cost = code.add(code.multiply(row_parts, n), code.multiply(column_parts, m))
            better = self._both(divides, code.compare("slt", cost, code.get(least)))
            code.set(best, code.select(better, row_parts, code.get(best)))
            code.set(least, code.select(better, cost, code.get(least)))
        row_parts = code.get(best)
        column_parts = code.let(f"sdiv i64 {within}, {row_parts}")
        self._say(Size.COUNT_PARTS, count_parts)
        self._say(Size.ROW_PARTS, row_parts)
        self._say(Size.COLUMN_PARTS, column_parts)
        code.store("i64", code.multiply(count_parts, within), "%result")
        is_long = code.compare("sgt", work, RELEASE_WORK)
        long_number = code.let(f"zext i1 {is_long} to i64")
        code.store("i64", long_number, code.at("i64", "%result", 1))
