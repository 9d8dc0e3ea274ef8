"""Rows of the elementwise tables: `unary`, `binary`, `elementwise`, `broadcast_gradient`."""

import math

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime import dtypes
from support.op_cases import FailureCase, OpCase, WrongShapeCase

X = np.array([[-2.5, -0.75, 0.5], [1.25, 2.0, 3.5]])
SMALL = np.array([[-0.9, -0.3, 0.1], [0.4, 0.7, 0.95]])
POSITIVE = np.array([[0.25, 0.5, 1.0], [1.5, 3.0, 7.0]])
NONZERO = np.array([[-3.0, -1.0, 2.0], [1.0, 4.0, -2.0]])
EMPTY = np.zeros((0, 3))
ROW = np.array([1.5, -2.0, 3.0])
COLUMN = np.array([[1.5], [-2.0]])

COMPLEX = np.array([1 + 2j, -0.5 + 0.25j, 0.75 - 1j])
OTHER_COMPLEX = np.array([0.5 - 1j, 2 + 1j, -1 - 0.5j])

UNARY = [
    ("Neg", np.negative, X),
    ("Abs", np.abs, X),
    ("Exp", np.exp, X),
    ("Expm1", np.expm1, X),
    ("Log", np.log, POSITIVE),
    ("Log1p", np.log1p, POSITIVE),
    ("Sqrt", np.sqrt, POSITIVE),
    ("Rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE),
    ("Square", np.square, X),
    ("Sign", lambda x: x / np.where(x == 0, 1, np.abs(x)), X),  # numpy 1 has another for complex
    ("Sin", np.sin, X),
    ("Cos", np.cos, X),
    ("Tan", np.tan, SMALL),
    ("Asin", np.arcsin, SMALL),
    ("Acos", np.arccos, SMALL),
    ("Atan", np.arctan, X),
    ("Sinh", np.sinh, X),
    ("Cosh", np.cosh, X),
    ("Erf", np.vectorize(math.erf, otypes=[float]), X),
]
RECIPROCAL = sorted(dtypes.FLOATING | dtypes.COMPLEX, key=int)  # none for integers, as in TF
STEPS = np.array([-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 2.4, -2.6])

COMPLEX_UNARY = [
    "Neg",
    "Conj",
    "Exp",
    "Expm1",
    "Log",
    "Log1p",
    "Sqrt",
    "Rsqrt",
    "Square",
    "Reciprocal",
    "Inv",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
    "Atan",
    "Sinh",
    "Cosh",
    "Tanh",
    "Sigmoid",
]
COMPLEX_BINARY = ["Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "Pow"]

CASES = [
    *(
        OpCase(op, [x], expected=function, gradient=(0,), second_order=True)
        for op, function, x in UNARY
    ),
    *(OpCase(op, [COMPLEX], gradient=(0,)) for op in COMPLEX_UNARY),
    *(OpCase(op, [COMPLEX, OTHER_COMPLEX], gradient=(0, 1)) for op in COMPLEX_BINARY),
    *(OpCase(op, [COMPLEX[:, None], OTHER_COMPLEX], gradient=(0, 1)) for op in COMPLEX_BINARY),
    *(OpCase(op, [EMPTY], expected=function, gradient=(0,)) for op, function, _ in UNARY),
    *(OpCase(op, [x[0, 1]], expected=function, gradient=(0,)) for op, function, x in UNARY),
    *(
        OpCase(op, [x], expected=np.reciprocal, gradient=(0,), second_order=True, dtypes=RECIPROCAL)
        for op in ("Reciprocal", "Inv")
        for x in (NONZERO, EMPTY)
    ),
    OpCase("Expm1", [X * 1e-4], expected=np.expm1, dtypes=[dtypes.float32]),
    OpCase("Log1p", [X * 1e-4], expected=np.log1p, dtypes=[dtypes.float32]),
    OpCase("Conj", [COMPLEX], expected=np.conj, gradient=(0,), second_order=True),
    OpCase("Conj", [EMPTY * 1j], expected=np.conj, gradient=(0,)),
    OpCase("Floor", [STEPS], expected=np.floor),
    OpCase("Ceil", [STEPS], expected=np.ceil),
    OpCase("Rint", [STEPS], expected=np.rint),
    OpCase("Round", [STEPS], expected=np.array([-2, -2, -0.0, 0, 0, 2, 2, 2, -3.0])),
    OpCase("Round", [np.array([-3, 2])], expected=lambda x: x),
    OpCase("Sign", [np.array([-0.0, np.nan, np.inf])], expected=np.array([0, np.nan, 1.0])),
    OpCase("Rsqrt", [np.array([0, -1, np.inf])], expected=np.array([np.inf, np.nan, 0])),
    OpCase(
        "Erf",
        [np.array([-np.inf, -7.0, -0.0, 1e-300, 7.0, np.nan])],
        expected=np.array([-1, -1, 0, 2e-300 / math.sqrt(math.pi), 1, np.nan]),
    ),
    OpCase("Erf", [np.linspace(-6.5, 6.5, 131)], expected=UNARY[-1][1], gradient=(0,)),
]

OPERANDS = [
    (X, NONZERO, True),
    (X, ROW, False),
    (COLUMN, X + 4.1, False),
    (np.array(2.5), NONZERO, False),
    (X[:, None], ROW[:, None], False),
    (EMPTY, ROW, False),
    (np.ones((2, 0)), COLUMN, False),
]

BINARY = [
    ("Add", np.add),
    ("AddV2", np.add),
    ("Sub", np.subtract),
    ("Mul", np.multiply),
    ("SquaredDifference", lambda x, y: np.conj(x - y) * (x - y)),
    ("Maximum", np.maximum),
    ("Minimum", np.minimum),
    ("Atan2", np.arctan2),
]

CASES += [
    OpCase(op, [x, y], expected=function, gradient=(0, 1), second_order=both)
    for op, function in BINARY
    for x, y, both in OPERANDS
]


def c_divide(x, y):
    """Divides integers like C: towards zero."""
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    return np.trunc(x.astype(np.float64) / y).astype(x.dtype)


def truncate_divide(x, y):
    return np.trunc(x / y).astype(x.dtype)


def floor_divide(x, y):
    return np.floor(x / y).astype(x.dtype)


NUMERATOR = np.array([[7.0, -7.0, 7.0], [-7.0, 8.0, -9.0]])
DENOMINATOR = np.array([[2.0, 2.0, -2.0], [-2.0, 3.0, 4.0]])
FIELD = sorted(dtypes.FLOATING | dtypes.COMPLEX, key=int)
DIVISIONS = [
    (NUMERATOR, DENOMINATOR),
    (NUMERATOR, np.array([2.0, -3.0, 5.0])),
    (EMPTY, np.array([2.0, -3.0, 5.0])),
]

for x, y in DIVISIONS:
    CASES += [
        OpCase("Div", [x, y], expected=c_divide, gradient=(0, 1), second_order=True),
        OpCase("RealDiv", [x, y], expected=np.divide, gradient=(0, 1), dtypes=FIELD),
        OpCase("DivNoNan", [x, y], expected=np.divide, gradient=(0, 1)),
        OpCase("FloorDiv", [x, y], expected=floor_divide),
        OpCase("TruncateDiv", [x, y], expected=truncate_divide),
        OpCase("FloorMod", [x, y], expected=lambda x, y: x - floor_divide(x, y) * y, gradient=(0,)),
        OpCase("Mod", [x, y], expected=lambda x, y: x - truncate_divide(x, y) * y),
        OpCase("TruncateMod", [x, y], expected=lambda x, y: x - truncate_divide(x, y) * y),
    ]

INTEGERS = np.array([7, -7, 7, -7, -8, 0], np.int32)
DIVISORS = np.array([2, 2, -2, -2, 2, 5], np.int32)
CASES += [
    # Integer and special values as in TensorFlow 2.21.
    OpCase("Div", [INTEGERS, DIVISORS], expected=np.array([3, -3, -3, 3, -4, 0])),
    OpCase("TruncateDiv", [INTEGERS, DIVISORS], expected=np.array([3, -3, -3, 3, -4, 0])),
    OpCase("FloorDiv", [INTEGERS, DIVISORS], expected=np.array([3, -4, -4, 3, -4, 0])),
    OpCase("FloorMod", [INTEGERS, DIVISORS], expected=np.array([1, 1, -1, -1, 0, 0])),
    OpCase("Mod", [INTEGERS, DIVISORS], expected=np.array([1, -1, 1, -1, 0, 0])),
    OpCase(
        "FloorDiv",
        [np.array([1.0, 5, -5, 0, np.inf, 1]), np.array([0.1, 0, 0, 0, 2, -np.inf])],
        expected=np.array([10, np.inf, -np.inf, np.nan, np.inf, -0.0]),
    ),
    OpCase(
        "FloorMod",
        [np.array([5.0, 1, -1, 1, np.inf]), np.array([0, np.inf, np.inf, -np.inf, 2])],
        expected=np.array([np.nan, 1, np.inf, -np.inf, np.nan]),
    ),
    OpCase(
        "Mod",
        [np.array([5.0, 1, -1, 1, np.inf]), np.array([0, np.inf, np.inf, -np.inf, 2])],
        expected=np.array([np.nan, 1, -1, 1, np.nan]),
    ),
    OpCase("FloorMod", [np.array([7.5, -7.5]), np.array([2.2, 3.1])], gradient=(0, 1)),
    OpCase(
        "DivNoNan",
        [np.array([1.0, 0, np.nan, np.inf, 3]), np.array([0.0, 0, 0, 0, 2])],
        expected=np.array([0, 0, 0, 0, 1.5]),
    ),
    OpCase(
        "Maximum",
        [np.array([np.nan, 1.0, 2.0]), np.array([1.0, np.nan, 3.0])],
        expected=np.array([np.nan, np.nan, 3.0]),
    ),
    OpCase(
        "Minimum",
        [np.array([np.nan, 1.0, 2.0]), np.array([1.0, np.nan, 3.0])],
        expected=np.array([np.nan, np.nan, 2.0]),
    ),
    OpCase("Pow", [POSITIVE, X], expected=np.power, gradient=(0, 1), dtypes=FIELD, rtol=2e-6),
    OpCase("Pow", [POSITIVE, X], gradient=(0, 1), second_order=True),
    OpCase("Pow", [POSITIVE, ROW], expected=np.power, gradient=(0, 1), dtypes=FIELD),
    OpCase("Pow", [EMPTY, ROW], expected=np.power, gradient=(0, 1), dtypes=FIELD),
    OpCase("Pow", [np.array([3, -2, 0]), np.array([2, 3, 0])], expected=np.array([9, -8, 1])),
    OpCase(
        "Pow",
        [np.array([-8, -2, 0, 0, np.inf, np.nan, 1]), np.array([1 / 3, 2, 0, -1, 0, 0, np.nan])],
        expected=np.array([np.nan, 4, 1, np.inf, 1, 1, 1]),
    ),
    OpCase("Pow", [np.array([-2.0, 3.0]), np.array([2.0, 2.0])], gradient=(0,)),
    *(
        OpCase(
            "Pow",
            [np.array([[-1.5, 0.25, 2.0]]), exponent],
            expected=np.power,
            gradient=(0,),
            dtypes=[dtypes.float32, dtypes.float64],
        )
        for exponent in (np.array(3.0), np.array([-2.0]), np.array([[16.0]]), np.array([[[3.0]]]))
    ),
]

Y, DY = POSITIVE, X
CASES += [
    OpCase(op, [Y, DY], expected=function, gradient=(0, 1), second_order=True, dtypes=kinds)
    for kinds in (sorted(dtypes.FLOATING, key=int),)
    for op, function in (
        ("SqrtGrad", lambda y, dy: dy * 0.5 / y),
        ("RsqrtGrad", lambda y, dy: -0.5 * dy * y**3),
        ("ReciprocalGrad", lambda y, dy: -dy * y**2),
        ("InvGrad", lambda y, dy: -dy * y**2),
    )
]
COMPLEX_Y, COMPLEX_DY = np.array([1 + 2j, 0.5 - 1j]), np.array([2 - 1j, 1j])
CASES += [
    OpCase("SqrtGrad", [COMPLEX_Y, COMPLEX_DY], expected=COMPLEX_DY / 2 / COMPLEX_Y.conj()),
    OpCase("RsqrtGrad", [COMPLEX_Y, COMPLEX_DY], expected=-COMPLEX_DY / 2 * COMPLEX_Y.conj() ** 3),
    OpCase("ReciprocalGrad", [COMPLEX_Y, COMPLEX_DY], expected=-COMPLEX_DY * COMPLEX_Y.conj() ** 2),
    OpCase("AddN", [[X]], expected=lambda xs: xs[0], gradient=(0,)),
    OpCase(
        "AddN",
        [[X, NONZERO, POSITIVE]],
        expected=lambda xs: xs[0] + xs[1] + xs[2],
        gradient=(0, 1, 2),
        second_order=True,
    ),
    OpCase("AddN", [[np.array(1.5), np.array(2.0)]], expected=sum, gradient=(0, 1)),
    OpCase("AddN", [[EMPTY, EMPTY]], expected=lambda xs: xs[0], gradient=(0, 1)),
]

# Cast: values that every type can hold, and extreme conversions as in TensorFlow.
PLAIN = sorted(dtypes.PLAIN, key=int)
CASES += [
    OpCase(
        "Cast",
        [np.array([0, 1, 3])],
        {"DstT": target},
        expected=lambda x, target=target: (
            x.astype(target.numpy)
            if target.is_complex or x.dtype.kind != "c"
            else x.real.astype(target.numpy)
        ),
        dtype_attr="SrcT",
    )
    for target in PLAIN
]
CASES += [
    OpCase("Cast", [X], {"DstT": dtypes.float64}, gradient=(0,), dtype_attr="SrcT"),
    OpCase("Cast", [EMPTY], {"DstT": dtypes.int32}, expected=np.zeros((0, 3), np.int32)),
    OpCase("Cast", [np.array([-1.7, 300.7])], {"DstT": dtypes.int32}, expected=np.array([-1, 300])),
    OpCase(
        "Cast",
        [np.array([0.0, -0.0, 0.3, np.nan])],
        {"DstT": dtypes.bool_},
        expected=np.array([False, False, True, True]),
    ),
]


def axes(*numbers):
    return np.array(numbers, np.int32)


CASES += [
    OpCase("BroadcastGradientArgs", [axes(*first), axes(*second)], expected=result)
    for first, second, result in (
        ((2, 1, 3), (5, 3), (axes(1), axes(0))),
        ((2, 1, 3), (2, 1, 3), (axes(), axes())),
        ((), (1, 1, 3), (axes(0, 1, 2), axes(0, 1))),
        ((1, 3), (1, 1), (axes(0), axes(0, 1))),
        ((0, 3), (3,), (axes(), axes(0))),
    )
]
CASES.append(
    OpCase(
        "BroadcastGradientArgs",
        [np.array([4, 1], np.int64), np.array([2], np.int64)],
        expected=(np.array([1], np.int64), np.array([0], np.int64)),
    )
)

WRONG_SHAPES = [
    WrongShapeCase(
        op,
        [(2, 3), (4,)],
        message="Dimensions must be equal, but are 3 and 4 for shapes (2, 3) and (4,)",
    )
    for op in [name for name, _ in BINARY]
    + ["Div", "RealDiv", "DivNoNan", "FloorDiv", "TruncateDiv", "FloorMod", "Mod", "TruncateMod"]
    + ["Pow"]
]
WRONG_SHAPES += [
    WrongShapeCase(
        "AddN",
        [(2, 3), (None, 4)],
        {"N": 2},
        message="Shapes (2, 3) and (?, 4) are not compatible",
    ),
    WrongShapeCase(
        "BroadcastGradientArgs",
        [(2, 2), (2,)],
        {"T": dtypes.int32},
        message="Shape must be rank 1 but is rank 2: s0 has shape (2, 2)",
    ),
]

ONE, ZERO = np.array([1, 1], np.int64), np.array([1, 0], np.int64)
FAILURES = [
    FailureCase(
        "AddN",
        [[np.ones(2), np.ones((2, 1))]],
        message="AddN takes tensors of one shape, got (2,) and (2, 1)",
    ),
    *(
        FailureCase(op, [ONE, ZERO], message="Integer division by zero")
        for op in ("Div", "FloorDiv", "TruncateDiv", "FloorMod", "Mod", "TruncateMod")
    ),
    FailureCase("Pow", [ONE, -ONE], message="Integers to negative integer powers are not allowed"),
    FailureCase(
        "BroadcastGradientArgs",
        [axes(2, 3), axes(4)],
        message="Incompatible shapes: [2, 3] vs. [4]",
    ),
]
