"""Rows of `joining` and `stacking`."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from support.op_cases import FailureCase, OpCase, WrongShapeCase

A = np.array([[-2.5, 0.5, 4.0], [1.25, 2.0, 3.5]])
B = np.array([[1.0, -1.0, 2.5]])
CUBE = np.arange(24.0).reshape(2, 3, 4) - 10
EMPTY = np.zeros((0, 3))
WORDS = np.array([b"a", b"bc"], object)


def ints(*values):
    return np.array(values, np.int32)


def index(value):
    return np.array(value, np.int32)


CASES = [
    *(
        OpCase(
            "ConcatV2",
            [values, index(axis)],
            expected=np.concatenate,
            gradient=range(len(values)),
            second_order=True,
        )
        for values, axis in (
            ([A, B], 0),
            ([A, A, A[:, :1]], 1),
            ([A, A[:, 1:]], -1),
            ([CUBE, CUBE], 1),
        )
    ),
    OpCase("ConcatV2", [[EMPTY, A], index(0)], expected=np.concatenate, gradient=(0, 1)),
    OpCase("ConcatV2", [[A, B], np.array(0)], expected=np.concatenate([A, B])),
    *(
        OpCase(
            "Concat",
            [index(axis), values],
            expected=lambda axis, values: np.concatenate(values, axis),
            gradient=(1, 2),
        )
        for axis, values in ((0, [A, B]), (-1, [A, A[:, 1:]]))
    ),
    OpCase(
        "ConcatOffset",
        [index(1), [ints(2, 3), ints(2, 0), ints(2, 4)]],
        expected=(ints(0, 0), ints(0, 3), ints(0, 3)),
    ),
    *(
        OpCase(
            "Split",
            [index(axis), x],
            {"num_split": parts},
            expected=lambda axis, x, parts=parts: tuple(np.split(x, parts, axis)),
            gradient=(1,),
            second_order=True,
        )
        for axis, x, parts in ((0, A, 2), (1, A, 3), (-1, CUBE, 2), (0, A, 1))
    ),
    OpCase("Split", [index(0), EMPTY], {"num_split": 2}, expected=(EMPTY, EMPTY)),
    *(
        OpCase(
            "SplitV",
            [x, ints(*sizes), index(axis)],
            {"num_split": len(sizes)},
            expected=expected,
            gradient=(0,),
            second_order=True,
        )
        for x, sizes, axis, expected in (
            (A, (1, 2), 1, lambda x, *_: (x[:, :1], x[:, 1:])),
            (A, (1, -1, 0), 1, lambda x, *_: (x[:, :1], x[:, 1:], x[:, :0])),
            (CUBE, (2,), 0, lambda x, *_: (x,)),
            (CUBE, (-1, 3), -1, lambda x, *_: (x[..., :1], x[..., 1:])),
        )
    ),
    OpCase(
        "SplitV", [EMPTY, np.array([0, 0]), index(0)], {"num_split": 2}, expected=(EMPTY, EMPTY)
    ),
    *(
        OpCase(
            "Pack",
            [values],
            {"axis": axis},
            expected=lambda values, axis=axis: np.stack(values, axis),
            gradient=range(len(values)),
            second_order=True,
        )
        for values, axis in (([A, A + 1], 0), ([A, A * 2, -A], 1), ([A], -1), ([np.array(2.0)], 0))
    ),
    OpCase("Pack", [[EMPTY, EMPTY]], expected=np.stack),
    OpCase("Pack", [[np.array(b"a", object), np.array(b"bc", object)]], expected=WORDS),
    OpCase("ConcatV2", [[WORDS, WORDS[:1]], index(0)], expected=WORDS[[0, 1, 0]]),
    OpCase(
        "Unpack", [WORDS], {"num": 2}, expected=(np.array(b"a", object), np.array(b"bc", object))
    ),
    *(
        OpCase(
            "Unpack",
            [x],
            {"axis": axis, "num": x.shape[axis]},
            expected=lambda x, axis=axis: tuple(np.moveaxis(x, axis, 0)),
            gradient=(0,),
            second_order=True,
        )
        for x, axis in ((A, 0), (CUBE, 1), (CUBE, -1), (A[0], 0))
    ),
    OpCase("Unpack", [EMPTY], {"axis": 1, "num": 3}, expected=(EMPTY[:, 0],) * 3),
    OpCase("Unpack", [EMPTY], {"num": 0}, expected=()),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "ConcatV2",
        [(2, 3), (2, 4), ()],
        {"N": 2},
        values={2: index(0)},
        message="ConcatOp : Dimension 1 in both shapes must be equal, but are 3 and 4. "
        "Dimensions of inputs should match: "
        "shape[0] = [2,3] vs. shape[1] = [2,4]",
    ),
    WrongShapeCase(
        "ConcatV2",
        [(2, 3), (2,), ()],
        {"N": 2},
        message="Shape must be rank 2 but is rank 1: ConcatOp : Ranks of all input tensors "
        "should match: shape[0] = [2,3] vs. shape[1] = [2]",
    ),
    WrongShapeCase(
        "ConcatV2",
        [(2, 3), (2, 3), ()],
        {"N": 2},
        values={2: index(2)},
        message="Shape must be at least rank 3 but is rank 2: ConcatOp : Expected concatenating "
        "dimensions in the range [-2, 2), but got 2",
    ),
    WrongShapeCase(
        "Concat",
        [(), (), ()],
        {"N": 2},
        message="ConcatOp : Can't concatenate scalars (use tf.stack instead)",
    ),
    WrongShapeCase(
        "Split",
        [(), (2, 4)],
        {"num_split": 3},
        values={0: index(1)},
        message="Dimension size must be evenly divisible by 3 but is 4",
    ),
    WrongShapeCase(
        "Split",
        [(), (2, 4)],
        {"num_split": 3},
        values={0: index(-3)},
        message="Dimension size, given by scalar input -3 must be in range [-2, 2): "
        "it is split_dim",
    ),
    WrongShapeCase(
        "SplitV",
        [(2, 4), (2,), ()],
        {"num_split": 2},
        values={1: ints(1, 2), 2: index(1)},
        message="can't split axis of size 4 into pieces of size [1,2]",
    ),
    WrongShapeCase(
        "SplitV",
        [(2, 4), (3,), ()],
        {"num_split": 2},
        message="size_splits has 3 elements, but num_split is 2",
    ),
    WrongShapeCase(
        "SplitV",
        [(2, 4), (2,), ()],
        {"num_split": 2},
        values={1: ints(-1, -1), 2: index(1)},
        message="size_splits [-1,-1] may hold one -1 and else no negative size",
    ),
    WrongShapeCase(
        "Pack",
        [(2, 3), (2, 4)],
        {"N": 2},
        message="Dimension 1 in both shapes must be equal, but are 3 and 4. Shapes are [2,3] and "
        "[2,4].\n\tFrom merging shape 0 with other shapes. Shapes of all inputs must match: "
        "values[0].shape = [2,3] != values[1].shape = [2,4]",
    ),
    WrongShapeCase("Pack", [(2,), (2,)], {"N": 2, "axis": 2}, message="axis = 2 not in [-2, 2)"),
    WrongShapeCase(
        "Unpack",
        [(2, 3)],
        {"num": 3},
        message="Dimension must be 3 but is 2: Input shape axis 0 must equal 3, got shape [2,3]",
    ),
]

FAILURES = [
    FailureCase(
        "ConcatV2",
        [[A, B], index(1)],
        message="ConcatOp : Dimension 0 in both shapes must be equal, but are 2 and 1. "
        "Dimensions of inputs should match: "
        "shape[0] = [2,3] vs. shape[1] = [1,3]",
    ),
    FailureCase("ConcatV2", [[A, B], ints(0)], message="axis must be a scalar, got shape [1]"),
    FailureCase(
        "ConcatOffset",
        [index(0), [ints(2, 3), ints(2, 4)]],
        message="ConcatOp : Dimension 1 in both shapes must be equal, but are 3 and 4. "
        "Dimensions of inputs should match: "
        "shape[0] = [2,3] vs. shape[1] = [2,4]",
    ),
    FailureCase(
        "Split",
        [index(1), A],
        {"num_split": 2},
        message="Dimension size must be evenly divisible by 2 but is 3",
    ),
    FailureCase(
        "SplitV",
        [A, ints(2, 2), index(1)],
        {"num_split": 2},
        message="can't split axis of size 3 into pieces of size [2,2]",
    ),
    FailureCase(
        "Pack",
        [[A, B]],
        message="Shapes of all inputs must match: "
        "values[0].shape = [2,3] != values[1].shape = [1,3]",
    ),
    FailureCase(
        "Unpack",
        [A],
        {"num": 3},
        message="Dimension must be 3 but is 2: Input shape axis 0 must equal 3, got shape [2,3]",
    ),
]
