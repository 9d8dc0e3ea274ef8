"""Rows of `slicing` and `padding`. More masks are in golden/ops/strided_slice.npz."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from support.op_cases import FailureCase, OpCase, WrongShapeCase

X = np.array([[-2.5, 0.5, 4.0], [1.25, 2.0, 3.5]])
CUBE = np.arange(24.0).reshape(2, 3, 4) - 10
EMPTY = np.zeros((0, 3))


def ints(*values):
    return np.array(values, np.int32)


def pairs(*values):
    return np.array(values, np.int32).reshape(-1, 2)


def padded(mode):
    return lambda x, widths: np.pad(x, widths, mode.lower())


def strided(x, begin, end, strides, expected, /, **masks):
    attrs = {f"{name}_mask": value for name, value in masks.items()}
    bounds = [ints(*each) for each in (begin, end, strides)]
    return OpCase(
        "StridedSlice", [x, *bounds], attrs, expected=expected, gradient=(0,), second_order=True
    )


def folded(x, widths, mode):
    """Adds every element of x to the position it mirrors, one by one."""
    inner = [d - a - b for d, (a, b) in zip(x.shape, widths, strict=True)]
    source = np.pad(np.arange(np.prod(inner)).reshape(inner), widths, mode.lower())
    result = np.zeros(int(np.prod(inner)), x.dtype)
    np.add.at(result, source.reshape(-1), x.reshape(-1))
    return result.reshape(inner)


CASES = [
    *(
        OpCase(
            "Slice",
            [x, ints(*begin), ints(*size)],
            expected=expected,
            gradient=(0,),
            second_order=True,
        )
        for x, begin, size, expected in (
            (X, (0, 1), (2, 2), lambda x, *_: x[:, 1:]),
            (X, (1, 0), (-1, 1), lambda x, *_: x[1:, :1]),
            (CUBE, (1, 1, 2), (1, 0, -1), lambda x, *_: x[1:2, 1:1, 2:]),
            (X[0], (3,), (0,), lambda x, *_: x[3:]),
        )
    ),
    OpCase("Slice", [EMPTY, np.array([0, 1]), np.array([0, 2])], expected=EMPTY[:, 1:]),
    strided(X, (0, 0), (2, 3), (1, 2), lambda x, *_: x[:, ::2]),
    strided(X, (1,), (5,), (1,), lambda x, *_: x[1:]),
    strided(X, (-1,), (0,), (1,), lambda x, *_: x[-1], shrink_axis=1),
    strided(CUBE, (0, -2), (0, 0), (1, 1), lambda x, *_: x[..., -2], ellipsis=1, shrink_axis=2),
    strided(
        CUBE,
        (0, 2, 0),
        (0, 0, 3),
        (1, -1, 2),
        lambda x, *_: x[None, ::-1, 0:3:2],
        new_axis=1,
        begin=2,
        end=2,
    ),
    strided(CUBE, (), (), (), lambda x, *_: x),
    strided(X, (2,), (1,), (1,), lambda x, *_: x[2:1]),
    OpCase("StridedSlice", [EMPTY, ints(0), ints(2), ints(1)], expected=EMPTY),
    OpCase(
        "StridedSlice",
        [np.array([b"a", b"bc"], object), ints(1), ints(2), ints(1)],
        {"shrink_axis_mask": 1},
        expected=np.array(b"bc", object),
    ),
    OpCase(
        "StridedSliceGrad",
        [ints(2, 3), ints(0, 0), ints(2, 3), ints(1, 2), X[:, :2]],
        expected=lambda *inputs: np.insert(inputs[4], 1, 0, axis=1),
        gradient=(4,),
        second_order=True,
    ),
    OpCase(
        "StridedSliceGrad",
        [ints(2, 3), ints(0, 1), ints(0, 0), ints(1, 1), X[:, 2]],
        {"ellipsis_mask": 1, "shrink_axis_mask": 2},
        expected=lambda *inputs: np.stack([0 * inputs[4], inputs[4], 0 * inputs[4]], axis=1),
        gradient=(4,),
        second_order=True,
    ),
    *(
        OpCase("ReverseV2", [x, ints(*axes)], expected=np.flip, gradient=(0,), second_order=True)
        for x, axes in ((X, (0,)), (X, (-1,)), (CUBE, (0, 2)), (CUBE, ()))
    ),
    OpCase("ReverseV2", [EMPTY, ints(0)], expected=np.flip),
    *(
        OpCase("Pad", [x, pairs(*widths)], expected=np.pad, gradient=(0,), second_order=True)
        for x, widths in ((X, (1, 0, 0, 2)), (CUBE, (0, 0, 1, 1, 2, 0)))
    ),
    OpCase("Pad", [EMPTY, pairs(1, 1, 0, 1)], expected=np.pad),
    OpCase("Pad", [X, pairs(1, 0, 0, 2).astype(np.int64)], expected=np.pad),
    OpCase(
        "PadV2",
        [X, pairs(1, 0, 0, 2), 7.5],
        expected=lambda x, widths, value: np.pad(x, widths, constant_values=value),
        gradient=(0,),
    ),
    *(
        OpCase(
            "MirrorPad",
            [x, pairs(*widths)],
            {"mode": mode},
            expected=padded(name),
            gradient=(0,),
            second_order=True,
        )
        for mode, name in (("REFLECT", "reflect"), ("SYMMETRIC", "symmetric"))
        for x, widths in ((X, (1, 0, 2, 1)), (CUBE, (0, 1, 0, 0, 3, 2)), (X[0], (0, 0)))
    ),
    OpCase(
        "MirrorPad", [X, pairs(2, 2, 3, 3)], {"mode": "SYMMETRIC"}, expected=padded("symmetric")
    ),
    OpCase(
        "MirrorPad", [EMPTY, pairs(0, 0, 1, 0)], {"mode": "REFLECT"}, expected=padded("reflect")
    ),
    *(
        OpCase(
            "MirrorPadGrad",
            [x, pairs(*widths)],
            {"mode": mode},
            expected=lambda x, widths, mode=mode: folded(x, widths, mode),
            gradient=(0,),
        )
        for mode in ("REFLECT", "SYMMETRIC")
        for x, widths in ((CUBE, (0, 0, 1, 0, 1, 1)),)
    ),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "Slice",
        [(2, 3), (2,), (2,)],
        values={1: ints(0, 4), 2: ints(1, 1)},
        message="Expected begin[1] in [0, 3], but got 4",
    ),
    WrongShapeCase(
        "Slice",
        [(2, 3), (2,), (2,)],
        values={1: ints(0, 2), 2: ints(1, -2)},
        message="Expected size[1] to be at least -1, but got -2",
    ),
    WrongShapeCase(
        "Slice",
        [(None, 3), (2,), (2,)],
        values={1: ints(-1, 2), 2: ints(1, 1)},
        message="Expected begin[0] in [0, ?], but got -1",
    ),
    WrongShapeCase(
        "Slice",
        [(2, 3), (1,), (1,)],
        values={1: ints(0), 2: ints(1)},
        message="Expected begin and size arguments to be 1-D tensors of size 2, but got 1",
    ),
    WrongShapeCase(
        "StridedSlice",
        [(2, 3), (1,), (1,), (1,)],
        {"shrink_axis_mask": 1},
        values={1: ints(2), 2: ints(3), 3: ints(1)},
        message="slice index 2 of dimension 0 out of bounds.",
    ),
    WrongShapeCase(
        "StridedSlice",
        [(2,), (2,), (2,), (2,)],
        values={1: ints(0, 0), 2: ints(1, 1), 3: ints(1, 1)},
        message="Index out of range using input dim 1; input has only 1 dims",
    ),
    WrongShapeCase(
        "StridedSlice",
        [(2,), (1,), (1,), (1,)],
        values={1: ints(0), 2: ints(1), 3: ints(0)},
        message="strides[0] must be non-zero",
    ),
    WrongShapeCase(
        "StridedSlice",
        [(2,), (2,), (1,), (1,)],
        message="Expected begin, end, and strides to be 1D equal size tensors, "
        "but got shapes [2], [1], [1] instead",
    ),
    WrongShapeCase(
        "StridedSlice",
        [(2,), (2,), (2,), (2,)],
        {"ellipsis_mask": 3},
        message="Multiple ellipses in slice spec not allowed",
    ),
    WrongShapeCase(
        "StridedSlice",
        [(2,), (1,), (1,), (1,)],
        {"shrink_axis_mask": 1},
        values={1: ints(0), 2: ints(1), 3: ints(-1)},
        message="only stride 1 allowed on non-range indexing.",
    ),
    WrongShapeCase(
        "ReverseV2",
        [(2, 3), (1,)],
        values={1: ints(2)},
        message="'axis'[2] is out of valid range [-2, 1]",
    ),
    WrongShapeCase(
        "ReverseV2",
        [(2, 3), (2,)],
        values={1: ints(0, -2)},
        message="axis 0 specified more than once.",
    ),
    WrongShapeCase(
        "Pad",
        [(2, 3), (3, 2)],
        message="The first dimension of paddings must be the rank of inputs: [3,2], [2,3]",
    ),
    WrongShapeCase(
        "Pad", [(2, 3), (2, 3)], message="paddings must be a matrix with 2 columns: [2,3]"
    ),
    WrongShapeCase(
        "Pad",
        [(2,), (1, 2)],
        values={1: pairs(0, -1)},
        message="Paddings must be non-negative: [[0, -1]]",
    ),
]

FAILURES = [
    FailureCase(
        "Slice", [X, ints(0, 0), ints(3, 1)], message="Expected size[0] in [0, 2], but got 3"
    ),
    FailureCase(
        "StridedSlice",
        [X, ints(-3), ints(0), ints(1)],
        {"shrink_axis_mask": 1},
        message="slice index -3 of dimension 0 out of bounds.",
    ),
    FailureCase(
        "StridedSliceGrad",
        [ints(2, 3), ints(0), ints(1), ints(1), X],
        message="shape of dy was [2,3] instead of [1,3]",
    ),
    FailureCase("ReverseV2", [X, ints(-3)], message="'axis'[-3] is out of valid range [-2, 1]"),
    FailureCase(
        "Pad",
        [X, pairs(1, 1)],
        message="paddings must be a matrix of shape [2,2] for a tensor of rank 2, "
        "but has shape [1,2]",
    ),
    FailureCase(
        "MirrorPad",
        [X, pairs(0, 0, 3, 0)],
        {"mode": "REFLECT"},
        message="paddings must be less than the dimension size: 3 and 0 for size 3 of dimension 1",
    ),
]
