"""exp, expm1, sigmoid, tanh and erf of vectors.

exp(x) is 2^n exp(r), n the integer nearest to x / ln 2 and |r| <= ln 2 / 2. n times the upper
part of ln 2 is exact, so that r is accurate even without fused multiply-add. The polynomials
minimise the maximum relative error (Remez's algorithm, November 2026), which is a tenth of the
rounding error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sparkflow_runtime.codegen.cpu.maths_lanes import SINGLE, Lanes

_LOG2_E: Final = 1.4426950408889634
_TANH_NEAR: Final = 0.625
_ERF_NEAR: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Constants:
    """What differs between float32 and float64.

    Attributes:
        ln_2: Upper and lower part of the logarithm of 2; the upper has few bits.
        exp: (exp(r) - 1 - r - r^2 / 2) / r^3.
        exp_range: exp is 0 below the first, infinite above the second.
        expm1_least: expm1 is -1 below this.
        tanh: (tanh(x) / x - 1) / x^2 as a polynomial of x^2, for |x| < 0.625.
        tanh_most: tanh is 1 from here on.
        erf: erf(x) / x - 1 as a polynomial of x^2, for |x| < 1.
        log_erfc: log(1 - erf(x)), from 1 to `erf_most`.
        erf_most: erf is 1 from here on.
    """

    ln_2: tuple[float, float]
    exp: tuple[float, ...]
    exp_range: tuple[float, float]
    expm1_least: float
    tanh: tuple[float, ...]
    tanh_most: float
    erf: tuple[float, ...]
    log_erfc: tuple[float, ...]
    erf_most: float


_SINGLE: Final = _Constants(
    ln_2=(0.693359375, -2.12194440e-4),
    exp=(0.16666545, 0.041666407, 0.008366461, 0.0013940478),
    exp_range=(-104.0, 89.0),
    expm1_least=-20.0,
    tanh=(-0.33333284, 0.13331491, -0.053743508, 0.020650622, -0.005717079),
    tanh_most=10.0,
    erf=(
        *(0.12837917, -0.37612626, 0.112836, -0.026854446),
        *(0.0051895385, -0.0008020864, 7.889184e-05),
    ),
    log_erfc=(
        *(-0.00035364137, -1.1270404, -0.63822526, -0.103037715),
        *(0.021805461, -0.0029396378, 0.00018557657),
    ),
    erf_most=4.0,
)
_DOUBLE: Final = _Constants(
    ln_2=(6.93147180369123816490e-01, 1.90821492927058770002e-10),
    exp=(
        *(0.1666666666666668, 0.04166666666661955, 0.008333333333318796, 0.0013888888920713),
        *(0.00019841269894701376, 2.4801516063627238e-05, 2.7557234802157594e-06),
        *(2.7622349017172373e-07, 2.5112464951953674e-08),
    ),
    exp_range=(-746.0, 710.0),
    expm1_least=-40.0,
    tanh=(
        *(-0.33333333333332876, 0.13333333333264952, -0.053968253932498, 0.021869487602291522),
        *(-0.008863221323060144, 0.0035919915974367807, -0.0014549705942442672),
        *(0.0005863528130349489, -0.0002286337978727628, 7.721969940832984e-05),
        -1.6107750047144954e-05,
    ),
    tanh_most=20.0,
    erf=(
        *(0.12837916709551256, -0.3761263890318355, 0.11283791670945253, -0.02686617064327618),
        *(0.005223977607423198, -0.0008548325989688543, 0.00012055295320387428),
        *(-1.492474466353895e-05, 1.6447517703021486e-06, -1.6209176243063804e-07),
        *(1.3722978174650355e-08, -7.801193136881001e-10),
    ),
    log_erfc=(
        *(-1.7463251903134178e-07, -1.1283773611008898, -0.6366284283670168, -0.10274716243623462),
        *(0.01907742417715608, 0.0002824118122365724, -0.001772149479187446),
        *(0.0006448302717763783, -4.8000323174758264e-05, -6.824672848781324e-05),
        *(4.393775732050783e-05, -1.6068695563169696e-05, 4.1867869838425845e-06),
        *(-8.165726758980953e-07, 1.1948820068056056e-07, -1.2798253864973454e-08),
        *(9.498387284653556e-10, -4.369657099013846e-11, 9.388340256208962e-13),
    ),
    erf_most=5.95,
)


def _constants(lanes: Lanes) -> _Constants:
    return _SINGLE if lanes.format is SINGLE else _DOUBLE


def exp(lanes: Lanes, x: Any) -> Any:
    """The exponential function; denormal results are rounded only once."""
    builder = lanes.builder
    inside = _between(lanes, x, *_constants(lanes).exp_range)
    shifted, n = _nearest(lanes, inside, 2 * lanes.format.bias)
    first, second = _two_powers(lanes, shifted)
    return builder.fmul(builder.fmul(_exp_of_rest(lanes, inside, n), first), second)


def expm1(lanes: Lanes, x: Any) -> Any:
    """`exp(x) - 1`; accurate near 0 too, -0.0 at -0.0."""
    builder, known = lanes.builder, _constants(lanes)
    inside = _between(lanes, x, known.expm1_least, known.exp_range[1])
    shifted, n = _nearest(lanes, inside, 2 * lanes.format.bias)
    r, rounded_off = _rest(lanes, inside, n)
    tail = lanes.polynomial(r, (0.5, *known.exp))
    tail = lanes.multiply_add(builder.fmul(r, r), tail, rounded_off)
    # 2^n (1 + r + tail) - 1, with 2^n = first * second
    first, second = _two_powers(lanes, shifted)
    inverse = builder.sub(lanes.integer(2 * lanes.format.one), lanes.bits(second))
    head = lanes.multiply_add(r, first, builder.fsub(first, lanes.from_bits(inverse)))
    result = builder.fmul(lanes.multiply_add(tail, first, head), second)
    return lanes.call("copysign", result, x)


def sigmoid(lanes: Lanes, x: Any) -> Any:
    """`1 / (1 + exp(-x))`; small results are accurate, too."""
    builder = lanes.builder
    negative = builder.fneg(lanes.call("fabs", x))
    inside = lanes.larger(negative, lanes.number(_constants(lanes).exp_range[0]))
    shifted, n = _nearest(lanes, inside, 2 * lanes.format.bias)
    first, second = _two_powers(lanes, shifted)
    e = builder.fmul(builder.fmul(_careful_exp_of_rest(lanes, inside, n), first), second)
    one = lanes.number(1.0)
    small = builder.fdiv(e, builder.fadd(one, e))
    # 1 - small, or small refined as e (1 - small), where the division's error matters less
    top = builder.select(lanes.is_less(x, 0.0), e, one)
    return lanes.multiply_add(builder.fneg(top), small, top)


def tanh(lanes: Lanes, x: Any) -> Any:
    """The hyperbolic tangent: a polynomial near 0, elsewhere `1 - 2 / (1 + exp(2x))`."""
    builder, known = lanes.builder, _constants(lanes)
    size = lanes.call("fabs", x)
    square = builder.fmul(x, x)
    slope = builder.fmul(square, lanes.polynomial(square, known.tanh))
    near = lanes.multiply_add(x, slope, x)
    bounded = lanes.smaller(size, lanes.number(known.tanh_most))
    e = _exp_normal(lanes, builder.fadd(bounded, bounded))
    one = lanes.number(1.0)
    far = builder.fsub(one, builder.fdiv(lanes.number(2.0), builder.fadd(e, one)))
    result = builder.select(lanes.is_less(size, _TANH_NEAR), near, far)
    return lanes.call("copysign", result, x)


def erf(lanes: Lanes, x: Any) -> Any:
    """The error function: a polynomial near 0, elsewhere 1 - exp(polynomial)."""
    builder, known = lanes.builder, _constants(lanes)
    size = lanes.call("fabs", x)
    square = builder.fmul(x, x)
    near = lanes.multiply_add(x, lanes.polynomial(square, known.erf), x)
    power = lanes.polynomial(lanes.smaller(size, lanes.number(known.erf_most)), known.log_erfc)
    far = builder.fsub(lanes.number(1.0), _exp_normal(lanes, power))
    result = builder.select(lanes.is_less(size, _ERF_NEAR), near, far)
    return lanes.call("copysign", result, x)


def _between(lanes: Lanes, x: Any, least: float, most: float) -> Any:
    """Clamps x to a range; NaN is kept."""
    return lanes.larger(lanes.smaller(x, lanes.number(most)), lanes.number(least))


def _exp_normal(lanes: Lanes, x: Any) -> Any:
    """`exp` where the result is neither infinite nor denormal."""
    builder = lanes.builder
    shifted, n = _nearest(lanes, x, lanes.format.bias)
    power = builder.shl(lanes.bits(shifted), lanes.integer(lanes.format.fraction))
    return builder.fmul(_exp_of_rest(lanes, x, n), lanes.from_bits(power))


def _nearest(lanes: Lanes, x: Any, offset: int) -> tuple[Any, Any]:
    """n, the integer nearest to x / ln 2: first a float with n + offset in its low bits, then n."""
    shifter = lanes.number(lanes.format.shifter + offset)
    shifted = lanes.multiply_add(x, lanes.number(_LOG2_E), shifter)
    return shifted, lanes.builder.fsub(shifted, shifter)


def _exp_of_rest(lanes: Lanes, x: Any, n: Any) -> Any:
    """`exp(x - n ln 2)`, between 0.7 and 1.42."""
    known = _constants(lanes)
    r = lanes.multiply_add(n, lanes.number(-known.ln_2[0]), x)
    r = lanes.multiply_add(n, lanes.number(-known.ln_2[1]), r)
    tail = lanes.polynomial(r, (0.5, *known.exp))
    near_r = lanes.multiply_add(lanes.builder.fmul(r, r), tail, r)
    return lanes.builder.fadd(near_r, lanes.number(1.0))


def _careful_exp_of_rest(lanes: Lanes, x: Any, n: Any) -> Any:
    """`_exp_of_rest`, with an error hardly larger than that of the last rounding."""
    builder, one = lanes.builder, lanes.number(1.0)
    r, rounded_off = _rest(lanes, x, n)
    head = builder.fadd(one, r)
    lost = builder.fadd(builder.fsub(r, builder.fsub(head, one)), rounded_off)
    tail = lanes.polynomial(r, (0.5, *_constants(lanes).exp))
    return builder.fadd(head, lanes.multiply_add(builder.fmul(r, r), tail, lost))


def _rest(lanes: Lanes, x: Any, n: Any) -> tuple[Any, Any]:
    """`x - n ln 2`, and its rounding error."""
    builder = lanes.builder
    upper, lower = (lanes.number(-part) for part in _constants(lanes).ln_2)
    above = lanes.multiply_add(n, upper, x)
    r = lanes.multiply_add(n, lower, above)
    return r, lanes.multiply_add(n, lower, builder.fsub(above, r))


def _two_powers(lanes: Lanes, shifted: Any) -> tuple[Any, Any]:
    """Two powers of 2 whose product is 2^n, which itself may overflow or underflow.

    Args:
        lanes: Emits the instructions.
        shifted: From `_nearest`, with twice the bias of exponents as offset.
    """
    builder, form = lanes.builder, lanes.format
    bits = lanes.bits(shifted)
    exponents = lanes.integer(~form.fraction_mask)
    first = builder.and_(builder.shl(bits, lanes.integer(form.fraction - 1)), exponents)
    second = builder.sub(builder.shl(bits, lanes.integer(form.fraction)), first)
    return lanes.from_bits(first), lanes.from_bits(second)
