"""Rows of `special`, `complex` and `bitwise`, and of the newer rows of `unary` and `binary`."""

import numpy as np
from scipy import special

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime import dtypes
from support.op_cases import FailureCase, OpCase, WrongShapeCase

X = np.array([[-2.5, -0.75, 0.5], [1.25, 2.0, 3.5]])
POSITIVE = np.array([[0.25, 0.5, 1.125], [1.5, 3.0, 7.0]])
SMALL = np.array([[-0.9, -0.3, 0.1], [0.4, 0.7, 0.95]])
FRACTION = np.array([[0.125, 0.25, 0.5], [0.625, 0.75, 0.875]])
EMPTY = np.zeros((0, 3))
ABOVE_ONE = np.array([[1.5, 2.0, 3.25], [1.125, 7.0, 2.5]])
COMPLEX = np.array([1 + 2j, -0.5 + 0.25j, 0.75 - 1j])
OTHER_COMPLEX = np.array([0.5 - 1j, 2 + 1j, -1 - 0.5j])
ROW = np.array([1.5, 2.0, 3.0])

UNARY = [
    ("Lgamma", special.gammaln, POSITIVE, True),
    ("Digamma", special.digamma, POSITIVE, True),
    ("Erfc", special.erfc, X, True),
    ("Erfinv", special.erfinv, SMALL, True),
    ("Ndtri", special.ndtri, FRACTION, True),
    ("BesselI0", special.i0, X, True),
    ("BesselI0e", special.i0e, X, True),
    ("BesselI1", special.i1, X, False),
    ("BesselI1e", special.i1e, X, False),
    ("BesselJ0", special.j0, X, True),
    ("BesselJ1", special.j1, X, False),
    ("BesselK0", special.k0, POSITIVE, True),
    ("BesselK0e", special.k0e, POSITIVE, True),
    ("BesselK1", special.k1, POSITIVE, True),
    ("BesselK1e", special.k1e, POSITIVE, True),
    ("BesselY0", special.y0, POSITIVE, True),
    ("BesselY1", special.y1, POSITIVE, True),
    ("Expint", special.expi, POSITIVE, True),
    ("Dawsn", special.dawsn, X, True),
    ("FresnelSin", lambda x: special.fresnel(x)[0], X, True),
    ("FresnelCos", lambda x: special.fresnel(x)[1], X, True),
    ("Spence", special.spence, POSITIVE, True),
]
INVERSE_HYPERBOLIC = [
    ("Asinh", np.arcsinh, X),
    ("Acosh", np.arccosh, ABOVE_ONE),
    ("Atanh", np.arctanh, SMALL),
]
ZERO = np.array([0.0])

CASES = [
    *(
        OpCase(op, [x], expected=function, gradient=(0,), second_order=twice, rtol=4e-6)
        for op, function, x, twice in UNARY
    ),
    *(OpCase(op, [EMPTY], expected=function, gradient=(0,)) for op, function, *_ in UNARY),
    *(OpCase(op, [x], gradient=(0,)) for op, _, x in INVERSE_HYPERBOLIC for x in (x, COMPLEX)),
    *(
        OpCase(
            op,
            [x],
            expected=function,
            second_order=True,
            gradient=(0,),
            dtypes=sorted(dtypes.FLOATING, key=int),
            rtol=2e-6,
        )
        for op, function, x in INVERSE_HYPERBOLIC
    ),
    # Where a derivative is a limit.
    *(OpCase(op, [ZERO], gradient=(0,)) for op in ("BesselI1", "BesselI1e", "BesselJ1")),
    OpCase("Spence", [np.array([1.0])], gradient=(0,)),
]

