"""log and log1p of vectors.

A positive number is 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2); its logarithm is
k ln 2 + log(1 + f).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from sparkflow_runtime.codegen.cpu.maths_lanes import SINGLE, Lanes

_NOTHING_LOST: Final = 2.0**100
"""Above this, 1 + x is x; bounded so that its inverse is finite."""


@dataclass(frozen=True, slots=True)
class _Constants:
    """What differs between float32 and float64.

    Attributes:
        ln_2: Upper and lower part of the logarithm of 2; the upper has few bits.
        sqrt_half: The bits of the square root of 1/2.
        log: Minimax polynomial (Remez's algorithm, November 2026): float32 (log(1 + f) - f +
            f^2 / 2) / f^3; float64 (log((1 + s) / (1 - s)) / s - 2) / s^2 as one of s^2.
        lift: A power of 2 that scales denormal numbers up.
    """

    ln_2: tuple[float, float]
    sqrt_half: int
    log: tuple[float, ...]
    lift: int


_SINGLE: Final = _Constants(
    ln_2=(0.693359375, -2.12194440e-4),
    sqrt_half=0x3F3504F3,
    log=(
        *(0.3333331, -0.24999987, 0.20002232, -0.16669291, 0.14218561),
        *(-0.12383524, 0.11872948, -0.117950484, 0.06921907),
    ),
    lift=25,
)
_DOUBLE: Final = _Constants(
    ln_2=(6.93147180369123816490e-01, 1.90821492927058770002e-10),
    sqrt_half=0x3FE6A09E667F3BCD,
    log=(
        *(0.6666666666666735, 0.3999999999941328, 0.2857142874275232, 0.22222198530932114),
        *(0.18183566740382037, 0.15313983829283, 0.14796662152968595),
    ),
    lift=54,
)


def _constants(lanes: Lanes) -> _Constants:
    return _SINGLE if lanes.format is SINGLE else _DOUBLE


def log(lanes: Lanes, x: Any) -> Any:
    """The natural logarithm; -inf at 0, NaN below."""
    builder, known = lanes.builder, _constants(lanes)
    is_tiny = lanes.is_less(x, lanes.format.smallest_normal)
    lifted = builder.fmul(x, lanes.number(2.0**known.lift))
    exponent, f = _split(lanes, builder.select(is_tiny, lifted, x))
    bias = lanes.format.shifter + lanes.format.bias
    bias_of_tiny = lanes.number(bias + known.lift)
    k = builder.fsub(exponent, builder.select(is_tiny, bias_of_tiny, lanes.number(bias)))
    return _outside(lanes, x, 0.0, _log_of_parts(lanes, k, f, lanes.number(-0.0)))


def log1p(lanes: Lanes, x: Any) -> Any:
    """log(1 + x); accurate near 0 too, -0.0 at -0.0."""
    builder, form = lanes.builder, lanes.format
    one = lanes.number(1.0)
    total = builder.fadd(x, one)
    exponent, f = _split(lanes, total)
    k = builder.fsub(exponent, lanes.number(form.shifter + form.bias))
    above = builder.fsub(total, one)
    lost = builder.fadd(builder.fsub(one, builder.fsub(total, above)), builder.fsub(x, above))
    bits = _from_sqrt_half(lanes, lanes.smaller(total, lanes.number(_NOTHING_LOST)))
    power = builder.and_(bits, lanes.integer(~form.fraction_mask))
    inverse = lanes.from_bits(builder.sub(lanes.integer(2 * form.one), power))  # 2^-k
    rest = builder.fmul(lost, inverse)
    rest = lanes.multiply_add(builder.fneg(rest), f, rest)  # / (1 + f), nearly
    result = lanes.call("copysign", _log_of_parts(lanes, k, f, rest), x)
    return _outside(lanes, x, -1.0, result)


def _split(lanes: Lanes, x: Any) -> tuple[Any, Any]:
    """Returns the exponent of a normal number, plus shifter and bias, as a float; and f."""
    builder, form = lanes.builder, lanes.format
    sqrt_half = _constants(lanes).sqrt_half
    bits = _from_sqrt_half(lanes, x)
    biased = builder.lshr(bits, lanes.integer(form.fraction))
    shifter_bits = (form.bias + form.fraction) << form.fraction | 1 << form.fraction - 1
    exponent = lanes.from_bits(builder.or_(biased, lanes.integer(shifter_bits)))
    fraction = builder.and_(bits, lanes.integer(form.fraction_mask))
    near_1 = lanes.from_bits(builder.add(fraction, lanes.integer(sqrt_half)))
    return exponent, builder.fsub(near_1, lanes.number(1.0))


def _from_sqrt_half(lanes: Lanes, x: Any) -> Any:
    """Returns a number's bits, shifted so that the exponent changes at sqrt(1/2), not at 1."""
    offset = lanes.format.one - _constants(lanes).sqrt_half
    return lanes.builder.add(lanes.bits(x), lanes.integer(offset))


def _log_of_parts(lanes: Lanes, k: Any, f: Any, rest: Any) -> Any:
    """`k ln 2 + log(1 + f) + rest`, for float64 as in fdlibm's e_log.c (Sun, 1993)."""
    builder, known = lanes.builder, _constants(lanes)
    square = builder.fmul(f, f)
    upper, lower = (lanes.number(part) for part in known.ln_2)
    rest = lanes.multiply_add(k, lower, rest)
    if lanes.format is SINGLE:
        cube = builder.fmul(square, f)
        tail = lanes.multiply_add(cube, lanes.polynomial(f, known.log), rest)
        tail = lanes.multiply_add(square, lanes.number(-0.5), tail)
    else:
        s = builder.fdiv(f, builder.fadd(f, lanes.number(2.0)))
        z = builder.fmul(s, s)
        series = builder.fmul(z, lanes.polynomial(z, known.log))
        half_square = builder.fmul(square, lanes.number(0.5))
        tail = lanes.multiply_add(s, builder.fadd(half_square, series), rest)
        tail = builder.fsub(tail, half_square)
    return lanes.multiply_add(k, upper, builder.fadd(f, tail))


def _outside(lanes: Lanes, x: Any, pole: float, inside: Any) -> Any:
    """Handles the special cases of a logarithm: its pole, below it, infinity and NaN."""
    builder = lanes.builder
    start = lanes.number(pole)
    at_pole = builder.fcmp_ordered("==", x, start)
    left = builder.select(at_pole, lanes.number(-math.inf), lanes.number(math.nan))
    right = builder.select(lanes.is_less(x, math.inf), inside, x)
    return builder.select(builder.fcmp_ordered("<=", x, start), left, right)
