"""Rows of `space_batch`, `sorting`, `reordering`, `diagonals`, `tensor_scatter`."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from support.op_cases import FailureCase, OpCase, WrongShapeCase

IMAGES = np.arange(2 * 4 * 4 * 4.0).reshape(2, 4, 4, 4) / 4 - 7
BATCH = np.arange(4 * 2 * 3 * 2.0).reshape(4, 2, 3, 2) / 2 - 5
TABLE = np.arange(12.0).reshape(4, 3) / 2 - 2
CUBE = np.arange(24.0).reshape(2, 3, 4) / 2 - 3
VECTOR = np.array([3.0, 1.0, 2.0, 1.0, -5.0])
EMPTY = np.zeros((0, 3))


def ints(*values):
    return np.array(values, np.int32)


def index(value):
    return np.array(value, np.int32)


def pairs(*values):
    return np.array(values, np.int32).reshape(-1, 2)


def to_batch(x, block, pads):
    """SpaceToBatchND by its definition, one element after another."""
    m = len(block)
    x = np.pad(x, [(0, 0), *pads.tolist(), *[(0, 0)] * (x.ndim - m - 1)])
    space = tuple(s // b for s, b in zip(x.shape[1 : m + 1], block, strict=True))
    result = np.empty((int(np.prod(block)) * x.shape[0], *space, *x.shape[m + 1 :]), x.dtype)
    for number, offset in enumerate(np.ndindex(*block)):
        steps = tuple(slice(o, None, b) for o, b in zip(offset, block, strict=True))
        result[number * x.shape[0] : (number + 1) * x.shape[0]] = x[(slice(None), *steps)]
    return result


def to_space(x, block, crops):
    m = len(block)
    batch = x.shape[0] // int(np.prod(block))
    space = [s * b for s, b in zip(x.shape[1 : m + 1], block, strict=True)]
    result = np.empty((batch, *space, *x.shape[m + 1 :]), x.dtype)
    for number, offset in enumerate(np.ndindex(*block)):
        steps = tuple(slice(o, None, b) for o, b in zip(offset, block, strict=True))
        result[(slice(None), *steps)] = x[number * batch : (number + 1) * batch]
    cut = tuple(slice(a, n - b) for (a, b), n in zip(crops.tolist(), space, strict=True))
    return result[(slice(None), *cut)]


def space_to_depth(x, b=2):
    n, h, w, c = x.shape
    result = np.empty((n, h // b, w // b, c * b * b), x.dtype)
    for place, (i, j) in enumerate(np.ndindex(b, b)):
        result[..., place * c : (place + 1) * c] = x[:, i::b, j::b]
    return result


def depth_to_space(x, b=2):
    n, h, w, c = x.shape
    part = c // (b * b)
    result = np.empty((n, h * b, w * b, part), x.dtype)
    for place, (i, j) in enumerate(np.ndindex(b, b)):
        result[:, i::b, j::b] = x[..., place * part : (place + 1) * part]
    return result


def channels_first(function):
    return lambda x: function(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


ROUND_TRIP = {"gradient": (0,), "second_order": True}
CASES = [
    OpCase(
        "SpaceToBatchND", [BATCH, ints(2, 3), pairs(1, 1, 0, 0)], expected=to_batch, **ROUND_TRIP
    ),
    OpCase("SpaceToBatchND", [TABLE, ints(2), pairs(1, 2)], expected=to_batch, **ROUND_TRIP),
    OpCase("SpaceToBatchND", [EMPTY, ints(3), pairs(0, 0)], expected=to_batch),
    OpCase(
        "BatchToSpaceND", [BATCH, ints(2, 2), pairs(1, 0, 0, 2)], expected=to_space, **ROUND_TRIP
    ),
    OpCase("BatchToSpaceND", [TABLE, ints(4), pairs(3, 4)], expected=to_space, **ROUND_TRIP),
    OpCase(
        "SpaceToBatch",
        [IMAGES, pairs(0, 2, 1, 1)],
        {"block_size": 2},
        expected=lambda x, p: to_batch(x, (2, 2), p),
        **ROUND_TRIP,
    ),
    OpCase(
        "BatchToSpace",
        [BATCH, pairs(1, 0, 0, 1)],
        {"block_size": 2},
        expected=lambda x, p: to_space(x, (2, 2), p),
        **ROUND_TRIP,
    ),
    *(
        OpCase(op, [IMAGES], {"block_size": 2}, expected=function, **ROUND_TRIP)
        for op, function in (("SpaceToDepth", space_to_depth), ("DepthToSpace", depth_to_space))
    ),
    *(
        OpCase(
            op,
            [IMAGES],
            {"block_size": 2, "data_format": "NCHW"},
            expected=channels_first(function),
            gradient=(0,),
        )
        for op, function in (("SpaceToDepth", space_to_depth), ("DepthToSpace", depth_to_space))
    ),
]

SORTED = np.array([[0.0, 1.0, 1.0, 4.0], [1.0, 2.0, 3.0, 3.0]])
ASKED = np.array([[1.0, 5.0, 0.0], [3.0, 2.5, 0.0]])
WORDS = np.array([b"b", b"a", b"b", b""], object)
COUNTED = np.array([1.0, 1.0, 2.0, 4.0, 4.0, 4.0, 7.0, 8.0, 8.0])


def bound(side):
    return lambda rows, asked: np.stack(
        [np.searchsorted(r, a, side) for r, a in zip(rows, asked, strict=True)]
    ).astype(np.int32)


def counted(x):
    y = list(dict.fromkeys(x.tolist()))
    places = [y.index(each) for each in x.tolist()]
    counts = [places.count(i) for i in range(len(y))]
    return np.array(y, x.dtype), np.array(places, np.int32), np.array(counts, np.int32)


SLICES = np.array([[1.0, 2.0, 1.0], [3.0, 0.0, 3.0]])
CASES += [
    OpCase("LowerBound", [SORTED, ASKED], expected=bound("left")),
    OpCase("UpperBound", [SORTED, ASKED], expected=bound("right")),
    OpCase(
        "ListDiff",
        [np.arange(1.0, 7.0), np.array([1.0, 3.0, 5.0])],
        expected=lambda x, y: (x[1::2], ints(1, 3, 5)),
        dynamic_shape=True,
        dtypes=[dtypes.float32, dtypes.int64, dtypes.uint8],
    ),
    OpCase(
        "ListDiff",
        [WORDS, WORDS[1:2]],
        expected=(WORDS[[0, 2, 3]], ints(0, 2, 3)),
        dynamic_shape=True,
    ),
    OpCase(
        "UniqueWithCounts",
        [COUNTED],
        expected=counted,
        dynamic_shape=True,
        dtypes=[dtypes.float32, dtypes.int64],
    ),
    OpCase(
        "UniqueWithCounts",
        [WORDS],
        expected=(WORDS[[0, 1, 3]], ints(0, 1, 0, 2), ints(2, 1, 1)),
        dynamic_shape=True,
    ),
    OpCase(
        "UniqueWithCountsV2",
        [SLICES, ints(1)],
        expected=(SLICES[:, :2], ints(0, 1, 0), ints(2, 1)),
        dynamic_shape=True,
    ),
    OpCase(
        "UniqueV2", [SLICES, ints(1)], expected=(SLICES[:, :2], ints(0, 1, 0)), dynamic_shape=True
    ),
    OpCase(
        "UnravelIndex",
        [ints(2, 5, 7), ints(3, 3)],
        expected=np.array([[0, 1, 2], [2, 2, 1]], np.int32),
    ),
    OpCase("UnravelIndex", [index(5), ints(3, 3)], expected=ints(1, 2)),
]


def turned(x, lengths, seq, batch):
    result = x.copy()
    for i, length in enumerate(lengths):
        part = np.take(x, i, batch)
        at = seq - (batch < seq)
        flipped = np.moveaxis(part, at, 0).copy()
        flipped[:length] = flipped[:length][::-1]
        np.moveaxis(result, batch, 0)[i] = np.moveaxis(flipped, 0, at)
    return result


CASES += [
    *(
        OpCase(
            "ReverseSequence",
            [CUBE, lengths],
            {"seq_dim": seq, "batch_dim": batch},
            expected=lambda x, n, s=seq, b=batch: turned(x, n, s, b),
            **ROUND_TRIP,
        )
        for lengths, seq, batch in (
            (ints(2, 3), 1, 0),
            (ints(2, 1, 4), 2, 1),
            (ints(0, 2, 1), 0, 1),
        )
    ),
    OpCase(
        "Roll",
        [CUBE, ints(1, -2), ints(0, 2)],
        expected=lambda x, s, a: np.roll(x, s, a),
        **ROUND_TRIP,
    ),
    OpCase("Roll", [TABLE, index(5), index(-1)], expected=lambda x, s, a: np.roll(x, s, a)),
    OpCase("EnsureShape", [TABLE], {"shape": (None, 3)}, expected=lambda x: x, gradient=(0,)),
    OpCase("GuaranteeConst", [TABLE], expected=lambda x: x),
    OpCase(
        "ParallelConcat",
        [[TABLE[:1], TABLE[1:2]]],
        {"shape": (2, 3)},
        expected=lambda values: np.concatenate(values),
    ),
    OpCase(
        "Cross",
        [TABLE, TABLE[::-1] ** 2],
        expected=lambda a, b: np.cross(a, b),
        gradient=(0, 1),
        second_order=True,
        dtypes=[dtypes.float32, dtypes.float64, dtypes.int32],
    ),
    OpCase("Cross", [EMPTY, EMPTY], expected=EMPTY),
    OpCase("BroadcastArgs", [ints(2, 1), ints(4, 1, 3)], expected=ints(4, 2, 3)),
]


def banded(x, low, high, align, padding=0):
    """MatrixDiagPartV3 by its definition."""
    rows, columns = x.shape[-2:]
    diagonals = [np.diagonal(x, k, -2, -1) for k in range(high, low - 1, -1)]
    longest = min(rows + min(high, 0), columns - max(low, 0))
    result = np.full((*x.shape[:-2], len(diagonals), longest), padding, x.dtype)
    above, below = align.split("_")
    for i, (k, d) in enumerate(zip(range(high, low - 1, -1), diagonals, strict=True)):
        size = d.shape[-1]
        left = (k >= 0 and above == "LEFT") or (k <= 0 and below == "LEFT")
        start = 0 if left else longest - size
        result[..., i, start : start + size] = d
    return result[..., 0, :] if low == high else result


def with_band(x, diagonals, low, high, align):
    result = x.copy()
    marks = banded(
        np.arange(x[0].size if x.ndim == 3 else x.size).reshape(x.shape[-2:]), low, high, align, -1
    )
    flat = result.reshape(-1, x.shape[-2] * x.shape[-1])
    rows = diagonals.reshape(flat.shape[0], -1)
    for batch in range(flat.shape[0]):
        for mark, value in zip(marks.reshape(-1), rows[batch], strict=True):
            if mark >= 0:
                flat[batch, mark] = value
    return result


def diag(v):
    result = np.zeros((*v.shape, v.shape[-1]), v.dtype)
    result[..., np.arange(v.shape[-1]), np.arange(v.shape[-1])] = v
    return result


ALIGNS = ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")
CASES += [
    OpCase("MatrixDiag", [TABLE], expected=diag, gradient=(0,), second_order=True),
    OpCase("MatrixDiag", [EMPTY], expected=diag),
    OpCase(
        "MatrixDiagPart", [CUBE], expected=lambda x: banded(x, 0, 0, "LEFT_LEFT"), gradient=(0,)
    ),
    OpCase(
        "MatrixSetDiag",
        [CUBE, TABLE[:2]],
        expected=lambda x, d: with_band(x, d, 0, 0, "LEFT_LEFT"),
        gradient=(0, 1),
    ),
    *(
        OpCase(
            "MatrixDiagPartV3",
            [CUBE, ints(low, high), np.array(7.0)],
            {"align": align},
            expected=lambda x, k, p, align=align: banded(x, *k.tolist(), align, p),
            gradient=(0,),
            second_order=True,
        )
        for align in ALIGNS
        for low, high in ((-1, 2), (1, 1), (-2, -1))
    ),
    *(
        OpCase(
            "MatrixSetDiagV3",
            [CUBE, np.ones((2, 3, 3)) * [[1], [2], [3]], ints(-1, 1)],
            {"align": align},
            expected=lambda x, d, k, align=align: with_band(x, d, -1, 1, align),
            gradient=(0, 1),
        )
        for align in ALIGNS
    ),
    OpCase(
        "MatrixDiagPartV2",
        [CUBE, ints(-1, 2), np.array(7.0)],
        expected=lambda x, k, p: banded(x, -1, 2, "LEFT_LEFT", p),
        gradient=(0,),
    ),
    OpCase(
        "MatrixSetDiagV2",
        [CUBE, TABLE[:2], index(1)],
        expected=lambda x, d, k: with_band(x, d, 1, 1, "LEFT_LEFT"),
        gradient=(0, 1),
    ),
    *(
        OpCase(
            "MatrixDiagV3",
            [TABLE[:2], ints(-1, 0), index(rows), index(columns), np.array(9.0)],
            {"align": align},
            expected=lambda d, k, r, c, p, align=align, shape=shape: with_band(
                np.full(shape, p), d, -1, 0, align
            ),
            gradient=(0,),
        )
        for align in ALIGNS
        for rows, columns, shape in ((-1, -1, (3, 3)), (4, 3, (4, 3)))
    ),
    OpCase(
        "MatrixDiagV2",
        [VECTOR, index(1), index(-1), index(-1), np.array(0.0)],
        expected=lambda d, k, r, c, p: np.diag(d, 1),
        gradient=(0,),
    ),
    *(
        OpCase(
            "MatrixBandPart",
            [CUBE, np.array(low), np.array(high)],
            expected=lambda x, a, b: np.where(
                (
                    (a < 0)
                    | (np.tri(3, 4, dtype=int) * 0 + np.subtract.outer(range(3), range(4)) <= a)
                )
                & ((b < 0) | (np.subtract.outer(range(3), range(4)) >= -b)),
                x,
                np.zeros_like(x),
            ),
            gradient=(0,),
            second_order=True,
        )
        for low, high in ((1, 0), (-1, 1), (0, -1))
    ),
]


def scattered(combine):
    def function(x, places, updates):
        result = x.copy()
        for place in np.ndindex(*places.shape[:-1]):
            at = tuple(places[place])
            result[at] = combine(result[at], updates[place])
        return result

    return function


POINTS, SLABS = index([[0, 1], [2, 2], [3, 0]]), index([[3], [1]])
NUMBERS = [dtypes.float32, dtypes.int32, dtypes.float64]
CASES += [
    OpCase(
        op,
        [TABLE, places, updates],
        expected=scattered(combine),
        gradient=(0, 2),
        dtypes=NUMBERS,
    )
    for op, combine in (
        ("TensorScatterUpdate", lambda a, b: b),
        ("TensorScatterAdd", np.add),
        ("TensorScatterSub", np.subtract),
        ("TensorScatterMin", np.minimum),
        ("TensorScatterMax", np.maximum),
        ("ScatterNdNonAliasingAdd", np.add),
    )
    for places, updates in ((POINTS, np.array([5.25, -6.75, 0.3])), (SLABS, TABLE[:2] * 0.75 + 0.1))
]
CASES += [
    OpCase(  # colliding strings are joined
        "ScatterNd",
        [index([[0], [2], [0]]), WORDS[:3], ints(3)],
        expected=np.array([b"bb", b"", b"a"], object),
    ),
    OpCase("TensorScatterAdd", [TABLE, index([[1], [1]]), TABLE[:2]], expected=scattered(np.add)),
    OpCase("TensorScatterUpdate", [WORDS, SLABS, WORDS[:2]], expected=WORDS[[0, 1, 2, 0]]),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "SpaceToBatchND",
        [(4, 3), (1,), (1, 2)],
        values={1: ints(2), 2: pairs(0, 0)},
        message="Dimension size must be evenly divisible by 2 but is 3 (the padded dimension 1)",
    ),
    WrongShapeCase(
        "DepthToSpace",
        [(1, 2, 2, 6)],
        {"block_size": 2},
        message="Dimension size must be evenly divisible by 4 but is 6 (the depth)",
    ),
    WrongShapeCase(
        "ReverseSequence",
        [(2, 3), (3,)],
        {"seq_dim": 1},
        message="Length of seq_lengths != input.dims(0), (3 vs. 2)",
    ),
    WrongShapeCase(
        "EnsureShape",
        [(2, 3)],
        {"shape": (2, 4)},
        message="Shapes (2, 3) and (2, 4) are not compatible",
    ),
    WrongShapeCase(
        "Cross",
        [(2, 4), (2, 4)],
        message="Cross-products are only defined for 3-element vectors, got 4",
    ),
    WrongShapeCase(
        "MatrixSetDiag", [(2, 3), (3,)], message="diagonal must have shape [2], but has [3]"
    ),
    WrongShapeCase(
        "MatrixDiagPart", [(3,)], message="input must be at least 2-dim, received shape: [3]"
    ),
    WrongShapeCase(
        "TensorScatterAdd",
        [(4, 3), (2, 1), (2, 2)],
        message="updates must have shape indices.shape[:-1] + shape[depth:] = [2,3], but has [2,2]",
    ),
]

FAILURES = [
    FailureCase(
        "BatchToSpaceND",
        [TABLE, ints(3), pairs(0, 0)],
        message="Dimension size must be evenly divisible by 3 but is 4 (the batch)",
    ),
    FailureCase(
        "ReverseSequence",
        [TABLE, ints(0, 1, 4, 1)],
        {"seq_dim": 1},
        message="seq_lens(2) = 4 must be in [0, 3], the size of dimension 1",
    ),
    FailureCase("Roll", [TABLE, ints(1), ints(2)], message="axis 2 is out of range"),
    FailureCase(
        "UnravelIndex", [ints(9), ints(3, 3)], message="index is out of bound as with dims [3,3]"
    ),
    FailureCase(
        "EnsureShape",
        [TABLE],
        {"shape": (4, 4)},
        message="Shape of tensor input [4,3] is not compatible with expected shape [4,4].",
        error=InvalidArgumentError,
    ),
    FailureCase(
        "MatrixBandPart",
        [TABLE, np.array(5), np.array(0)],
        message="num_lower must be negative or less or equal to number of rows (4) got: 5",
    ),
    FailureCase(
        "TensorScatterUpdate",
        [TABLE, index([[4]]), TABLE[:1]],
        message="indices[0] = [4] does not index into shape [4,3]",
    ),
    FailureCase("Where", [np.array(True)], message="WhereOp : Unhandled input dimensions: 0"),
]