PAIRS = [
    ("Polygamma", np.array([[1.0, 2, 3], [1, 2, 3]]), POSITIVE, special.polygamma, (1,)),
    ("Zeta", ABOVE_ONE + 1, POSITIVE, special.zeta, (1,)),
    ("Igamma", POSITIVE, ABOVE_ONE, special.gammainc, (0, 1)),
    ("Igammac", POSITIVE, ABOVE_ONE, special.gammaincc, (0, 1)),
    ("Xlogy", X, POSITIVE, special.xlogy, (0, 1)),
    ("Xlog1py", X, POSITIVE, special.xlog1py, (0, 1)),
    ("Xdivy", X, POSITIVE, np.divide, (0, 1)),
    ("MulNoNan", X, POSITIVE, np.multiply, (0, 1)),
]
FLOATING = sorted(dtypes.FLOATING, key=int)
for op, first, second, function, indexes in PAIRS:
    CASES += [
        OpCase(op, [first, second], expected=function, gradient=indexes, dtypes=FLOATING,
               rtol=1e-5, gradient_rtol=1e-5),
        OpCase(op, [first, second[0]], expected=function, gradient=indexes, dtypes=FLOATING,
               rtol=1e-5, gradient_rtol=1e-5),
        OpCase(op, [EMPTY, ROW], expected=function, gradient=indexes, dtypes=FLOATING),
    ]  # fmt: skip
SPECIAL_Y = np.array([np.inf, np.nan, 0.0, 2.0])
CASES += [
    OpCase(op, [np.zeros(4), SPECIAL_Y], expected=np.zeros(4))
    for op in ("Xlogy", "Xlog1py", "Xdivy")
]
CASES += [
    OpCase("MulNoNan", [SPECIAL_Y, np.zeros(4)], expected=np.zeros(4)),
    OpCase("Xlogy", [COMPLEX, OTHER_COMPLEX], gradient=(0, 1)),
    OpCase("Xdivy", [COMPLEX, OTHER_COMPLEX], gradient=(0, 1)),
    OpCase(
        "NextAfter",
        [np.array([1.0, 0.0, 2.0]), np.array([2.0, -1.0, 2.0])],
        expected=np.array([1 + 2.0**-52, -5e-324, 2.0]),
        gradient=(0, 1),
        dtypes=[dtypes.float64],
    ),
    OpCase(
        "IgammaGradA",
        [np.array([0.5, 3.0, 50.0, 2.0]), np.array([0.3, 2.0, 60.0, 0.0])],
        # Central differences of scipy.special.gammainc instead of 50 digits: accurate to 1e-9.
        expected=lambda a, x: (
            special.gammainc(a + 1e-5, x) - special.gammainc(a - 1e-5, x)
        ) / 2e-5,
        dtypes=[dtypes.float32],
        rtol=1e-5,
    ),
    OpCase(
        "RandomGammaGrad",
        [np.array([0.5, 3.0, 50.0]), np.array([0.3, 2.0, 60.0])],
        expected=lambda a, x: -(
            special.gammainc(a + 1e-5, x) - special.gammainc(a - 1e-5, x)
        ) / 2e-5 / np.exp((a - 1) * np.log(x) - x - special.gammaln(a)),
        dtypes=[dtypes.float32],
        rtol=1e-5,
    ),
    OpCase("Betainc", [POSITIVE, ABOVE_ONE, FRACTION], expected=special.betainc, gradient=(2,),
           rtol=1e-5, gradient_rtol=1e-5),
    OpCase("Betainc", [np.array(2.0), np.array(3.0), FRACTION], expected=special.betainc,
           gradient=(2,), gradient_rtol=1e-5),
    OpCase("Betainc", [POSITIVE, np.array(3.0), np.array(0.25)], expected=special.betainc,
           gradient=(2,), rtol=1e-5, gradient_rtol=1e-5),
]  # fmt: skip

