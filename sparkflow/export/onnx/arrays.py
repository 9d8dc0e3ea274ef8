"""Shapes, slices, joins, gathers, casts and choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sparkflow.export.onnx.table import Node, converts

_END: Final = np.iinfo(np.int64).max


@converts("IdentityN")
def _identity_n(node: Node) -> Sequence[str]:
    return node.inputs


@converts("Cast")
def _cast(node: Node) -> Sequence[str]:
    if node.output_dtype().kind == "O" or node.dtype().kind == "O":
        raise node.refusal("casts from and to texts cannot be converted")
    return [node.cast(node.inputs[0], node.output_dtype())]


@converts("Shape")
def _shape(node: Node) -> Sequence[str]:
    found = node.emit("Shape")
    return [found if node.output_dtype() == np.int64 else node.cast(found, node.output_dtype())]


@converts("Size")
def _size(node: Node) -> Sequence[str]:
    found = node.emit("Size")
    return [found if node.output_dtype() == np.int64 else node.cast(found, node.output_dtype())]


@converts("Rank")
def _rank(node: Node) -> Sequence[str]:
    return [node.constant(len(node.shape()), np.int32)]


@converts("Reshape")
def _reshape(node: Node) -> Sequence[str]:
    # With allowzero, a 0 is a length as in TensorFlow; but -1 and 0 together are then refused.
    return [node.emit("Reshape", [node.inputs[0], node.as_int64(1)])]


@converts("ExpandDims")
def _expand_dims(node: Node) -> Sequence[str]:
    axis = int(node.value(1))
    return [node.emit("Unsqueeze", [node.inputs[0], node.integers(axis)])]


@converts("Squeeze")
def _squeeze(node: Node) -> Sequence[str]:
    axes = [int(axis) for axis in node.attr("squeeze_dims")]
    axes = axes or [axis for axis, size in enumerate(node.shape()) if size == 1]
    return [node.emit("Squeeze", [node.inputs[0], node.integers(*axes)])]


@converts("Transpose")
def _transpose(node: Node) -> Sequence[str]:
    return [node.emit("Transpose", node.inputs[:1], perm=node.value(1).tolist())]


@converts("Tile")
def _tile(node: Node) -> Sequence[str]:
    return [node.emit("Tile", [node.inputs[0], node.as_int64(1)])]


@converts("BroadcastTo")
def _broadcast_to(node: Node) -> Sequence[str]:
    return [node.emit("Expand", [node.inputs[0], node.as_int64(1)])]


@converts("Fill")
def _fill(node: Node) -> Sequence[str]:
    return [node.emit("Expand", [node.inputs[1], node.as_int64(0)])]


@converts("ZerosLike", "OnesLike")
def _like(node: Node) -> Sequence[str]:
    value = node.constant(int(node.type == "OnesLike"), node.dtype())
    return [node.emit("Expand", [value, node.emit("Shape")])]


@converts("Range")
def _range(node: Node) -> Sequence[str]:
    return [node.emit("Range")]


@converts("Pack")
def _pack(node: Node) -> Sequence[str]:
    axis = int(node.attr("axis"))
    where = node.integers(axis)
    parts = [node.emit("Unsqueeze", [name, where]) for name in node.inputs]
    return [node.emit("Concat", parts, axis=axis)]


@converts("Unpack")
def _unpack(node: Node) -> Sequence[str]:
    axis, count = int(node.attr("axis")), node.num_outputs
    parts = node.emit_several("Split", count, axis=axis, num_outputs=count)
    where = node.integers(axis)
    return [node.emit("Squeeze", [part, where]) for part in parts]


@converts("ConcatV2")
def _concat_v2(node: Node) -> Sequence[str]:
    *parts, _ = node.inputs
    return [node.emit("Concat", parts, axis=int(node.value(len(parts))))]


@converts("Concat")
def _concat(node: Node) -> Sequence[str]:
    return [node.emit("Concat", node.inputs[1:], axis=int(node.value(0)))]


@converts("Split")
def _split(node: Node) -> Sequence[str]:
    count = node.num_outputs
    return node.emit_several(
        "Split", count, node.inputs[1:], axis=int(node.value(0)), num_outputs=count
    )


@converts("SplitV")
def _split_sizes(node: Node) -> Sequence[str]:
    axis, sizes = int(node.value(2)), node.constant_or_none(1)
    wanted = node.as_int64(1)
    if sizes is not None and (sizes < 0).any():  # -1: the rest, which ONNX does not know
        rest = node.emit("Sub", [_length(node, axis), node.integers(int(sizes[sizes >= 0].sum()))])
        is_rest = node.constant(sizes < 0)
        wanted = node.emit("Where", [is_rest, rest, wanted])
    return node.emit_several("Split", node.num_outputs, [node.inputs[0], wanted], axis=axis)


def _length(node: Node, axis: int) -> str:
    """The size of an axis of the first input, [1]."""
    size = node.shape()[axis]
    if size is not None:
        return node.integers(size)
    axis %= len(node.shape())
    return node.emit("Shape", node.inputs[:1], start=axis, end=axis + 1)


@converts("GatherV2", "Gather")
def _gather(node: Node) -> Sequence[str]:
    given = [node.inputs[0], node.as_index(1)]
    if node.type == "Gather":
        return [node.emit("Gather", given, axis=0)]
    if int(node.attr("batch_dims")):
        raise node.refusal("gathering with batch_dims")
    return [node.emit("Gather", given, axis=int(node.value(2)))]


@converts("GatherNd")
def _gather_nd(node: Node) -> Sequence[str]:
    return [node.emit("GatherND", [node.inputs[0], node.as_index(1)])]


@converts("OneHot")
def _one_hot(node: Node) -> Sequence[str]:
    # Not ONNX's OneHot: it counts negative indices from the end, where TensorFlow gives a row of
    # `off`, and onnxruntime has it for few combinations of dtypes.
    _, _, on, off = node.inputs
    axis, rank = int(node.attr("axis")), len(node.shape())
    zero, one = node.constant(0, np.int64), node.constant(1, np.int64)
    depth = node.emit("Reshape", [node.as_int64(1), node.integers()])
    classes = node.emit("Range", [zero, depth, one])
    after = 0 if axis == -1 else rank - axis
    if after:
        classes = node.emit("Reshape", [classes, node.integers(-1, *[1] * after)])
    wide = node.emit("Unsqueeze", [node.as_int64(0), node.integers(axis)])
    return [node.emit("Where", [node.emit("Equal", [wide, classes]), on, off])]


@converts("Select", "SelectV2")
def _select(node: Node) -> Sequence[str]:
    condition, *branches = node.inputs
    if node.type == "Select":
        missing = len(node.shape(1)) - len(node.shape(0))
        if missing > 0:  # one choice per row
            axes = range(len(node.shape(0)), len(node.shape(1)))
            condition = node.emit("Unsqueeze", [condition, node.integers(*axes)])
    return [node.emit("Where", [condition, *branches])]


@converts("Pad", "PadV2", "MirrorPad")
def _pad(node: Node) -> Sequence[str]:
    if node.type == "MirrorPad" and node.attr("mode") != "REFLECT":
        raise node.refusal(f"padding of the mode {node.attr('mode')}")
    pairs = node.value(1)
    given = [node.inputs[0], node.integers(*pairs.T.reshape(-1).tolist())]
    if node.type == "PadV2":
        given.append(node.inputs[2])
    return [node.emit("Pad", given, mode="reflect" if node.type == "MirrorPad" else "constant")]


@converts("ReverseV2")
def _reverse(node: Node) -> Sequence[str]:
    axes = [int(axis) % len(node.shape()) for axis in np.atleast_1d(node.value(1))]
    if not axes:
        return node.inputs[:1]
    count = len(axes)
    given = [
        node.inputs[0],
        node.integers(*[-1] * count),
        node.integers(*[-_END] * count),
        node.integers(*axes),
        node.integers(*[-1] * count),
    ]
    return [node.emit("Slice", given)]


@converts("Slice")
def _slice(node: Node) -> Sequence[str]:
    begin = node.as_int64(1)
    sizes = node.constant_or_none(2)
    if sizes is None:
        ends = node.emit("Add", [begin, node.as_int64(2)])
    elif (sizes >= 0).all():
        ends = node.emit("Add", [begin, node.integers(*sizes.tolist())])
    else:  # -1: to the end
        room = node.integers(*[0 if size >= 0 else _END for size in sizes.tolist()])
        sums = node.emit("Add", [begin, node.integers(*np.maximum(sizes, 0).tolist())])
        ends = node.emit("Max", [sums, room])
    axes = node.integers(*range(len(node.shape())))
    return [node.emit("Slice", [node.inputs[0], begin, ends, axes])]


@converts("StridedSlice")
def _strided_slice(node: Node) -> Sequence[str]:
    strides = node.value(3).tolist()
    begin, end = node.constant_or_none(1), node.constant_or_none(2)
    if begin is None or end is None:
        return _slice_by_tensors(node, strides)
    masks = {
        name: int(node.attr(f"{name}_mask"))
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    rank = len(node.shape())

    def is_set(name: str, position: int) -> bool:
        return bool(masks[name] >> position & 1)

    starts, ends, axes, steps, new, gone = [], [], [], [], [], []
    found = node.inputs[0]
    taken = sum(not (is_set("new_axis", i) or is_set("ellipsis", i)) for i in range(len(strides)))
    axis = position_out = 0
    for i, stride in enumerate(strides):
        if is_set("ellipsis", i):
            axis += rank - taken
            position_out += rank - taken
            continue
        if is_set("new_axis", i):
            new.append(position_out)
            position_out += 1
            continue
        if is_set("shrink_axis", i):
            starts.append(int(begin[i]))
            ends.append(int(begin[i]) + 1 if begin[i] != -1 else _END)
            steps.append(1)
            gone.append(axis)
        else:
            first = None if is_set("begin", i) else int(begin[i])
            last = None if is_set("end", i) else int(end[i])
            size = node.shape()[axis]
            if size is None and stride < 0 and first is not None and first < 0:
                # Before the beginning ONNX reads the first element, so it cuts first.
                low = 0 if last is None else _after(last)
                bounds = (node.integers(each) for each in (low, _after(first), axis))
                found = node.emit("Slice", [found, *bounds])
                first = last = None
            start, stop, step = _bounds(first, last, stride, size)
            starts.append(start)
            ends.append(stop)
            steps.append(step)
            position_out += 1
        axes.append(axis)
        axis += 1
    if axes:
        given = (node.integers(*values) for values in (starts, ends, axes, steps))
        found = node.emit("Slice", [found, *given])
    if gone:
        found = node.emit("Squeeze", [found, node.integers(*gone)])
    if new:
        found = node.emit("Unsqueeze", [found, node.integers(*new)])
    return [found]


def _after(position: int) -> int:
    """The position after one that may count from the end."""
    return _END if position == -1 else position + 1


def _bounds(
    first: int | None, last: int | None, stride: int, size: int | None
) -> tuple[int, int, int]:
    """Start, end and step for ONNX of a slice as in Python, of an axis of this size."""
    if size is None:
        start, stop = (0, _END) if stride > 0 else (_END, -_END)
        return start if first is None else first, stop if last is None else last, stride
    found = range(*slice(first, last, stride).indices(size))
    if not found:  # ONNX cannot say so with all bounds that Python takes
        return 0, 0, 1
    return found.start, found.stop if found.stop >= 0 else -_END, stride


def _slice_by_tensors(node: Node, strides: list[int]) -> Sequence[str]:
    """Where begin or end are computed."""
    if int(node.attr("ellipsis_mask")) or int(node.attr("new_axis_mask")):
        raise node.refusal("computed bounds together with an ellipsis or new axes")
    count = len(strides)
    shrink = int(node.attr("shrink_axis_mask"))
    gone = [axis for axis in range(count) if shrink >> axis & 1]

    def with_open(name: str, bounds: str, value: int) -> str:
        mask = int(node.attr(f"{name}_mask"))
        if not mask:
            return bounds
        is_open = [bool(mask >> axis & 1) and axis not in gone for axis in range(count)]
        return node.emit("Where", [node.constant(is_open), node.integers(value), bounds])

    def after(bounds: str) -> str:
        is_last = node.emit("Equal", [bounds, node.integers(-1)])
        following = node.emit("Add", [bounds, node.integers(1)])
        return node.emit("Where", [is_last, node.integers(_END), following])

    begin, end = node.as_int64(1), node.as_int64(2)
    starts, stops = with_open("begin", begin, 0), with_open("end", end, _END)
    if gone:  # one element, whatever the end is
        is_one = node.constant([axis in gone for axis in range(count)])
        stops = node.emit("Where", [is_one, after(begin), stops])
    backwards = [axis for axis in range(count) if strides[axis] < 0 and axis not in gone]
    if backwards:  # cut first, then read backwards, see `_strided_slice`
        is_backwards = node.constant([axis in backwards for axis in range(count)])
        low, high = with_open("end", after(end), 0), with_open("begin", after(begin), _END)
        starts = node.emit("Where", [is_backwards, low, starts])
        stops = node.emit("Where", [is_backwards, high, stops])
    steps = node.integers(*[max(stride, 1) for stride in strides])
    axes = node.integers(*range(count))
    found = node.emit("Slice", [node.inputs[0], starts, stops, axes, steps])
    if backwards:
        ends = (node.integers(*[each] * len(backwards)) for each in (_END, -_END))
        steps = node.integers(*[strides[axis] for axis in backwards])
        found = node.emit("Slice", [found, *ends, node.integers(*backwards), steps])
    return [node.emit("Squeeze", [found, node.integers(*gone)]) if gone else found]
