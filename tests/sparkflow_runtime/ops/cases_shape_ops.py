"""Rows of `constants`, `shape_ops` and `arranging`."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime import dtypes
from support.op_cases import FailureCase, OpCase, WrongShapeCase

X = np.array([[-2.5, 0.5, 4.0], [1.25, 2.0, 3.5]])
CUBE = np.arange(24.0).reshape(2, 3, 4) - 10
EMPTY = np.zeros((0, 3))
SCALAR = np.array(2.5)
WORDS = np.array([b"a", b"bc"], object)


def ints(*values):
    return np.array(values, np.int32)


def index(value):
    return np.array(value, np.int32)


def sizes(x, kind=np.int32):
    return np.array(x.shape, kind)


CASES = [
    *(
        OpCase(op, [x], expected=lambda x: x, gradient=(0,), second_order=True)
        for op in ("Identity",)
        for x in (X, EMPTY, SCALAR)
    ),
    OpCase("PreventGradient", [X], {"message": "no"}, expected=lambda x: x),
    OpCase("StopGradient", [X], expected=lambda x: x),
    OpCase("CheckNumerics", [X], {"message": "bad"}, expected=lambda x: x, gradient=(0,)),
    OpCase("CheckNumerics", [EMPTY], {"message": "bad"}, expected=lambda x: x),
    OpCase("IdentityN", [[X, ints(1, 2)]], expected=(X, ints(1, 2)), gradient=(0,)),
    OpCase("Const", [], {"value": X, "dtype": dtypes.float64}, expected=X),
    OpCase("NoOp", [], expected=()),
    OpCase(
        "PlaceholderWithDefault",
        [X],
        {"shape": (None, 3)},
        expected=lambda x: x,
        gradient=(0,),
        dtype_attr="dtype",
        dynamic_shape=True,
    ),
    *(
        OpCase(op, [x], expected=function)
        for op, function in (("ZerosLike", np.zeros_like), ("OnesLike", np.ones_like))
        for x in (X, EMPTY, SCALAR)
    ),
    OpCase("Fill", [ints(2, 3), 2.5], expected=lambda d, v: np.full(d, v), gradient=(1,)),
    OpCase("Fill", [ints(), 2.5], expected=lambda d, v: np.full(d, v)),
    OpCase("Fill", [ints(0, 2), 2.5], expected=lambda d, v: np.full(d, v)),
    OpCase("Fill", [np.array([2], np.int64), 1.5], expected=np.array([1.5, 1.5])),
    *(
        OpCase("Range", inputs, expected=lambda a, b, c: np.arange(a, b, c), dtype_attr="Tidx")
        for inputs in ([2, 11, 3], [0, 3, 1], [5, 5, 1])
    ),
    OpCase("Range", [index(7), index(-2), index(-3)], expected=ints(7, 4, 1)),
    OpCase("Range", [0.5, 2.0, 0.25], expected=np.arange(0.5, 2.0, 0.25)),
    OpCase(  # in float64 the quotient is just above 3
        "Range",
        [np.float32(0), np.float32(1.2), np.float32(0.4)],
        expected=np.array([0, 0.4, 0.8], np.float32),
    ),
    *(
        OpCase("LinSpace", [-1.0, 2.0, index(num)], expected=np.linspace, rtol=3e-6)
        for num in (1, 2, 7)
    ),
    *(OpCase("Shape", [x], expected=sizes) for x in (X, EMPTY, SCALAR)),
    OpCase("Shape", [X], {"out_type": dtypes.int64}, expected=np.array([2, 3])),
    OpCase("ShapeN", [[X, CUBE]], expected=lambda each: tuple(map(sizes, each))),
    *(OpCase("Size", [x], expected=lambda x: np.int32(x.size)) for x in (X, EMPTY, SCALAR)),
    OpCase("Size", [X], {"out_type": dtypes.int64}, expected=np.int64(6)),
    *(OpCase("Rank", [x], expected=lambda x: np.int32(x.ndim)) for x in (X, EMPTY, SCALAR)),
    *(
        OpCase("Reshape", [x, ints(*to)], expected=np.reshape, gradient=(0,), second_order=True)
        for x, to in (
            (CUBE, (4, 6)),
            (CUBE, (2, -1)),
            (X, (-1,)),
            (SCALAR, (1, 1)),
            (X[:1, :1], ()),
        )
    ),
    OpCase("Reshape", [EMPTY, ints(3, 0)], expected=np.reshape),
    OpCase("Reshape", [EMPTY, ints(-1, 3)], expected=np.reshape),
    OpCase("Reshape", [EMPTY.T, ints(-1, 0)], expected=np.zeros((3, 0))),
    OpCase("Reshape", [X, np.array([3, 2])], expected=np.reshape),
    *(
        OpCase(
            "ExpandDims",
            [x, index(axis)],
            expected=np.expand_dims,
            gradient=(0,),
            second_order=True,
        )
        for x, axis in ((CUBE, 0), (CUBE, 2), (CUBE, -1), (CUBE, -4), (SCALAR, 0))
    ),
    OpCase("ExpandDims", [EMPTY, ints(1)], expected=lambda x, _: x[:, None]),
    OpCase("Squeeze", [CUBE[:1, :, :1]], expected=np.squeeze, gradient=(0,), second_order=True),
    OpCase("Squeeze", [CUBE[:1, :, :1]], {"squeeze_dims": [-1]}, expected=lambda x: x[..., 0]),
    OpCase("Squeeze", [EMPTY[None]], {"squeeze_dims": [0]}, expected=lambda x: x[0]),
    OpCase("Squeeze", [X], expected=np.squeeze),
    *(
        OpCase(
            "Transpose", [x, ints(*perm)], expected=np.transpose, gradient=(0,), second_order=True
        )
        for x, perm in ((X, (1, 0)), (CUBE, (2, 0, 1)), (CUBE, (0, 2, 1)))
    ),
    OpCase("Transpose", [EMPTY, ints(1, 0)], expected=np.transpose),
    OpCase("Transpose", [SCALAR, ints()], expected=SCALAR),
    OpCase("InvertPermutation", [ints(2, 0, 3, 1)], expected=ints(1, 3, 0, 2)),
    OpCase("InvertPermutation", [np.array([1, 0])], expected=np.array([1, 0])),
    OpCase("InvertPermutation", [ints()], expected=ints()),
    OpCase("Fill", [ints(2), WORDS[0]], expected=np.array([b"a", b"a"], object)),
    OpCase("Reshape", [WORDS, ints(1, -1)], expected=WORDS.reshape(1, 2)),
    OpCase("Tile", [WORDS, ints(2)], expected=np.tile(WORDS, 2)),
    OpCase("Transpose", [WORDS[None], ints(1, 0)], expected=WORDS[:, None]),
    *(
        OpCase(
            "BroadcastTo",
            [x, ints(*to)],
            expected=np.broadcast_to,
            gradient=(0,),
            second_order=True,
        )
        for x, to in ((X, (2, 3)), (X, (4, 2, 3)), (X[:, :1], (2, 2, 3)), (SCALAR, (2, 1)))
    ),
    OpCase("BroadcastTo", [EMPTY, ints(2, 0, 3)], expected=np.broadcast_to),
    *(
        OpCase("Tile", [x, ints(*times)], expected=np.tile, gradient=(0,), second_order=True)
        for x, times in ((X, (2, 1)), (X, (1, 3)), (CUBE, (2, 1, 2)), (X[0], (3,)))
    ),
    OpCase("Tile", [X, ints(2, 0)], expected=np.tile, gradient=(0,)),
    OpCase("Tile", [EMPTY, ints(2, 2)], expected=np.tile),
    OpCase("Tile", [SCALAR, ints()], expected=np.tile),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "Fill", [(2,), (3,)], message="Shape must be rank 0 but is rank 1: value has shape (3,)"
    ),
    WrongShapeCase(
        "Fill",
        [(2,), ()],
        values={0: ints(2, -1)},
        message="dims must have no negative size, got [2,-1]",
    ),
    WrongShapeCase(
        "PlaceholderWithDefault",
        [(2, 4)],
        {"shape": (None, 3), "dtype": dtypes.float32},
        message="Shapes (2, 4) and (?, 3) are not compatible",
    ),
    WrongShapeCase(
        "Range",
        [(), (), ()],
        values={0: index(0), 1: index(5), 2: index(0)},
        message="Requires delta != 0: 0",
    ),
    WrongShapeCase(
        "Range",
        [(), (), ()],
        values={0: index(0), 1: index(5), 2: index(-1)},
        message="Requires start >= limit when delta < 0: 0/5",
    ),
    WrongShapeCase(
        "Range", [(1,), (), ()], message="Shape must be rank 0 but is rank 1: start has shape (1,)"
    ),
    WrongShapeCase("LinSpace", [(), (), ()], values={2: index(0)}, message="Requires num > 0: 0"),
    WrongShapeCase(
        "Reshape",
        [(2, 3), (2,)],
        values={1: ints(4, 2)},
        message="Cannot reshape a tensor with 6 elements to shape [4,2] (8 elements)",
    ),
    WrongShapeCase(
        "Reshape",
        [(2, 3), (2,)],
        values={1: ints(-1, 4)},
        message="Dimension size must be evenly divisible by 4 but is 6",
    ),
    WrongShapeCase(
        "Reshape",
        [(2, 3), (2,)],
        values={1: ints(-1, 0)},
        message="Input to reshape is a tensor with 6 values, but the requested shape "
        "requires a multiple of 0",
    ),
    WrongShapeCase(
        "Reshape",
        [None, (2,)],
        values={1: ints(3, -2)},
        message="Size 1 must be non-negative, not -2",
    ),
    WrongShapeCase(
        "Reshape", [(2,), ()], message="Shape must be rank 1 but is rank 0: shape has shape ()"
    ),
    WrongShapeCase(
        "ExpandDims",
        [(2, 3), ()],
        values={1: index(3)},
        message="Tried to expand dim index 3 for tensor with 2 dimensions; it must be in [-3, 2]",
    ),
    WrongShapeCase(
        "Squeeze",
        [(1, 3)],
        {"squeeze_dims": [1]},
        message="Can not squeeze dim[1], expected a dimension of 1, got 3",
    ),
    WrongShapeCase(
        "Squeeze",
        [(1, 3)],
        {"squeeze_dims": [2]},
        message="Tried to squeeze dim index 2 for tensor with 2 dimensions",
    ),
    WrongShapeCase(
        "Transpose",
        [(2, 3), (3,)],
        values={1: ints(0, 1, 2)},
        message="Dimension must be 2 but is 3: "
        "transpose expects a vector of size 2. But input(1) is a vector of size 3",
    ),
    WrongShapeCase(
        "Transpose",
        [(2, 3), (2,)],
        values={1: ints(0, 2)},
        message="perm dim 2 is out of range [0 .. 2)",
    ),
    WrongShapeCase(
        "InvertPermutation",
        [(2, 2)],
        message="Shape must be rank 1 but is rank 2: x has shape (2, 2)",
    ),
    WrongShapeCase(
        "BroadcastTo",
        [(2, 3), (2,)],
        values={1: ints(2, 4)},
        message="Incompatible shapes: [2,3] vs. [2,4]; a size must be 1 or equal to broadcast",
    ),
    WrongShapeCase(
        "BroadcastTo",
        [(2, 3), (1,)],
        values={1: ints(3)},
        message="Incompatible shapes: [2,3] vs. [3]; a size must be 1 or equal to broadcast",
    ),
    WrongShapeCase(
        "Tile",
        [(2, 3), (3,)],
        values={1: ints(1, 1, 1)},
        message="Expected multiples argument to be a vector of length 2 but got length 3",
    ),
    WrongShapeCase(
        "Tile",
        [(2, 3), (2,)],
        values={1: ints(1, -1)},
        message="Expected multiples[1] >= 0, but got -1",
    ),
]

FAILURES = [
    FailureCase(
        "CheckNumerics",
        [np.array([1.0, np.inf])],
        {"message": "loss"},
        message="loss : Tensor had Inf values",
    ),
    FailureCase(
        "CheckNumerics",
        [np.array([np.nan, -np.inf])],
        {"message": "loss"},
        message="loss : Tensor had Inf and NaN values",
    ),
    FailureCase("Fill", [ints(-3), SCALAR], message="dims must have no negative size, got [-3]"),
    FailureCase("Fill", [ints(2), X[0]], message="value must be a scalar, got shape [3]"),
    FailureCase("Fill", [index(2), SCALAR], message="dims must be a vector, got shape []"),
    FailureCase("Range", [index(0), index(5), index(0)], message="Requires delta != 0: 0"),
    FailureCase(
        "Range",
        [index(5), index(0), index(1)],
        message="Requires start <= limit when delta > 0: 5/0",
    ),
    FailureCase("LinSpace", [SCALAR, SCALAR, index(-1)], message="Requires num > 0: -1"),
    FailureCase(
        "Reshape",
        [X, ints(5)],
        message="Input to reshape is a tensor with 6 values, but the requested shape has 5",
    ),
    FailureCase("Reshape", [X, index(6)], message="shape must be a vector, got shape []"),
    FailureCase(
        "ExpandDims",
        [X, ints(0, 1)],
        message="dim must be a tensor with a single value, got shape [2]",
    ),
    FailureCase(
        "Squeeze",
        [X],
        {"squeeze_dims": [0]},
        message="Can not squeeze dim[0], expected a dimension of 1, got 2",
    ),
    FailureCase("Transpose", [X, ints(0, 0)], message="1 is missing from {0,0}."),
    FailureCase("InvertPermutation", [ints(0, 2)], message="[0,2] is not a permutation of 0 to 1"),
    FailureCase(
        "BroadcastTo",
        [X, ints(3, 3)],
        message="Incompatible shapes: [2,3] vs. [3,3]; a size must be 1 or equal to broadcast",
    ),
    FailureCase(
        "Tile",
        [X, ints(2)],
        message="Expected multiples argument to be a vector of length 2 but got length 1",
    ),
]
