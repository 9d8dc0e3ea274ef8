"""Rows of `segment` beyond sums, of `sparse_segment`, `histogram` and `CumulativeLogsumexp`."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime import dtypes
from support.op_cases import FailureCase, OpCase, WrongShapeCase

TABLE = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0], [2.5, 1.0, 0.25], [-0.5, 2.0, 5.0]])
WITH_ZEROS = np.array([[1.5, 0.0, 3.0], [0.0, 4.0, 0.0], [2.5, 0.0, 0.25], [-0.5, 2.0, 5.0]])
CUBE = np.arange(1, 25.0).reshape(2, 3, 4) / 4
EMPTY = np.zeros((0, 3))
IDS = np.array([0, 0, 2, 2], np.int32)
ANY_IDS = np.array([3, 0, 3, -1], np.int32)
NONE = np.zeros(0, np.int32)
FIVE = np.array(5, np.int32)
REAL = sorted(dtypes.REAL - dtypes.UNSIGNED, key=int)
FLOATING = sorted(dtypes.FLOATING, key=int)


def by_segment(reduce, empty):
    """The reduction of each segment's rows; `empty` (of a dtype) for segments without rows."""

    def expected(data, ids, count=None):
        number = int(ids.max(initial=-1)) + 1 if count is None else int(count)
        inner = data.shape[ids.ndim :]
        rows, flat = data.reshape(-1, *inner), ids.reshape(-1)
        return np.array(
            [
                reduce(rows[flat == i], axis=0)
                if (flat == i).any()
                else np.full(inner, empty(data.dtype))
                for i in range(number)
            ],
            data.dtype,
        ).reshape(number, *inner)

    return expected


def lowest(dtype):
    return np.iinfo(dtype).min if dtype.kind in "iu" else np.finfo(dtype).min


def highest(dtype):
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.finfo(dtype).max


CASES = [
    *(
        OpCase(op, [data, ids], expected=by_segment(reduce, lambda _, e=empty: e), gradient=(0,),
               dtypes=REAL, gradient_rtol=1e-5)
        for op, reduce, empty in (
            ("SegmentMax", np.max, 0),
            ("SegmentMin", np.min, 0),
            ("SegmentProd", np.prod, 1),
        )
        for data, ids in ((TABLE, IDS), (TABLE[:, 0], IDS), (CUBE, IDS[:2]), (EMPTY, NONE))
    ),
    OpCase("SegmentProd", [WITH_ZEROS, IDS], gradient=(0,)),
    OpCase("SegmentProd", [WITH_ZEROS + 0.5j, IDS], gradient=(0,)),
    OpCase("SegmentMax", [np.ones((4, 3)), IDS], expected=by_segment(np.max, lambda _: 0)),
    *(
        OpCase(op, [data, ids, FIVE], expected=by_segment(reduce, empty),
               gradient=(0,) if op.endswith("Prod") else (),
               dtypes=[dtypes.int32, dtypes.float64], gradient_rtol=1e-5)
        for op, reduce, empty in (
            ("UnsortedSegmentMax", np.max, lowest),
            ("UnsortedSegmentMin", np.min, highest),
            ("UnsortedSegmentProd", np.prod, lambda _: 1),
        )
        for data, ids in (
            (TABLE, ANY_IDS),
            (CUBE, np.array([[0, 1, 1], [-1, 4, 0]], np.int32)),
            (EMPTY, NONE),
        )
    ),
    # Every segment has rows: central differences cannot see the extremes of empty ones.
    *(
        OpCase(op, [TABLE, np.array([1, 0, 1, -1], np.int32), np.array(2)], gradient=(0,))
        for op in ("UnsortedSegmentMax", "UnsortedSegmentMin")
    ),
    OpCase("UnsortedSegmentProd", [WITH_ZEROS, ANY_IDS, FIVE], gradient=(0,)),
]  # fmt: skip


def looked_up(divisor):
    """Sums of the looked-up rows per segment over `divisor` of their number."""

    def expected(data, indices, ids, count=None):
        number = int(ids.max(initial=-1)) + 1 if count is None else int(count)
        result = np.zeros((number, *data.shape[1:]), data.dtype)
        np.add.at(result, ids, data[indices])
        counts = np.maximum(np.bincount(ids, minlength=number), 1)
        return result / divisor(counts).reshape(-1, *(1,) * (data.ndim - 1))

    return expected


def shared(divisor):
    """The gradient of such sums with respect to the rows."""

    def expected(grad, indices, ids, rows):
        counts = divisor(np.bincount(ids, minlength=len(grad)))[ids]
        result = np.zeros((int(rows), *grad.shape[1:]), grad.dtype)
        np.add.at(result, indices, grad[ids] / counts.reshape(-1, *(1,) * (grad.ndim - 1)))
        return result

    return expected


