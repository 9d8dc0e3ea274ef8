"""Short names for the instructions that vector maths uses.

The emitted code works on scalars and on vectors of any length; LLVM splits long vectors into
registers. Nothing here knows a mathematical function.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from llvmlite import ir

BIT: Final = ir.IntType(1)
_LONG_POLYNOMIAL: Final = 8
"""From this many coefficients on, evaluating in two halves is faster: 5 to 20 % on a Zen 3 (Nov.
2026)."""


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """An IEEE 754 binary format.

    Attributes:
        scalar: LLVM's type of a number.
        bits: LLVM's type of an integer of the same size.
        suffix: Suffix of LLVM's intrinsic names.
        fraction: Number of explicit significand bits.
        bias: Exponent bias.
    """

    scalar: Any
    bits: Any
    suffix: str
    fraction: int
    bias: int

    @property
    def shifter(self) -> float:
        """The number that, added to a small one, leaves the nearest integer in the low bits."""
        return 1.5 * 2.0**self.fraction

    @property
    def fraction_mask(self) -> int:
        """Mask of the fraction bits."""
        return (1 << self.fraction) - 1

    @property
    def one(self) -> int:
        """The bits of 1."""
        return self.bias << self.fraction

    @property
    def smallest_normal(self) -> float:
        """The smallest positive normal number."""
        return float(2.0 ** (1 - self.bias))


SINGLE: Final = FloatFormat(ir.FloatType(), ir.IntType(32), "f32", 23, 127)
DOUBLE: Final = FloatFormat(ir.DoubleType(), ir.IntType(64), "f64", 52, 1023)


def element(kind: Any) -> Any:
    """Returns the scalar type of a scalar or vector type."""
    return kind.element if isinstance(kind, ir.VectorType) else kind


def like(kind: Any, scalar: Any) -> Any:
    """Returns the type with as many lanes as `kind` has."""
    return ir.VectorType(scalar, kind.count) if isinstance(kind, ir.VectorType) else scalar


class Number(ir.Constant):  # type: ignore[misc]  # llvmlite has no types
    """A constant with ready-made LLVM text; llvmlite would write out every lane.

    Attributes:
        text: The value in LLVM syntax, without its type.
    """

    def __init__(self, kind: Any, text: str) -> None:
        super().__init__(kind, ir.Undefined)
        self.text = text

    def _get_reference(self) -> str:
        return self.text


def constant(kind: Any, value: float | int | bool) -> Any:
    """Returns an LLVM constant with the value in all lanes.

    Args:
        kind: A scalar or vector type of LLVM.
        value: The number; it is rounded to the type's precision, integers wrap.
    """
    scalar = element(kind)
    number = int(value) if isinstance(scalar, ir.IntType) else float(value)
    return _constant(kind, number, repr(number))


@functools.lru_cache(maxsize=4096)
def _constant(kind: Any, value: float | int, key: str) -> Number:
    scalar = element(kind)
    if isinstance(scalar, ir.IntType):
        value = int(value) & ((1 << scalar.width) - 1)
    text = str(value) if isinstance(scalar, ir.IntType) else scalar.format_constant(value)
    return Number(kind, text if scalar is kind else f"splat ({scalar} {text})")


class Lanes:
    """Emits instructions on floating-point values of one type.

    Attributes:
        builder: llvmlite's `IRBuilder`.
        kind: LLVM's type of the values, a scalar or a vector.
        format: The binary format of a lane.
    """

    def __init__(self, builder: Any, kind: Any) -> None:
        self.builder = builder
        self.kind = kind
        self.format = SINGLE if element(kind) == SINGLE.scalar else DOUBLE
        self._bits = like(kind, self.format.bits)

    def number(self, value: float) -> Any:
        """Returns a constant."""
        return constant(self.kind, value)

    def integer(self, value: int) -> Any:
        """Returns an integer constant of the same width as a lane."""
        return constant(self._bits, value)

    def bits(self, x: Any) -> Any:
        """Reinterprets numbers as integers."""
        return self.builder.bitcast(x, self._bits)

    def from_bits(self, bits: Any) -> Any:
        """Reinterprets integers as numbers."""
        return self.builder.bitcast(bits, self.kind)

    def call(self, name: str, *arguments: Any, flags: tuple[str, ...] = ()) -> Any:
        """Calls an intrinsic function of values of this type, e.g. `fabs`."""
        module = self.builder.module
        count = self.kind.count if isinstance(self.kind, ir.VectorType) else 0
        full = f"llvm.{name}.{f'v{count}' if count else ''}{self.format.suffix}"
        function = module.globals.get(full)
        if function is None:
            signature = ir.FunctionType(self.kind, [self.kind] * len(arguments))
            function = ir.Function(module, signature, name=full)
        return self.builder.call(function, arguments, fastmath=flags)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """`a * b + c`, fused if the processor has FMA."""
        return self.call("fmuladd", a, b, c)

    def polynomial(self, x: Any, coefficients: Sequence[float]) -> Any:
        """Evaluates a polynomial by Horner's rule, long ones in two independent halves.

        Args:
            x: The argument.
            coefficients: Constant term first.
        """
        if len(coefficients) < _LONG_POLYNOMIAL:
            return self._polynomial(x, coefficients)
        square = self.builder.fmul(x, x)
        even, odd = (self._polynomial(square, coefficients[n::2]) for n in (0, 1))
        return self.multiply_add(odd, x, even)

    def _polynomial(self, x: Any, coefficients: Sequence[float]) -> Any:
        result = self.number(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            result = self.multiply_add(result, x, self.number(coefficient))
        return result

    def larger(self, x: Any, y: Any) -> Any:
        """The maximum; propagates NaN; either of 0 and -0: a choice costs x86 two instructions."""
        return self.call("maximum", x, y, flags=("nsz",))

    def smaller(self, x: Any, y: Any) -> Any:
        """Returns the minimum, likewise."""
        return self.call("minimum", x, y, flags=("nsz",))

    def is_less(self, x: Any, bound: float) -> Any:
        """Whether x is below a constant; false if it is NaN."""
        return self.builder.fcmp_ordered("<", x, self.number(bound))
