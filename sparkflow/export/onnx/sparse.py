"""Segments and sparse tensors, of which ONNX has none: sums that are scattered into zeros."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparkflow.export.onnx.table import Node, converts


@converts("Unique", "UniqueWithCounts")
def _unique(node: Node) -> Sequence[str]:
    values, _, inverse, counts = node.emit_several("Unique", 4, sorted=0)
    found = [values, node.cast(inverse, node.output_dtype(1))]
    if node.type == "UniqueWithCounts":
        found.append(node.cast(counts, node.output_dtype(2)))
    return found


@converts("Where")
def _where(node: Node) -> Sequence[str]:
    as_truth = node.inputs[0] if node.dtype() == np.bool_ else node.cast(node.inputs[0], np.bool_)
    return [node.emit("Transpose", [node.emit("NonZero", [as_truth])], perm=[1, 0])]


@converts("SegmentSum", "SegmentMean")
def _segments(node: Node) -> Sequence[str]:
    return [_reduced(node, node.inputs[0], node.as_int64(1), _kind(node), len(node.shape()))]


@converts("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
def _sparse_segments(node: Node) -> Sequence[str]:
    rows = node.emit("Gather", [node.inputs[0], node.as_index(1)], axis=0)
    return [_reduced(node, rows, node.as_int64(2), _kind(node), len(node.shape()))]


def _kind(node: Node) -> str:
    return next(kind for kind in ("Sum", "Mean", "SqrtN") if node.type.endswith(kind))


def _reduced(node: Node, rows: str, segments: str, kind: str, rank: int) -> str:
    # One more than the last segment, and 0 where there is none.
    known = node.emit("Concat", [segments, node.integers(-1)], axis=0)
    last = node.emit("ReduceMax", [known], keepdims=1)
    count = node.emit("Add", [last, node.integers(1)])
    size = node.emit("Shape", [rows], start=1) if rank > 1 else None
    shape = count if size is None else node.emit("Concat", [count, size], axis=0)
    sums = _scattered(node, shape, segments, rows, node.dtype())
    if kind == "Sum":
        return sums
    one = node.constant(1, node.dtype())
    ones = node.emit("Expand", [one, node.emit("Shape", [segments])])
    counts = _scattered(node, count, segments, ones, node.dtype())
    divisor = node.emit("Max", [counts, one])
    if kind == "SqrtN":
        divisor = node.emit("Sqrt", [divisor])
    if rank > 1:
        divisor = node.emit("Unsqueeze", [divisor, node.integers(*range(1, rank))])
    return node.emit("Div", [sums, divisor])


def _scattered(
    node: Node, shape: str, places: str, values: str, dtype: np.dtype[np.generic]
) -> str:
    """Zeros with values added to the rows that `places`, [n], names."""
    zeros = node.emit("Expand", [node.constant(0, dtype), shape])
    where = node.emit("Unsqueeze", [places, node.integers(1)])
    return node.emit("ScatterND", [zeros, where, values], reduction="add")


@converts("SparseToDense")
def _sparse_to_dense(node: Node) -> Sequence[str]:
    rank = len(node.shape(0))
    if rank == 0:
        raise node.refusal("a single index")
    indices = node.as_int64(0)
    if rank == 1:
        indices = node.emit("Unsqueeze", [indices, node.integers(1)])
    values = node.inputs[2]
    if not node.shape(2):  # one value for all places
        count = node.emit("Shape", [indices], end=1)
        values = node.emit("Expand", [values, count])
    full = node.emit("Expand", [node.inputs[3], node.as_int64(1)])
    return [node.emit("ScatterND", [full, indices, values])]


@converts("SparseReduceSum")
def _sparse_reduce_sum(node: Node) -> Sequence[str]:
    indices, values, shape, _ = node.inputs
    zeros = node.emit("Expand", [node.constant(0, node.dtype(1)), shape])
    full = node.emit("ScatterND", [zeros, indices, values], reduction="add")
    axes = node.integers(*np.atleast_1d(node.value(3)).tolist())
    return [node.emit("ReduceSum", [full, axes], keepdims=int(node.attr("keep_dims")))]


@converts("SparseTensorDenseMatMul")
def _sparse_product(node: Node) -> Sequence[str]:
    if node.attr("adjoint_a"):
        raise node.refusal("a transposed sparse factor")
    _, values, shape, dense = node.inputs
    indices = node.as_index(0)
    if node.attr("adjoint_b"):
        dense = node.emit("Transpose", [dense], perm=[1, 0])
    axis = node.integers(1)
    rows, columns = (
        node.emit("Squeeze", [part, axis])
        for part in node.emit_several("Split", 2, [indices], axis=1, num_outputs=2)
    )
    factors = node.emit("Unsqueeze", [values, axis])
    products = node.emit("Mul", [node.emit("Gather", [dense, columns], axis=0), factors])
    count = node.emit("Slice", [shape, node.integers(0), node.integers(1)])
    width = node.emit("Shape", [dense], start=1)
    size = node.emit("Concat", [count, width], axis=0)
    return [_scattered(node, size, rows, products, node.dtype(1))]


@converts("SparseFillEmptyRows")
def _fill_empty_rows(node: Node) -> Sequence[str]:
    indices, values, shape, default = node.inputs
    axis, zero, one = node.integers(1), node.constant(0, np.int64), node.constant(1, np.int64)
    places = node.emit("Gather", [indices, zero], axis=1)
    count = node.emit("Slice", [shape, node.integers(0), node.integers(1)])
    ones = node.emit("Expand", [one, node.emit("Shape", [places])])
    counts = _scattered(node, count, places, ones, np.dtype(np.int64))
    is_empty = node.emit("Equal", [counts, zero])
    empty = node.emit("Transpose", [node.emit("NonZero", [is_empty])], perm=[1, 0])
    added = node.emit("Pad", [empty, node.integers(0, 0, 0, 1)])  # in the first column
    joined = node.emit("Concat", [indices, added], axis=0)
    filling = node.emit("Expand", [default, node.emit("Shape", [added], end=1)])
    held = node.emit("Concat", [values, filling], axis=0)
    # By rows, and within one in the order of before.
    size = node.emit("Shape", [held])
    scalar = node.emit("Squeeze", [size])
    numbers = node.emit("Range", [zero, scalar, one])
    rows = node.emit("Gather", [joined, zero], axis=1)
    keys = node.emit("Add", [node.emit("Mul", [rows, scalar]), numbers])
    _, order = node.emit_several("TopK", 2, [keys, size], largest=0, sorted=1)
    column = node.emit("Unsqueeze", [order, axis])
    zeros = node.emit("Expand", [zero, size])
    inverse = node.emit("ScatterND", [zeros, column, numbers])
    before = node.emit("Shape", [values])
    return [
        node.emit("Gather", [joined, order], axis=0),
        node.emit("Gather", [held, order], axis=0),
        is_empty,
        node.emit("Slice", [inverse, node.integers(0), before]),
    ]


@converts("SparseReshape")
def _sparse_reshape(node: Node) -> Sequence[str]:
    old_rank, new_rank = node.shape(0)[1], node.shape(2)[0]
    if old_rank is None or new_rank is None:
        raise node.refusal("a rank that is not known")
    indices, shape, wanted = node.inputs
    axis, zero = node.integers(1), node.constant(0, np.int64)
    # One size may be -1: then the product of all is less than nothing.
    product = node.emit("ReduceProd", [wanted], keepdims=1)
    one = node.constant(1, np.int64)
    divisor = node.emit("Where", [node.emit("Equal", [product, zero]), one, product])
    rest = node.emit("Div", [node.emit("ReduceProd", [shape], keepdims=1), divisor])
    unknown = node.emit("Less", [wanted, zero])
    resolved = node.emit("Where", [unknown, node.emit("Neg", [rest]), wanted])
    place = node.emit("Gather", [indices, zero], axis=1)
    for number in range(1, old_rank):
        which = node.constant(number, np.int64)
        place = node.emit("Mul", [place, node.emit("Gather", [shape, which])])
        place = node.emit("Add", [place, node.emit("Gather", [indices, which], axis=1)])
    columns: list[str] = []
    for number in reversed(range(new_rank)):
        size = node.emit("Gather", [resolved, node.constant(number, np.int64)])
        size = node.emit("Max", [size, one])  # of 0 there is nothing to place
        part = node.emit("Mod", [place, size]) if number else place
        columns.insert(0, node.emit("Unsqueeze", [part, axis]))
        place = node.emit("Div", [place, size]) if number else place
    return [node.emit("Concat", columns, axis=1), resolved]
