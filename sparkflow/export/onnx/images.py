"""Resizing, and blocks of pixels as channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparkflow.export.onnx.table import Node, converts


@converts("ResizeBilinear")
def _resize_bilinear(node: Node) -> Sequence[str]:
    height, width = node.value(1).tolist()
    channels = node.shape()[3]
    if channels is None:
        raise node.refusal("the number of its channels must be known")
    half, aligned = bool(node.attr("half_pixel_centers")), bool(node.attr("align_corners"))
    where = "align_corners" if aligned else "half_pixel" if half else "asymmetric"
    # Of integers, too, TensorFlow's result is float32; ONNX's is of the images' dtype.
    images = node.inputs[0]
    if node.dtype() != node.output_dtype():
        images = node.cast(images, node.output_dtype())
    first = node.emit("Transpose", [images], perm=[0, 3, 1, 2])
    rows = node.emit("Slice", [node.emit("Shape", [first]), *map(node.integers, (0, 1))])
    sizes = node.emit("Concat", [rows, node.integers(channels, height, width)], axis=0)
    found = node.emit(
        "Resize", [first, "", "", sizes], mode="linear", coordinate_transformation_mode=where
    )
    return [node.emit("Transpose", [found], perm=[0, 2, 3, 1])]


@converts("ResizeNearestNeighbor")
def _resize_nearest(node: Node) -> Sequence[str]:
    # ONNX's Resize divides by the scale where TensorFlow multiplies, and then takes other pixels.
    found = node.inputs[0]
    for axis, wanted in zip((1, 2), node.value(1).tolist(), strict=True):
        found = node.emit("Gather", [found, _nearest(node, axis, wanted)], axis=axis)
    return [found]


def _nearest(node: Node, axis: int, wanted: int) -> str:
    """Which pixels of an axis are taken, computed in float32 as TensorFlow does."""
    half, aligned = bool(node.attr("half_pixel_centers")), bool(node.attr("align_corners"))
    corner = int(aligned and wanted > 1)
    if node.shape()[axis] is None:
        length = node.emit("Shape", node.inputs[:1], start=axis, end=axis + 1)
    else:
        length = node.integers(node.shape()[axis] or 0)
    last = node.emit("Sub", [length, node.integers(1)])
    distance = node.cast(last if corner else length, np.float32)
    scale = node.emit("Div", [distance, node.constant(wanted - corner, np.float32)])
    places = np.arange(wanted, dtype=np.float32) + np.float32(0.5 if half else 0)
    found = node.emit("Mul", [node.constant(places), scale])
    if aligned and not half:
        found = node.emit("Add", [found, node.constant(0.5, np.float32)])
    index = node.cast(node.emit("Floor", [found]), np.int64)
    return node.emit("Min", [index, last])


@converts("DepthToSpace", "SpaceToDepth")
def _blocks(node: Node) -> Sequence[str]:
    size = int(node.attr("block_size"))
    if node.attr("data_format") != "NHWC":
        raise node.refusal(f"data_format {node.attr('data_format')}")
    first = node.emit("Transpose", perm=[0, 3, 1, 2])
    if node.type == "DepthToSpace":
        found = node.emit("DepthToSpace", [first], blocksize=size, mode="DCR")
    else:
        found = node.emit("SpaceToDepth", [first], blocksize=size)
    return [node.emit("Transpose", [found], perm=[0, 2, 3, 1])]