LOOKUP = np.array([3, 0, 3], np.int32)
SEGMENTS = np.array([0, 0, 2], np.int32)
WAYS = [
    ("SparseSegmentSum", lambda n: np.ones(n.shape)),
    ("SparseSegmentMean", lambda n: n),
    ("SparseSegmentSqrtN", np.sqrt),
]
for name, divisor in WAYS:
    CASES += [
        OpCase(name, [TABLE, LOOKUP, SEGMENTS], expected=looked_up(divisor), gradient=(0,),
               second_order=True, dtypes=FLOATING),
        OpCase(name, [TABLE, LOOKUP, SEGMENTS], {"sparse_gradient": True}, gradient=(0,)),
        OpCase(name, [TABLE, NONE, NONE], expected=np.zeros((0, 3))),
        OpCase(f"{name}WithNumSegments", [TABLE, LOOKUP, SEGMENTS, FIVE],
               expected=looked_up(divisor), gradient=(0,), dtypes=FLOATING),
        OpCase(f"{name}Grad", [TABLE[:3], LOOKUP, SEGMENTS, FIVE], expected=shared(divisor),
               gradient=(0,), dtypes=FLOATING),
    ]  # fmt: skip

NUMBERS = np.array([[1, 2, 2], [0, 5, 9]], np.int32)
SIX = np.array(6, np.int32)
CASES += [
    OpCase("Bincount", [NUMBERS, SIX, np.zeros(0)], expected=np.array([1.0, 1, 2, 0, 0, 1])),
    OpCase(
        "Bincount",
        [NUMBERS, SIX, np.arange(6).reshape(2, 3)],
        expected=np.array([3, 0, 3, 0, 0, 4]),
    ),
    OpCase("Bincount", [NUMBERS[:0], SIX, np.zeros(0, np.int32)], expected=np.zeros(6, np.int32)),
    OpCase(
        "HistogramFixedWidth",
        [np.array([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0]), np.array([0.0, 5.0]), FIVE],
        expected=lambda values, ends, count: np.array([2, 1, 1, 0, 2], np.int32),
    ),
    OpCase("HistogramFixedWidth", [EMPTY, np.array([0.0, 5.0]), FIVE], expected=np.zeros(5, int)),
]

ROWS = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -3.0]])


def logsumexp(x, axis, exclusive, reverse):
    x = np.moveaxis(np.asarray(x, np.float64), axis, 0)
    x = x[::-1] if reverse else x
    sums = np.logaddexp.accumulate(x, axis=0)
    if exclusive:
        sums = np.concatenate([np.full_like(x[:1], np.finfo(np.float64).min), sums[:-1]])
    return np.moveaxis(sums[::-1] if reverse else sums, 0, axis)


CASES += [
    OpCase(
        "CumulativeLogsumexp",
        [ROWS, np.array(axis, np.int32)],
        {"exclusive": exclusive, "reverse": reverse},
        logsumexp(ROWS, axis, exclusive, reverse),
        gradient=() if exclusive else (0,),  # likewise
        dtypes=[dtypes.float64],
    )
    for axis, exclusive, reverse in ((0, False, False), (1, True, False), (-1, False, True))
]
CASES += [
    OpCase("CumulativeLogsumexp", [EMPTY, np.array(1, np.int32)], expected=EMPTY),
    OpCase(
        "CumulativeLogsumexp",
        [ROWS, np.array(1, np.int32)],
        expected=lambda x, axis: logsumexp(x, 1, False, False),
    ),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "SparseSegmentMean",
        [(2, 3), (4,), (3,)],
        message="segment_ids should be the same size as dimension 0 of input, "
        "but has 3 ids for 4 rows",
    ),
    WrongShapeCase(
        "SparseSegmentMean",
        [(), (4,), (4,)],
        message="data must be at least rank 1 but is a scalar",
    ),
    WrongShapeCase(
        "HistogramFixedWidth",
        [(2,), (3,), ()],
        message="value_range must have 2 elements, got 3",
    ),
]
FAILURES = [
    FailureCase(
        "SparseSegmentSumWithNumSegments",
        [TABLE, LOOKUP, SEGMENTS, np.array(2, np.int32)],
        message="segment ids must be < num_segments = 2, got 2",
    ),
    FailureCase(
        "Bincount", [NUMBERS, np.array(-1, np.int32), np.zeros(0)],
        message="size (-1) must be non-negative",
    ),
    FailureCase(
        "Bincount", [-NUMBERS, SIX, np.zeros(0)], message="Input arr must be non-negative!"
    ),
    FailureCase(
        "Bincount", [NUMBERS, SIX, np.zeros(2)],
        message="weights must be empty or have the shape of arr, got [2] for [2,3]",
    ),
    FailureCase(
        "HistogramFixedWidth",
        [TABLE, np.array([5.0, 0.0]), FIVE],
        message="value_range should satisfy value_range[0] < value_range[1], but got [5.0, 0.0]",
    ),
    FailureCase(
        "HistogramFixedWidth",
        [TABLE, np.array([0.0, 5.0]), np.array(0, np.int32)],
        message="nbins should be a positive number, got 0",
    ),
]  # fmt: skip
