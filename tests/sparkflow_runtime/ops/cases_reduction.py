"""Rows of `reduction` and `scan`."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime import dtypes
from support.op_cases import FailureCase, OpCase, WrongShapeCase

X = np.array([[1.0, -3.0, 2.0], [4.0, 2.5, -2.0]])
CUBE = np.arange(1.0, 25.0).reshape(2, 3, 4) * np.where(np.arange(4) % 2, -0.5, 0.25)
EMPTY = np.zeros((0, 3))
FLOATS = sorted(dtypes.FLOATING, key=int)
INEXACT = sorted(dtypes.FLOATING | dtypes.COMPLEX, key=int)


def axes(*numbers):
    return np.array(numbers, np.int32)


def reduced_by(function, keep_dims=False):
    def expected(x, indices, **_):
        result = function(x, axis=tuple(np.atleast_1d(indices)), keepdims=keep_dims)
        return np.asarray(result).astype(x.dtype)

    return expected


def mean(x, axis, keepdims):
    """Of integers rounded towards zero."""
    wide = x.astype(np.float64) if x.dtype.kind in "iu" else x
    result = np.mean(wide, axis=axis, keepdims=keepdims)
    return result if x.dtype.kind not in "iu" else np.trunc(result)


def norm(x, axis, keepdims):
    wide = x.astype(np.float64) if x.dtype.kind in "iu" else x
    result = np.sqrt(np.sum(np.abs(wide) ** 2, axis=axis, keepdims=keepdims))
    return result if x.dtype.kind not in "iu" else np.trunc(result)


REDUCTIONS = [
    ("Sum", np.sum),
    ("Mean", mean),
    ("Max", np.max),
    ("Min", np.min),
    ("Prod", np.prod),
    ("EuclideanNorm", norm),
]
WHAT = [
    (X, axes(0)),
    (X, axes(-1)),
    (X, axes(0, 1)),
    (X, axes(1, 0)),
    (X, np.array(1, np.int32)),
    (X, np.array([1], np.int64)),
    (X, axes()),
    (CUBE, axes(1)),
    (CUBE, axes(0, -1)),
    (CUBE, axes(2, 0)),
    (X[0, 0], axes()),
    (X[0], axes(0)),
]
# The products of CUBE overflow small integers and float16, for which numpy is no reference.
WIDE = [dtypes.float32, dtypes.float64, dtypes.int64, dtypes.complex64, dtypes.complex128]

CASES = [
    OpCase(
        op,
        [x, indices],
        {"keep_dims": keep_dims},
        expected=reduced_by(function, keep_dims),
        gradient=(0,),
        second_order=x is CUBE and op not in ("Max", "Min", "Prod"),
        dtypes=WIDE if op == "Prod" and x is CUBE else None,
        atol=1e-6,
        gradient_rtol=1e-5 if op == "Prod" else 1e-6,
    )
    for op, function in REDUCTIONS
    for x, indices in WHAT
    for keep_dims in (False, True)
]
CASES += [
    # Nothing to reduce, as in TensorFlow.
    OpCase("Sum", [EMPTY, axes(0)], expected=np.zeros(3), gradient=(0,)),
    OpCase("Sum", [EMPTY, axes(1)], expected=np.zeros(0), gradient=(0,)),
    OpCase("Mean", [EMPTY, axes(0)], expected=np.full(3, np.nan), gradient=(0,)),
    OpCase("Mean", [EMPTY.astype(np.int32), axes(0)], expected=np.zeros(3, np.int32)),
    OpCase("Prod", [EMPTY, axes(0)], expected=np.ones(3), gradient=(0,)),
    OpCase("Max", [EMPTY, axes(0)], expected=np.full(3, -np.inf), gradient=(0,)),
    OpCase("Min", [EMPTY, axes(0)], expected=np.full(3, np.inf), gradient=(0,)),
    OpCase(
        "Max",
        [EMPTY.astype(np.int32), axes(0)],
        expected=np.full(3, np.iinfo(np.int32).min, np.int32),
    ),
    OpCase(
        "Min",
        [EMPTY.astype(np.uint8), axes(0)],
        {"keep_dims": True},
        expected=np.full((1, 3), 255, np.uint8),
    ),
    OpCase("EuclideanNorm", [EMPTY, axes(0)], expected=np.zeros(3)),
    OpCase("Max", [np.array([1.0, np.nan]), axes(0)], expected=np.array(np.nan)),
    # Integers: sums wrap, means neither wrap nor round away from zero.
    OpCase("Sum", [np.array([100, 100, 101], np.int8), axes(0)], expected=np.array(45)),
    OpCase("Mean", [np.array([100, 100, 101], np.int8), axes(0)], expected=np.array(100)),
    OpCase("Mean", [np.array([200, 200, 201], np.uint8), axes(0)], expected=np.array(200)),
    OpCase("Mean", [np.array([-1, -2, -2], np.int32), axes(0)], expected=np.array(-1)),
    OpCase("EuclideanNorm", [np.array([3, 5], np.int32), axes(0)], expected=np.array(5)),
    OpCase(
        "EuclideanNorm",
        [np.array([3 + 4j, 1j]), axes(0)],
        expected=np.array(np.sqrt(26), np.complex128),
    ),
    OpCase(
        "Mean", [np.full(100, 60000.0, np.float16), axes(0)], expected=np.array(60000, np.float16)
    ),
    # The product rule holds where factors are 0, too.
    OpCase("Prod", [np.array([0.0, 3.0, 2.0]), axes(0)], gradient=(0,)),
    OpCase("Prod", [np.array([0.0, 3.0, 0.0, 2.0]), axes(0)], gradient=(0,)),
    OpCase("Prod", [np.where(CUBE > 3.2, 0.0, CUBE), axes(0, 2)], gradient=(0,)),
    OpCase("Prod", [np.where(CUBE > 2, 0.0, CUBE), axes(2, 0, 1)], gradient=(0,)),
    OpCase("Prod", [np.ones((2, 0, 3)), axes(0, 2)], expected=np.ones(0), gradient=(0,)),
]
for op, function in (("All", np.all), ("Any", np.any)):
    for keep_dims in (False, True):
        CASES += [
            OpCase(
                op, [x, indices], {"keep_dims": keep_dims}, expected=reduced_by(function, keep_dims)
            )
            for x in (X > 0, EMPTY > 0)
            for indices in (axes(0), axes(1), axes(0, 1), axes())
        ]
CASES += [
    OpCase("L2Loss", [X], expected=lambda x: np.asarray((x**2).sum() / 2), gradient=(0,)),
    OpCase(
        "L2Loss",
        [CUBE],
        expected=lambda x: np.asarray((x**2).sum() / 2),
        gradient=(0,),
        second_order=True,
    ),
    OpCase("L2Loss", [EMPTY], expected=lambda x: np.zeros(()), gradient=(0,)),
    OpCase("L2Loss", [np.full(100, 30.0, np.float16)], expected=np.array(45000, np.float16)),
]


def scanned_by(function, axis, exclusive, reverse, identity):
    def expected(x, _):
        x = np.moveaxis(x, axis, 0)
        x = x[::-1] if reverse else x
        if exclusive:
            x = np.concatenate([np.full_like(x[:1], identity), x[:-1]])
        result = function(x, axis=0, dtype=x.dtype)
        return np.moveaxis(result[::-1] if reverse else result, 0, axis)

    return expected


CASES += [
    OpCase(
        op,
        [x, np.array(axis, np.int32)],
        {"exclusive": exclusive, "reverse": reverse},
        expected=scanned_by(function, axis, exclusive, reverse, identity),
        gradient=(0,),
        second_order=x is CUBE and op == "Cumsum",
        dtypes=WIDE if x is CUBE else None,
        atol=1e-6,
        rtol=2e-6,
    )
    for op, function, identity in (("Cumsum", np.cumsum, 0), ("Cumprod", np.cumprod, 1))
    for x, axis in ((X, 0), (X, -1), (CUBE, 1), (EMPTY, 0))
    for exclusive in (False, True)
    for reverse in (False, True)
]

TIED = np.array([[3.0, 1.0, 3.0], [0.0, 0.0, 2.0]])
CASES += [
    OpCase(
        op,
        [x, np.array(axis, index)],
        {"output_type": output},
        expected=lambda x, axis, f=function, output=output: f(x, axis).astype(output.numpy),
    )
    for op, function in (("ArgMax", np.argmax), ("ArgMin", np.argmin))
    for x, axis, index, output in (
        (TIED, 1, np.int32, dtypes.int64),
        (TIED, -2, np.int64, dtypes.int32),
        (CUBE, 1, np.int32, dtypes.int64),
        (EMPTY, 1, np.int32, dtypes.int64),
    )
]

COMPLEX = np.array([[1 + 2j, -0.5 + 0.25j], [0.75 - 1j, 2 + 0.5j]])
CASES += [
    *(
        OpCase(op, [COMPLEX, axes(0)], gradient=(0,))
        for op in ("Sum", "Mean", "Prod", "EuclideanNorm")
    ),
    OpCase("Cumsum", [COMPLEX, np.array(0, np.int32)], gradient=(0,)),
    OpCase("Cumprod", [COMPLEX, np.array(0, np.int32)], gradient=(0,)),
]

ALL_REDUCTIONS = [op for op, _ in REDUCTIONS] + ["All", "Any"]
WRONG_SHAPES = [
    case
    for op in ALL_REDUCTIONS
    for case in (
        WrongShapeCase(
            op,
            [(2, 3), (1,)],
            {"Tidx": dtypes.int32},
            values={1: [2]},
            message="Invalid reduction dimension 2 for input with 2 dimensions, shape (2, 3)",
        ),
        WrongShapeCase(
            op,
            [(2, 3), (1, 1)],
            {"Tidx": dtypes.int32},
            message="reduction_indices must be a scalar or vector, got shape (1, 1)",
        ),
    )
]
WRONG_SHAPES += [
    WrongShapeCase(
        op,
        [(3,), ()],
        {"Tidx": dtypes.int32, "output_type": dtypes.int64},
        values={1: 1},
        message="Dimension (1) must be in the range [-1, 1), where 1 is the number of dimensions "
        f"in the input of {op}",
    )
    for op in ("ArgMax", "ArgMin")
]

FAILURES = [
    *(
        FailureCase(
            op,
            [X > 0 if op in ("All", "Any") else X, axes(2)],
            message="Invalid reduction dimension 2 for input with 2 dimensions, shape (2, 3)",
        )
        for op in ALL_REDUCTIONS
    ),
    *(
        FailureCase(
            op,
            [X > 0 if op in ("All", "Any") else X, axes(0, -2)],
            message="Invalid reduction arguments: Axes contains duplicate dimension: 0",
        )
        for op in ALL_REDUCTIONS
    ),
    *(
        FailureCase(
            op,
            [EMPTY, np.array(0, np.int32)],
            message="Reduction axis 0 is empty in shape [0,3]",
        )
        for op in ("ArgMax", "ArgMin")
    ),
    FailureCase(
        "Cumsum",
        [X, np.array(-3, np.int32)],
        message="ScanOp: Expected scan axis in the range [-2, 2), but got -3",
    ),
]