WIDE = {"Tout": dtypes.complex128}
PART = {"Tout": dtypes.float64}
CASES += [
    case
    for op, function in (
        ("Real", np.real),
        ("Imag", np.imag),
        ("Angle", np.angle),
        ("ComplexAbs", np.abs),
    )
    for case in (
        OpCase(op, [COMPLEX], PART, function, (0,), True, [dtypes.complex128], atol=1e-6),
        OpCase(op, [COMPLEX], {}, function, dtypes=[dtypes.complex64]),
        OpCase(op, [EMPTY * 1j], PART, function, (0,), dtypes=[dtypes.complex128]),
    )
]
CASES += [
    OpCase("Complex", [X, X[0]], WIDE, lambda x, y: x + 1j * y, (0, 1), True, [dtypes.float64]),
    OpCase("Complex", [X, X[0]], {}, lambda x, y: x + 1j * y, dtypes=[dtypes.float32]),
    OpCase("Complex", [EMPTY, ROW], WIDE, lambda x, y: x + 1j * y, (0, 1), dtypes=[dtypes.float64]),
]

CASES += [
    OpCase(
        "AccumulateNV2",
        [[X, POSITIVE]],
        {"shape": (2, None)},
        expected=lambda xs: xs[0] + xs[1],
        gradient=(0, 1),
    ),
]
BITS = np.array([[5, 0, 127], [-1, -128, 77]])
MASK = np.array([3, 85, -86])
CASES += [
    *(
        OpCase(op, [x, y], expected=function)
        for op, function in (
            ("BitwiseAnd", np.bitwise_and),
            ("BitwiseOr", np.bitwise_or),
            ("BitwiseXor", np.bitwise_xor),
        )
        for x, y in ((BITS, MASK), (BITS[:0], MASK))
    ),
    OpCase("Invert", [BITS], expected=np.invert),
    OpCase("LeftShift", [BITS, np.array([1, 2, 3])], expected=np.left_shift),
    OpCase("RightShift", [BITS, np.array([1, 2, 3])], expected=np.right_shift),
    OpCase(
        "RightShift",
        [np.array([-8, 8, 9], np.int32), np.array([99, 32, -1], np.int32)],
        expected=np.array([-1, 0, 9]),
    ),
    OpCase(
        "PopulationCount",
        [BITS],
        expected=lambda x: np.vectorize(
            lambda v: bin(int(v) % (1 << 8 * x.dtype.itemsize)).count("1"), otypes=[np.uint8]
        )(x),
    ),
    OpCase("PopulationCount", [BITS[:0]], expected=np.zeros((0, 3), np.uint8)),
    OpCase("Bitcast", [np.float32(X)], {"type": dtypes.int32}, np.float32(X).view(np.int32)),
    OpCase("Bitcast", [np.float32(1.0)], {"type": dtypes.uint32}, np.uint32(0x3F800000)),
    OpCase(
        "Bitcast",
        [np.array([1, 258], np.int32)],
        {"type": dtypes.uint8},
        np.array([[1, 0, 0, 0], [2, 1, 0, 0]], np.uint8),
    ),
    OpCase(
        "Bitcast",
        [np.array([[1, 0, 0, 0], [2, 1, 0, 0]], np.uint8)],
        {"type": dtypes.int32},
        np.array([1, 258], np.int32),
    ),
    OpCase(
        "Bitcast",
        [np.array([0x3F80, 0xC000], np.uint16)],
        {"type": dtypes.bfloat16},
        np.array([1.0, -2.0]),
    ),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "Bitcast",
        [(2, 3)],
        {"type": dtypes.float64},
        "Cannot bitcast 4 bytes an element to 8 due to shape (2, 3): the last dimension must be 2",
    ),
    WrongShapeCase(
        "Betainc",
        [(2,), (3,), ()],
        message="Shapes (2,) and (3,) are not compatible",
    ),
    WrongShapeCase(
        "Real",
        [(2,)],
        {"T": dtypes.complex128, "Tout": dtypes.float32},
        "Real of complex128 gives float64, not float32",
    ),
]
FAILURES = [
    FailureCase(
        "Betainc",
        [np.ones(2), np.ones(3), np.ones(())],
        message="Shapes of a, b and x must match or be scalars, got (2,), (3,), ()",
    ),
    FailureCase(
        "Bitcast",
        [np.ones(3, np.int32)],
        {"type": dtypes.int64},
        "Cannot bitcast 4 bytes an element to 8 due to shape (3,): the last dimension must be 2",
    ),
]
