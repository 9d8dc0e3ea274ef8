"""Rows of `gather`, `indexing`, `segment` and `routing`."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime import dtypes
from support.op_cases import FailureCase, OpCase, WrongShapeCase

TABLE = np.array([[-2.5, 0.5, 4.0], [1.25, 2.0, 3.5], [6.0, -7.0, 8.0], [0.0, 1.0, -1.0]])
CUBE = np.arange(24.0).reshape(2, 3, 4) - 10
EMPTY = np.zeros((0, 3))
VECTOR = TABLE[:, 0]
WORDS = np.array([b"a", b"bc"], object)

# Rows long enough that few elements are found without sorting.
DISTINCT = np.random.default_rng(5).permutation(100).reshape(2, 50) / 4 - 10
TIED = np.random.default_rng(6).integers(0, 5, (3, 45)) / 2


def ints(*values):
    return np.array(values, np.int32)


def index(value):
    return np.array(value, np.int32)


def gathered(params, indices, axis, batch_dims=0):
    """GatherV2 by its definition, one output element after another."""
    axis %= params.ndim
    batch_dims += indices.ndim if batch_dims < 0 else 0
    shape = params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1 :]
    result = np.zeros(shape, params.dtype)
    picked = indices.ndim - batch_dims
    for place in np.ndindex(*shape):
        at = indices[place[:batch_dims] + place[axis : axis + picked]]
        result[place] = params[(*place[:axis], at, *place[axis + picked :])]
    return result


def gathered_nd(params, indices):
    result = [params[tuple(each)] for each in indices.reshape(-1, indices.shape[-1])]
    depth = indices.shape[-1]
    return np.array(result).reshape(indices.shape[:-1] + params.shape[depth:])


def scattered_nd(indices, updates, shape):
    result = np.zeros(shape, updates.dtype)
    for place in np.ndindex(*indices.shape[:-1]):
        result[tuple(indices[place])] += updates[place]
    return result


def hot(indices, depth, on, off):
    return np.array([[on if i == k else off for k in range(depth)] for i in indices])


def largest(x, k):
    order = [sorted(range(len(row)), key=lambda i: (-row[i].item(), i))[: int(k)] for row in x]
    return np.take_along_axis(x, np.array(order), -1), np.array(order, np.int32)


def summed(data, ids, count):
    result = np.zeros((int(count), *data.shape[ids.ndim :]), data.dtype)
    for place in np.ndindex(*ids.shape):
        if ids[place] >= 0:
            result[ids[place]] += data[place]
    return result


def stitched(indices, data):
    size = max(places.max() for places in indices) + 1
    result = np.zeros((size, *data[0].shape[indices[0].ndim :]), data[0].dtype)
    for places, rows in zip(indices, data, strict=True):
        for at in np.ndindex(*places.shape):
            result[places[at]] = rows[at]
    return result


def mean(data, ids):
    sums = summed(data, ids, ids[-1] + 1)
    counts = np.maximum(np.bincount(ids), 1).reshape(-1, *(1,) * (data.ndim - 1))
    if data.dtype.kind in "iu":
        return np.trunc(sums / counts).astype(data.dtype)
    return sums / counts


GATHER = {"dtype_attr": "Tparams"}
NUMBERS = sorted(dtypes.NUMERIC, key=int)

CASES = [
    *(
        OpCase("Gather", [x, i], expected=lambda x, i: x[i], gradient=(0,), **GATHER)
        for x, i in ((TABLE, ints(3, 0, 3)), (TABLE, ints(2)[:, None]), (VECTOR, index(1)))
    ),
    OpCase("Gather", [TABLE, np.array([1, 2])], expected=TABLE[1:3]),
    OpCase("Gather", [TABLE, ints()], expected=EMPTY, gradient=(0,)),
    OpCase("Gather", [np.zeros((3, 0)), ints(1, 2)], expected=np.zeros((2, 0)), gradient=(0,)),
    OpCase("Gather", [EMPTY, ints()], expected=EMPTY),
    OpCase("Gather", [WORDS, index(1)], expected=np.array(b"bc", object)),
    OpCase("GatherNd", [WORDS, ints(1)], expected=np.array(b"bc", object)),
    *(
        OpCase(
            "GatherV2",
            [x, i, index(axis)],
            {"batch_dims": batch},
            expected=lambda *inputs, batch=batch: gathered(*inputs, batch),
            gradient=(0,),
            second_order=axis != 0,
            **GATHER,
        )
        for x, i, axis, batch in (
            (TABLE, ints(3, 0, 3), 0, 0),
            (TABLE, ints(2, 0, 2, 1), 1, 0),
            (TABLE, index(1), -1, 0),
            (CUBE, np.array([[2, 0], [1, 2]], np.int32), 1, 0),
            (CUBE, np.array([[2, 0], [1, 2]], np.int32), 1, 1),
            (CUBE, np.array([[3], [0]], np.int32), 2, 1),
            (CUBE, np.array([[3, 1], [0, 0]], np.int32), -1, -1),
            (CUBE, np.array([[3, 1, 0], [0, 2, 2]], np.int32), 2, 2),
            (CUBE, ints(2, 1), 1, 1),
        )
    ),
    OpCase("GatherV2", [TABLE, np.array([1, 2], np.int16), np.array(0)], expected=TABLE[1:3]),
    OpCase("GatherV2", [EMPTY.T, ints(0, 2), index(0)], expected=np.zeros((2, 0))),
    *(
        OpCase("GatherNd", [x, i], expected=gathered_nd, gradient=(0,), second_order=True, **GATHER)
        for x, i in (
            (CUBE, np.array([[1, 2, 3], [0, 0, 0], [1, 2, 3]], np.int32)),
            (CUBE, np.array([[[1, 2]], [[0, 1]]], np.int32)),
        )
    ),
    OpCase(
        "GatherNd",
        [TABLE, np.zeros((2, 0), np.int32)],
        expected=np.stack([TABLE, TABLE]),
        gradient=(0,),
    ),
    OpCase("GatherNd", [TABLE, ints(3, 1)], expected=np.array(1.0), gradient=(0,)),
    OpCase("GatherNd", [TABLE, index([[3], [1], [3]])], expected=gathered_nd, gradient=(0,)),
    OpCase("GatherNd", [TABLE, np.zeros((0, 1), np.int32)], expected=EMPTY),
    OpCase("GatherNd", [TABLE, np.array([[3, 1]], np.int16)], expected=np.ones(1), gradient=(0,)),
    *(
        OpCase(
            "ScatterNd", [i, u, ints(*to)], expected=scattered_nd, gradient=(1,), second_order=True
        )
        for i, u, to in (
            (index([[3], [1], [3], [0]]), TABLE, (5, 3)),
            (index([[[1, 2], [0, 0]]]), np.array([[1.5, 2.5]]), (2, 3)),
            (np.zeros((0, 1), np.int32), EMPTY, (2, 3)),
        )
    ),
    OpCase("OneHot", [ints(1, -1, 4, 2), index(4), 5.0, 0.5], expected=hot),
    OpCase("OneHot", [ints(), index(2), 1.0, 0.0], expected=np.zeros((0, 2))),
    OpCase(
        "OneHot",
        [ints(1, 2), index(3), 1.0, 0.0],
        {"axis": 0},
        expected=lambda *inputs: hot(*inputs).T,
    ),
    OpCase("OneHot", [np.uint8(1), index(3), 1.0, 0.0], expected=np.array([0.0, 1.0, 0.0])),
    *(
        OpCase("Where", [x], expected=np.argwhere, dynamic_shape=True)
        for x in (TABLE, CUBE, EMPTY, np.zeros((2, 2)))
    ),
    *(
        OpCase("TopKV2", [x, index(k)], expected=largest, gradient=(0,) if x is TABLE else ())
        for x, k in ((TABLE, 2), (TABLE, 3), (TABLE, 1), (np.array([[1.0, 3.0, 3.0, 2.0, 3.0]]), 4))
    ),
    *(
        OpCase("TopKV2", [x, index(k)], expected=largest, gradient=(0,) if x is DISTINCT else ())
        for x in (DISTINCT, TIED)
        for k in (1, 5)
    ),
    OpCase(
        "TopKV2",
        [np.array([np.nan, 2.0, np.inf, 3.0] * 4), index(2)],
        expected=(np.array([np.nan, np.nan]), ints(0, 4)),
    ),
    OpCase("TopKV2", [VECTOR, index(2)], expected=(np.array([6.0, 1.25]), ints(2, 1))),
    OpCase(
        "TopKV2",
        [TABLE, np.array(1)],
        {"index_type": dtypes.int64},
        expected=(TABLE.max(1, keepdims=True), TABLE.argmax(1)[:, None]),
        gradient=(0,),
    ),
    OpCase("TopKV2", [TABLE, index(0)], expected=(TABLE[:, :0], np.zeros((4, 0), np.int32))),
    OpCase("TopKV2", [EMPTY, index(2)], expected=(EMPTY[:, :2], np.zeros((0, 2), np.int32))),
    OpCase(
        "Unique",
        [ints(3, 1, 3, 2, 1)],
        expected=(ints(3, 1, 2), ints(0, 1, 0, 2, 1)),
        dynamic_shape=True,
    ),
    OpCase(
        "Unique",
        [np.array([2.5, -1.0, 2.5])],
        {"out_idx": dtypes.int64},
        expected=(np.array([2.5, -1.0]), np.array([0, 1, 0])),
        dynamic_shape=True,
    ),
    OpCase("Unique", [VECTOR[:0]], expected=(VECTOR[:0], ints()), dynamic_shape=True),
    OpCase(
        "Unique",
        [np.array([b"b", b"a", b"b"], object)],
        expected=(np.array([b"b", b"a"], object), ints(0, 1, 0)),
        dynamic_shape=True,
    ),
    *(
        OpCase(
            op, [TABLE.astype(np.float32), ints(1, 0, 2, 3), *k], attrs, expected=np.array(expected)
        )
        for op, k, attrs, expected in (
            ("InTopK", [], {"k": 2}, [True, False, True, False]),
            ("InTopKV2", [index(2)], {}, [True, False, True, False]),
            ("InTopKV2", [index(1)], {}, [False, False, True, False]),
            ("InTopKV2", [index(0)], {}, [False] * 4),
        )
    ),
    OpCase(  # ties count as in, infinite elements do not
        "InTopK",
        [np.array([[1, 3, 3], [np.inf, 1, 0], [1, 2, np.nan]], np.float32), ints(1, 0, 1)],
        {"k": 1},
        expected=np.array([True, False, False]),
    ),
    OpCase("InTopK", [EMPTY.astype(np.float32), ints()], {"k": 1}, expected=np.zeros(0, bool)),
    *(
        OpCase(
            "SegmentSum",
            [x, i],
            expected=lambda x, i: summed(x, i, i[-1] + 1),
            gradient=(0,),
        )
        for x, i in ((TABLE, ints(0, 0, 3, 3)), (VECTOR, ints(0, 1, 1, 2)), (CUBE, ints(1, 1)))
    ),
    OpCase("SegmentSum", [EMPTY, ints()], expected=EMPTY),
    *(
        OpCase("SegmentMean", [x, i], expected=mean, gradient=(0,))
        for x, i in ((TABLE, ints(0, 0, 2, 2)), (VECTOR, ints(0, 1, 1, 1)), (CUBE, ints(1, 1)))
    ),
    *(
        OpCase(
            "UnsortedSegmentSum",
            [x, i, index(5)],
            expected=summed,
            gradient=(0,),
            second_order=True,
        )
        for x, i in (
            (TABLE, ints(3, 0, 3, -1)),
            (CUBE, np.array([[0, 1, 1], [-1, 4, 0]], np.int32)),
            (VECTOR, ints(1, 1, 0, 2)),
            (CUBE, index(2)),
        )
    ),
    *(
        OpCase(
            "SparseSegmentSum",
            [TABLE, i, s],
            expected=lambda x, i, s: summed(x[i], s, s[-1] + 1),
            gradient=(0,),
        )
        for i, s in ((ints(3, 0, 3), ints(0, 0, 2)), (np.array([1]), np.array([1])))
    ),
    *(
        OpCase(
            "DynamicPartition",
            [x, i],
            {"num_partitions": 3},
            expected=lambda x, i: tuple(x[i == part] for part in range(3)),
            gradient=(0,),
            second_order=True,
            dynamic_shape=True,
        )
        for x, i in (
            (TABLE, ints(2, 0, 2, 0)),
            (CUBE, np.array([[0, 1, 1], [2, 0, 0]], np.int32)),
            (VECTOR, ints(1, 1, 1, 1)),
        )
    ),
    OpCase(
        "DynamicPartition",
        [EMPTY, ints()],
        {"num_partitions": 1},
        expected=EMPTY,
        dynamic_shape=True,
    ),
    *(
        OpCase(
            "DynamicStitch",
            [places, rows],
            expected=stitched,
            gradient=gradient,
            second_order=True,
        )
        for places, rows, gradient in (
            ([ints(3, 0), ints(1, 5)], [TABLE[:2], TABLE[2:]], (2, 3)),
            ([index([[0, 3]]), index(1)], [CUBE[:1, :2], CUBE[0, 2]], (2, 3)),
            ([ints(2, 1, 0)], [VECTOR[:3]], (1,)),
        )
    ),
    OpCase("DynamicStitch", [[ints(1, 0), ints(1)], [TABLE[:2], TABLE[2:3]]], expected=stitched),
    OpCase("DynamicStitch", [[ints()], [EMPTY]], expected=EMPTY),
    OpCase(
        "ParallelDynamicStitch",
        [[ints(3, 0), ints(1, 5)], [TABLE[:2], TABLE[2:]]],
        expected=stitched,
        gradient=(2, 3),
    ),
    OpCase(
        "DynamicStitch",
        [[ints(2, 0)], [np.array([b"c", b"a"], object)]],
        expected=np.array([b"a", b"", b"c"], object),
    ),
    OpCase("UnsortedSegmentSum", [EMPTY, ints(), np.array(2)], expected=np.zeros((2, 3))),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "Gather",
        [(), (2,)],
        {"Tindices": dtypes.int32},
        message="Shape must be at least rank 1 but is rank 0: "
        "params must be at least 1 dimensional",
    ),
    WrongShapeCase(
        "GatherV2",
        [(2, 3), (2,), ()],
        values={2: index(2)},
        message="Shape must be at least rank 3 but is rank 2: "
        "Expected axis in the range [-2, 2), but got 2",
    ),
    WrongShapeCase(
        "GatherV2",
        [(2, 3), (3, 4), ()],
        {"batch_dims": 1},
        values={2: index(1)},
        message="The first 1 dimensions of params and indices must be equal, "
        "but params has shape [2,3] and indices has shape [3,4]",
    ),
    WrongShapeCase(
        "GatherV2",
        [(2, 3), (2, 4), ()],
        {"batch_dims": 1},
        values={2: index(0)},
        message="batch_dims (1) must be less than or equal to axis (0).",
    ),
    WrongShapeCase(
        "GatherV2",
        [(2,), (2, 4), ()],
        {"batch_dims": 1},
        message="batch_dims (1) must be less than rank(params) (1).",
    ),
    WrongShapeCase(
        "GatherV2",
        [(2, 3), (2,), ()],
        {"batch_dims": 2},
        message="Expected batch_dims in the range [-1, 1], but got 2",
    ),
    WrongShapeCase(
        "GatherNd",
        [(2, 3), (4, 3)],
        message="The innermost dimension length of indices must be <= rank of params, "
        "but is 3 and the rank is 2",
    ),
    WrongShapeCase("GatherNd", [(2, 3), ()], message="indices must be at least a vector"),
    WrongShapeCase(
        "ScatterNd",
        [(4, 1), (4, 3), (2,)],
        values={2: ints(5, 2)},
        message="updates must have shape indices.shape[:-1] + shape[depth:] = [4,2], but has [4,3]",
    ),
    WrongShapeCase(
        "OneHot",
        [(2,), (), (), ()],
        {"axis": 2},
        message="Expected axis to be -1 or between [0, 2).  But received: 2",
    ),
    WrongShapeCase(
        "OneHot",
        [(2,), (), (), ()],
        values={1: index(-1)},
        message="depth must be non-negative, got: -1",
    ),
    WrongShapeCase(
        "TopKV2",
        [(2, 3), ()],
        values={1: index(4)},
        message="input must have last dimension >= k = 4 but is 3",
    ),
    WrongShapeCase("TopKV2", [(2, 3), ()], values={1: index(-1)}, message="Need k >= 0, got -1"),
    WrongShapeCase("TopKV2", [(), ()], message="input must be >= 1-D, got shape []"),
    WrongShapeCase(
        "Unique", [(2, 3)], message="Shape must be rank 1 but is rank 2: x has shape (2, 3)"
    ),
    WrongShapeCase(
        "InTopK",
        [(2, 3), (3,)],
        {"k": 1},
        message="Dimensions must be equal, but are 2 and 3",
    ),
    WrongShapeCase(
        "SparseSegmentSum",
        [(2, 3), (4,), (3,)],
        message="segment_ids should be the same size as dimension 0 of input, "
        "but has 3 ids for 4 rows",
    ),
    WrongShapeCase(
        "DynamicPartition",
        [(2, 3), (3,)],
        {"num_partitions": 2},
        message="data.shape = [2,3] does not start with partitions.shape = [3]",
    ),
    WrongShapeCase(
        "DynamicStitch",
        [(2,), (3,), (2, 4), (3, 5)],
        {"N": 2},
        message="All data must have rows of one shape, got [4] and [5]",
    ),
    WrongShapeCase(
        "DynamicStitch",
        [(2,), (3, 4)],
        {"N": 1},
        message="data.shape = [3,4] does not start with indices.shape = [2]",
    ),
    WrongShapeCase(
        "UnsortedSegmentSum",
        [(2, 3), (3,), ()],
        message="data.shape = [2,3] does not start with segment_ids.shape = [3]",
    ),
    WrongShapeCase(
        "UnsortedSegmentSum",
        [(2, 3), (2,), ()],
        values={2: index(-1)},
        message="num_segments must not be negative, got -1",
    ),
]

FAILURES = [
    FailureCase("Gather", [TABLE, ints(0, 1, 7)], message="indices[2] = 7 is not in [0, 4)"),
    FailureCase("Gather", [TABLE, index([[0, -1]])], message="indices[0,1] = -1 is not in [0, 4)"),
    FailureCase("Gather", [TABLE, index(4)], message="indices = 4 is not in [0, 4)"),
    FailureCase(
        "Gather",
        [np.array(1.0), ints(0)],
        message="Shape must be at least rank 1 but is rank 0: "
        "params must be at least 1 dimensional",
    ),
    FailureCase("GatherV2", [TABLE, ints(3), index(1)], message="indices[0] = 3 is not in [0, 3)"),
    FailureCase(
        "GatherV2",
        [CUBE, index([[0], [3]]), index(1)],
        {"batch_dims": 1},
        message="indices[1,0] = 3 is not in [0, 3)",
    ),
    FailureCase(
        "GatherNd",
        [TABLE, index([[0, 0], [0, 3]])],
        message="indices[1] = [0, 3] does not index into param shape [4,3]",
    ),
    FailureCase(
        "ScatterNd",
        [index([[4]]), TABLE[:1], ints(4, 3)],
        message="indices[0] = [4] does not index into shape [4,3]",
    ),
    FailureCase(
        "ScatterNd",
        [index([[1]]), TABLE[:2], ints(4, 3)],
        message="updates must have shape indices.shape[:-1] + shape[depth:] = [1,3], but has [2,3]",
    ),
    FailureCase(
        "OneHot",
        [ints(1), index(-2), np.array(1.0), np.array(0.0)],
        message="depth must be non-negative, got: -2",
    ),
    FailureCase(
        "TopKV2", [TABLE, index(4)], message="input must have at least k columns. Had 3, needed 4"
    ),
    FailureCase("Unique", [TABLE], message="unique expects a 1D vector, got shape [4,3]"),
    FailureCase(
        "InTopK",
        [TABLE.astype(np.float32), ints(1)],
        {"k": 1},
        message="First dimension of predictions 4 must match length of targets 1",
    ),
    FailureCase(
        "SegmentSum",
        [VECTOR, ints(0, 2, 1, 3)],
        message="segment ids are not increasing: segment_ids[2] = 1 after 2",
    ),
    FailureCase(
        "SegmentMean",
        [VECTOR, ints(-1, 0, 1, 1)],
        message="segment ids must be >= 0, but the first is -1",
    ),
    FailureCase(
        "SegmentSum",
        [VECTOR, ints(0)],
        message="segment_ids should be the same size as dimension 0 of input, "
        "but has 1 ids for 4 rows",
    ),
    FailureCase(
        "SparseSegmentSum",
        [TABLE, ints(0, 4), ints(0, 0)],
        message="indices[1] = 4 is not in [0, 4)",
    ),
    FailureCase(
        "DynamicPartition",
        [VECTOR, ints(0, 1, 2, 0)],
        {"num_partitions": 2},
        message="partitions[2] = 2 is not in [0, 2)",
    ),
    FailureCase(
        "DynamicStitch",
        [[ints(0, -1)], [TABLE[:2]]],
        message="indices must not be negative, got -1",
    ),
    FailureCase(
        "UnsortedSegmentSum",
        [VECTOR, ints(0, 5, -1, 0), index(5)],
        message="segment_ids[1] = 5 is out of range [0, 5)",
    ),
]
