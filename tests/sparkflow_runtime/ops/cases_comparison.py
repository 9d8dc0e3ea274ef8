"""Rows of `comparison`."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime import dtypes
from support.op_cases import FailureCase, OpCase, WrongShapeCase

X = np.array([[-2.0, 1.0, 3.0], [4.0, 0.0, 2.0]])
Y = np.array([[-2.0, 2.0, 1.0], [4.0, 5.0, 1.0]])
ROW = np.array([1.0, 0.0, 3.0])
NAN = np.array([np.nan, 1.0, np.nan])
EMPTY = np.zeros((0, 3))
T, F = True, False
TRUTH = np.array([T, T, F, F]), np.array([T, F, T, F])

COMPARISONS = [
    ("Equal", np.equal),
    ("NotEqual", np.not_equal),
    ("Less", np.less),
    ("LessEqual", np.less_equal),
    ("Greater", np.greater),
    ("GreaterEqual", np.greater_equal),
]
CASES = [
    OpCase(op, [x, y], expected=function)
    for op, function in COMPARISONS
    for x, y in ((X, Y), (X, ROW), (X[1, 1], X), (EMPTY, ROW))
]
CASES += [
    OpCase(op, [NAN, y], expected=function, dtypes=sorted(dtypes.FLOATING, key=int))
    for op, function in COMPARISONS
    for y in (ROW, NAN)
]

TEXTS = np.array([b"a", b"b", b""], object)
OTHER_TEXTS = np.array([b"a", b"c", b""], object)
CASES += [
    OpCase("Equal", [TEXTS, OTHER_TEXTS], expected=np.array([T, F, T])),
    OpCase("NotEqual", [TEXTS, OTHER_TEXTS], expected=np.array([F, T, F])),
    OpCase(
        "Equal",
        [np.ones(2), np.ones(3)],
        {"incompatible_shape_error": False},
        expected=np.array(False),
    ),
    OpCase(
        "NotEqual",
        [np.ones(2), np.ones(3)],
        {"incompatible_shape_error": False},
        expected=np.array(True),
    ),
    OpCase(
        "Equal",
        [np.ones((2, 1)), np.array([1.0, 2])],
        {"incompatible_shape_error": False},
        expected=np.array([[T, F], [T, F]]),
    ),
    OpCase("LogicalAnd", [*TRUTH], expected=np.array([T, F, F, F])),
    OpCase("LogicalOr", [*TRUTH], expected=np.array([T, T, T, F])),
    OpCase("LogicalAnd", [np.array([[T], [F]]), TRUTH[1]], expected=np.logical_and),
    OpCase("LogicalOr", [np.zeros((0, 4), bool), TRUTH[1]], expected=np.logical_or),
    OpCase("LogicalNot", [TRUTH[0]], expected=np.array([F, F, T, T])),
    OpCase("LogicalNot", [np.array(T)], expected=np.array(F)),
    OpCase("IsNan", [np.array([1, np.nan, np.inf])], expected=np.isnan),
    OpCase("IsInf", [np.array([1, np.nan, -np.inf])], expected=np.isinf),
    OpCase("IsFinite", [np.array([1, np.nan, -np.inf])], expected=np.isfinite),
    OpCase("IsFinite", [EMPTY], expected=np.isfinite),
    OpCase(
        "ApproximateEqual",
        [np.array([1, 0.5, 1.0, np.nan]), np.array([1.5, 1.0, 1.6, np.nan])],
        {"tolerance": 0.5},
        expected=np.array([T, T, F, F]),
    ),
    OpCase(
        "ApproximateEqual",
        [np.array([1, 4, 9]), np.array([4, 1, 5])],
        {"tolerance": 3.4},
        expected=np.array([T, T, F]),
        dtypes=sorted(dtypes.SIGNED | dtypes.FLOATING | dtypes.COMPLEX, key=int),
    ),
]

CONDITION = np.array([[T, F, T], [F, F, T]])
ROWS = np.array([T, F])
CUBE = np.arange(12.0).reshape(2, 3, 2)
CASES += [
    OpCase("Select", [CONDITION, X, Y], expected=np.where, gradient=(1, 2), second_order=True),
    OpCase("Select", [np.array(T), X, Y], expected=lambda c, t, e: t, gradient=(1, 2)),
    OpCase("Select", [np.array(F), X, Y], expected=lambda c, t, e: e, gradient=(1, 2)),
    OpCase(
        "Select",
        [ROWS, CUBE, -CUBE],
        expected=lambda c, t, e: np.where(c[:, None, None], t, e),
        gradient=(1, 2),
    ),
    OpCase("Select", [ROWS, X[0, :2], Y[0, :2]], expected=np.where, gradient=(1, 2)),
    OpCase("Select", [np.zeros(0, bool), EMPTY, EMPTY], expected=lambda c, t, e: t),
    OpCase("SelectV2", [CONDITION, X, Y], expected=np.where, gradient=(1, 2), second_order=True),
    OpCase("SelectV2", [CONDITION, ROW, Y], expected=np.where, gradient=(1, 2)),
    OpCase("SelectV2", [CONDITION, X, np.array(2.0)], expected=np.where, gradient=(1, 2)),
    OpCase("SelectV2", [ROWS[:, None], ROW, np.array(0.0)], expected=np.where, gradient=(1, 2)),
    OpCase("SelectV2", [np.array(T), X[:, :1], ROW], expected=np.where, gradient=(1, 2)),
    OpCase("SelectV2", [CONDITION[0], EMPTY, ROW], expected=np.where, gradient=(1, 2)),
    OpCase(
        "SelectV2",
        [np.array([T, F, T]), TEXTS, OTHER_TEXTS],
        expected=np.array([b"a", b"c", b""], object),
    ),
]

WRONG_SHAPES = [
    WrongShapeCase(
        op,
        [(2, 3), (4,)],
        {} if op.startswith("Logical") else {"T": dtypes.float32},
        message="Dimensions must be equal, but are 3 and 4 for shapes (2, 3) and (4,)",
    )
    for op in [name for name, _ in COMPARISONS] + ["LogicalAnd", "LogicalOr"]
]
WRONG_SHAPES += [
    WrongShapeCase(
        "ApproximateEqual", [(2,), (3,)], message="Shapes (2,) and (3,) are not compatible"
    ),
    WrongShapeCase("Select", [(2,), (2,), (1,)], message="Shapes (2,) and (1,) are not compatible"),
    WrongShapeCase(
        "Select",
        [(3,), (2, 2), (None, 2)],
        message="The condition of Select must be a scalar, a vector along the first axis of t or "
        "of the shape of t; got (3,) for t (2, 2)",
    ),
    WrongShapeCase(
        "Select",
        [(2, 3), (2, 2), None],
        message="The condition of Select must be a scalar, a vector along the first axis of t or "
        "of the shape of t; got (2, 3) for t (2, 2)",
    ),
    WrongShapeCase(
        "SelectV2",
        [(2,), (3,), (1,)],
        message="Dimensions must be equal, but are 3 and 2 for shapes (3,) and (2,)",
    ),
]

FAILURES = [
    FailureCase(
        "ApproximateEqual",
        [np.ones(2), np.ones((2, 1))],
        message="ApproximateEqual takes tensors of one shape, got (2,) and (2, 1)",
    ),
    FailureCase(
        "Select",
        [np.array(T), np.ones(2), np.ones((2, 1))],
        message="Select needs t and e of the same shape, got (2,) and (2, 1)",
    ),
    FailureCase(
        "Select",
        [np.array([T, F, T]), np.ones((2, 2)), np.ones((2, 2))],
        message="The condition of Select must be a scalar, a vector along the first axis of t or "
        "of the shape of t; got (3,) for t (2, 2)",
    ),
    FailureCase(
        "Select",
        [np.array([[T], [F]]), np.ones((2, 2)), np.ones((2, 2))],
        message="The condition of Select must be a scalar, a vector along the first axis of t or "
        "of the shape of t; got (2, 1) for t (2, 2)",
    ),
]
