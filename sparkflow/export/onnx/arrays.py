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
    given = [node.inputs[0], node.as_int64(1)]
    return node.emit_several("Split", node.num_outputs, given, axis=int(node.value(2)))


@converts("GatherV2", "Gather")
def _gather(node: Node) -> Sequence[str]:
    if node.type == "Gather":
        return [node.emit("Gather", axis=0)]
    if int(node.attr("batch_dims")):
        raise node.refusal("gathering with batch_dims")
    return [node.emit("Gather", node.inputs[:2], axis=int(node.value(2)))]


@converts("GatherNd")
def _gather_nd(node: Node) -> Sequence[str]:
    return [node.emit("GatherND", [node.inputs[0], node.as_int64(1)])]


@converts("OneHot")
def _one_hot(node: Node) -> Sequence[str]:
    indices, _, on, off = node.inputs
    one = node.integers(1)
    values = node.emit("Concat", [node.emit("Reshape", [each, one]) for each in (off, on)], axis=0)
    depth = node.emit("Reshape", [node.as_int64(1), one])
    # ONNX counts negative indices from the end; TensorFlow gives a row of `off` for them.
    found = node.emit("OneHot", [indices, depth, values], axis=int(node.attr("axis")))
    if node.dtype().kind == "u":
        return [found]
    negative = node.emit("Less", [indices, node.constant(0, node.dtype())])
    wide = node.emit("Unsqueeze", [negative, node.integers(int(node.attr("axis")))])
    return [node.emit("Where", [wide, off, found])]


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
            first, last = (0, _END) if stride > 0 else (_END, -_END)
            starts.append(first if is_set("begin", i) else int(begin[i]))
            ends.append(last if is_set("end", i) else int(end[i]))
            steps.append(int(stride))
            position_out += 1
        axes.append(axis)
        axis += 1
    found = node.inputs[0]
    if axes:
        given = (node.integers(*values) for values in (starts, ends, axes, steps))
        found = node.emit("Slice", [found, *given])
    if gone:
        found = node.emit("Squeeze", [found, node.integers(*gone)])
    if new:
        found = node.emit("Unsqueeze", [found, node.integers(*new)])
    return [found]


def _slice_by_tensors(node: Node, strides: list[int]) -> Sequence[str]:
    """Where begin or end are computed."""
    if int(node.attr("ellipsis_mask")) or int(node.attr("new_axis_mask")):
        raise node.refusal("computed bounds together with an ellipsis or new axes")
    bounds = []
    for index, name, at_positive, at_negative in ((1, "begin", 0, _END), (2, "end", _END, -_END)):
        mask = int(node.attr(f"{name}_mask"))
        given = node.as_int64(index)
        if mask:
            is_open = node.constant([bool(mask >> axis & 1) for axis in range(len(strides))])
            ends = [at_positive if stride > 0 else at_negative for stride in strides]
            given = node.emit("Where", [is_open, node.integers(*ends), given])
        bounds.append(given)
    shrink = int(node.attr("shrink_axis_mask"))
    gone = [axis for axis in range(len(strides)) if shrink >> axis & 1]
    parts = [
        node.inputs[0],
        *bounds,
        node.integers(*range(len(strides))),
        node.integers(*strides),
    ]
    found = node.emit("Slice", parts)
    return [node.emit("Squeeze", [found, node.integers(*gone)]) if gone else found]
