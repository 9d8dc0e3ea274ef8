"""Writing functions in LLVM's assembly language: names, loops, branches, addresses, vectors."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine import host

SIGNATURE: Final = "define void @body(ptr %sizes, ptr %arrays, i64 %lo, i64 %hi, i64 %part)"
"""The signature that `native.body` expects."""

INDEX_KINDS: Final = {np.dtype(np.int32): "i32", np.dtype(np.int64): "i64"}
"""LLVM's type of the elements of an index array, by dtype."""
Value = str | int
"""A register's name or a whole number."""
WRITTEN_OUT: Final = 4
"""Up to this many whole vectors are unrolled; more use a loop."""


def constant(value: float, element: str) -> str:
    """Returns a number as an operand, rounded here: LLVM rejects inexact `float` literals."""
    rounded = float(np.float32(value)) if element == "float" else value
    return f"0x{struct.pack('>d', rounded).hex().upper()}"


class Code:
    """Builds the text of the function `body`, line by line.

    Variables are stack slots in the text; LLVM's optimiser promotes them to registers.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._variables: list[str] = []
        self._declared: dict[str, None] = {}
        self._count = 0

    def let(self, expression: str) -> str:
        """Assigns an expression to a new register."""
        name = self._new("v")
        self._lines.append(f"  %{name} = {expression}")
        return f"%{name}"

    def do(self, statement: str) -> None:
        """Emits a statement without a value."""
        self._lines.append(f"  {statement}")

    def add(self, a: Value, b: Value) -> Value:
        """`a + b`, int64."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        return a if b == 0 else b if a == 0 else self.let(f"add nsw i64 {a}, {b}")

    def subtract(self, a: Value, b: Value) -> Value:
        """`a - b`, int64."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.let(f"sub nsw i64 {a}, {b}")

    def multiply(self, a: Value, b: Value) -> Value:
        """`a · b`, int64."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if 0 in (a, b):
            return 0
        return a if b == 1 else b if a == 1 else self.let(f"mul nsw i64 {a}, {b}")

    def compare(self, relation: str, a: Value, b: Value) -> str:
        """Returns a truth value: `a` relation `b`, int64; relations as in `icmp`."""
        return self.let(f"icmp {relation} i64 {a}, {b}")

    def select(self, condition: str, a: Value, b: Value) -> str:
        """`a` if the condition holds, else `b`, int64."""
        return self.let(f"select i1 {condition}, i64 {a}, i64 {b}")

    def choose(self, condition: str, a: str, b: str) -> str:
        """`a` if the condition holds, else `b`, addresses."""
        return self.let(f"select i1 {condition}, ptr {a}, ptr {b}")

    def both(self, a: str, b: str) -> str:
        """Whether two conditions hold."""
        return self.let(f"and i1 {a}, {b}")

    def either(self, a: str, b: str) -> str:
        """Whether one of two conditions holds."""
        return self.let(f"or i1 {a}, {b}")

    def negated(self, condition: str) -> str:
        """Whether a condition does not hold."""
        return self.let(f"xor i1 {condition}, true")

    def smaller(self, a: Value, b: Value) -> str:
        """Returns the minimum, int64."""
        return self.select(self.compare("slt", a, b), a, b)

    def larger(self, a: Value, b: Value) -> str:
        """Returns the maximum, int64."""
        return self.select(self.compare("sgt", a, b), a, b)

    def at(self, kind: str, base: str, index: Value) -> str:
        """Returns the address of element `index` of an array of `kind`."""
        return base if index == 0 else self.let(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def load(self, kind: str, address: str, align: int = 8) -> str:
        """Loads the value at an address."""
        return self.let(f"load {kind}, ptr {address}, align {align}")

    def load_index(self, kind: str, base: str, index: Value) -> str:
        """Loads an element of an array of `i32` or `i64`, as int64."""
        found = self.load(kind, self.at(kind, base, index), int(kind[1:]) // 8)
        return found if kind == "i64" else self.let(f"sext {kind} {found} to i64")

    def store(self, kind: str, value: Value, address: str, align: int = 8) -> None:
        """Stores a value to an address."""
        self.do(f"store {kind} {value}, ptr {address}, align {align}")

    def sizes(self, count: int) -> list[str]:
        """Returns the first numbers in `%sizes`."""
        return [self.load("i64", self.at("i64", "%sizes", i)) for i in range(count)]

    def arrays(self, count: int) -> list[str]:
        """Returns the addresses of the call's first arrays."""
        return [self.load("ptr", self.at("ptr", "%arrays", i)) for i in range(count)]

    def variable(self, kind: str, value: Value | None = None) -> str:
        """Returns the address of a new variable, set here if a value is given."""
        name = f"%{self._new('a')}"
        self._variables.append(f"  {name} = alloca {kind}")
        if value is not None:
            self.do(f"store {kind} {value}, ptr {name}")
        return name

    def get(self, variable: str, kind: str = "i64") -> str:
        """Returns the value of a variable."""
        return self.let(f"load {kind}, ptr {variable}")

    def set(self, variable: str, value: Value, kind: str = "i64") -> None:
        """Assigns a value to a variable."""
        self.do(f"store {kind} {value}, ptr {variable}")

    @contextmanager
    def loop(self, start: Value, stop: Value, step: Value = 1) -> Iterator[str]:
        """Loops over `range(start, stop, step)`; yields the loop variable."""
        counter = self.variable("i64", start)
        name = self._new("loop")
        self.do(f"br label %{name}_head")
        self._lines.append(f"{name}_head:")
        now = self.get(counter)
        self.do(f"br i1 {self.compare('slt', now, stop)}, label %{name}_body, label %{name}_end")
        self._lines.append(f"{name}_body:")
        yield now
        self.set(counter, self.add(now, step))
        self.do(f"br label %{name}_head")
        self._lines.append(f"{name}_end:")

    @contextmanager
    def turns(self) -> Iterator[Callable[[str], None]]:
        """Repeats the code emitted inside; yields a function that leaves unless a condition holds.

        The function may be called several times, also inside `when` and inner loops.
        """
        name = self._new("turns")
        self.do(f"br label %{name}_head")
        self._lines.append(f"{name}_head:")

        def go_on_if(condition: str) -> None:
            rest = self._new("rest")
            self.do(f"br i1 {condition}, label %{rest}, label %{name}_end")
            self._lines.append(f"{rest}:")

        yield go_on_if
        self.do(f"br label %{name}_head")
        self._lines.append(f"{name}_end:")

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Runs the code emitted inside if the condition holds."""
        name = self._new("when")
        self.do(f"br i1 {condition}, label %{name}_then, label %{name}_end")
        self._lines.append(f"{name}_then:")
        yield
        self.do(f"br label %{name}_end")
        self._lines.append(f"{name}_end:")

    @contextmanager
    def unless(self, condition: str) -> Iterator[None]:
        """Runs the code emitted inside if the condition does not hold."""
        with self.when(self.negated(condition)):
            yield

    @contextmanager
    def each(self, start: Value, stop: Value) -> Iterator[Sequence[Value]]:
        """The indices of a loop: all of them if it is unrolled, else one register."""
        if isinstance(start, int) and isinstance(stop, int):
            yield range(start, stop)
            return
        with self.loop(start, stop) as turn:
            yield [turn]

    def call(
        self, result: str, function: str, *arguments: tuple[str, Value], flags: str = ""
    ) -> str:
        """Calls a function that the module declares; `arguments` are kinds and values."""
        self._declare(result, function, arguments)
        kind = f"{flags} {result}" if flags else result
        return self.let(f"call {kind} @{function}({_given(arguments)})")

    def invoke(self, function: str, *arguments: tuple[str, Value]) -> None:
        """Calls a function without a result."""
        self._declare("void", function, arguments)
        self.do(f"call void @{function}({_given(arguments)})")

    def copy(self, target: str, source: str, size_bytes: Value) -> None:
        """Copies memory."""
        self.invoke(
            "llvm.memcpy.p0.p0.i64",
            ("ptr", target),
            ("ptr", source),
            ("i64", size_bytes),
            ("i1", "false"),
        )

    def clear(self, target: str, size_bytes: Value) -> None:
        """Sets memory to zero."""
        self.invoke(
            "llvm.memset.p0.i64", ("ptr", target), ("i8", 0), ("i64", size_bytes), ("i1", "false")
        )

    def prefetch(self, address: str, writes: bool = False, locality: int = 3) -> None:
        """Starts to fetch the memory at an address into the cache.

        Args:
            address: The address.
            writes: Whether it will be written.
            locality: As LLVM defines it: 3 to keep it in all caches, 0 in none.
        """
        given = ("i32", int(writes)), ("i32", locality), ("i32", 1)
        self.invoke("llvm.prefetch.p0", ("ptr", address), *given)

    def module(self, signature: str = SIGNATURE) -> str:
        """Returns the whole module; `signature` is that of a void function."""
        lines = [signature + " {", "entry:", *self._variables, *self._lines, "  ret void", "}"]
        return "\n".join([*lines, *self._declared, ""])

    def _new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _declare(self, result: str, function: str, arguments: Sequence[tuple[str, Value]]) -> None:
        kinds = ", ".join(kind for kind, _ in arguments)
        self._declared[f"declare {result} @{function}({kinds})"] = None


_SIZES: Final = {"float": 4, "double": 8, "i32": 4}
_SUFFIXES: Final = {"float": "f32", "double": "f64", "i32": "i32"}


class Vectors:
    """Emits loads and stores of one vector type in a function.

    Args:
        code: The function being emitted.
        element: `float` or `double`; or `i32`, without arithmetic.
        lanes: Elements per vector.
    """

    def __init__(self, code: Code, element: str, lanes: int) -> None:
        self.code = code
        self.element = element
        self.lanes = lanes
        self.size_bytes = _SIZES[element]
        self.kind = f"<{lanes} x {element}>"
        self.suffix = f"v{lanes}{_SUFFIXES[element]}"
        self.truth = f"<{lanes} x i1>"

    @classmethod
    def whole(cls, code: Code, element: str) -> Vectors:
        """Returns vectors that fill a register of this processor."""
        return cls(code, element, host.host().vector_bytes // _SIZES[element])

    def load(self, base: str, index: Value, mask: str | None = None) -> str:
        """Loads the elements of an array from `index` on; 0 outside the mask."""
        address = self.code.at(self.element, base, index)
        if mask is None:
            return self.code.load(self.kind, address, self.size_bytes)
        return self.code.call(
            self.kind,
            f"llvm.masked.load.{self.suffix}.p0",
            ("ptr", address),
            ("i32", self.size_bytes),
            (self.truth, mask),
            (self.kind, "zeroinitializer"),
        )

    def store(self, value: str, base: str, index: Value, mask: str | None = None) -> None:
        """Stores the elements within the mask."""
        address = self.code.at(self.element, base, index)
        if mask is None:
            self.code.store(self.kind, value, address, self.size_bytes)
            return
        self.code.invoke(
            f"llvm.masked.store.{self.suffix}.p0",
            (self.kind, value),
            ("ptr", address),
            ("i32", self.size_bytes),
            (self.truth, mask),
        )

    def constant(self, value: float) -> str:
        """Returns a constant in all lanes, as an operand."""
        each = f"{self.element} {constant(value, self.element)}"
        return f"<{', '.join([each] * self.lanes)}>"

    def splat(self, scalar: str) -> str:
        """Broadcasts a value to all lanes."""
        first = self.code.let(f"insertelement {self.kind} poison, {self.element} {scalar}, i64 0")
        return self.code.let(
            f"shufflevector {self.kind} {first}, {self.kind} poison, "
            f"<{self.lanes} x i32> zeroinitializer"
        )

    def broadcast(self, base: str, index: Value) -> str:
        """Broadcasts one element of an array to all lanes."""
        address = self.code.at(self.element, base, index)
        return self.splat(self.code.load(self.element, address, self.size_bytes))

    def along(
        self, count: Value, has_rest: bool | None = None
    ) -> Iterator[tuple[Value, str | None]]:
        """Yields the start of each vector of a line, with the mask of the tail if it is partial.

        Code emitted for a pair may be inside a loop that the next one follows.

        Args:
            count: Elements of the line; a small known number of vectors is unrolled.
            has_rest: Whether the last vector is partial; None if that is decided at run time.
        """
        code, lanes = self.code, self.lanes
        whole: Value
        if isinstance(count, int):
            whole, has_rest = count - count % lanes, count % lanes > 0
        else:
            whole = code.let(f"and i64 {count}, {-lanes}")
        if isinstance(whole, int) and whole <= WRITTEN_OUT * lanes:
            yield from ((place, None) for place in range(0, whole, lanes))
        else:
            with code.loop(0, whole, lanes) as place:
                yield place, None
        if has_rest is False:
            return
        rest = code.subtract(count, whole)
        if has_rest:
            yield whole, self.first(rest)
            return
        with code.when(code.compare("sgt", rest, 0)):
            yield whole, self.first(rest)

    def select(self, condition: str, a: str, b: str) -> str:
        """`a` if the condition holds, else `b`, lane by lane."""
        return self.code.let(f"select {self.truth} {condition}, {self.kind} {a}, {self.kind} {b}")

    def add(self, a: str, b: str) -> str:
        """`a + b`."""
        return self.code.let(f"fadd {self.kind} {a}, {b}")

    def multiply(self, a: str, b: str) -> str:
        """`a · b`."""
        return self.code.let(f"fmul {self.kind} {a}, {b}")

    def multiply_add(self, a: str, b: str, c: str) -> str:
        """`a · b + c`, fused if the processor has FMA."""
        v = self.kind
        return self.code.call(v, f"llvm.fmuladd.{self.suffix}", (v, a), (v, b), (v, c))

    def total(self, value: str) -> str:
        """Returns the sum of the elements, in any order."""
        return self.code.call(
            self.element,
            f"llvm.vector.reduce.fadd.{self.suffix}",
            (self.element, "0.0"),
            (self.kind, value),
            flags="reassoc",
        )

    def first(self, count: Value) -> str:
        """Returns the mask of the first `count` lanes."""
        kind = f"<{self.lanes} x i64>"
        start = self.code.let(f"insertelement {kind} poison, i64 {count}, i64 0")
        counts = self.code.let(
            f"shufflevector {kind} {start}, {kind} poison, <{self.lanes} x i32> zeroinitializer"
        )
        numbers = ", ".join(f"i64 {i}" for i in range(self.lanes))
        return self.code.let(f"icmp slt {kind} <{numbers}>, {counts}")


def _given(arguments: Sequence[tuple[str, Value]]) -> str:
    return ", ".join(f"{kind} {value}" for kind, value in arguments)
