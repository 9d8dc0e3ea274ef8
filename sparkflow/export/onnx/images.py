"""Resizing, and blocks of pixels as channels."""

from __future__ import annotations

from collections.abc import Sequence

from sparkflow.export.onnx.table import Node, converts


@converts("ResizeBilinear", "ResizeNearestNeighbor")
def _resize(node: Node) -> Sequence[str]:
    bilinear = node.type == "ResizeBilinear"
    half = bool(node.attr("half_pixel_centers"))
    aligned = bool(node.attr("align_corners"))
    if not bilinear and aligned:
        raise node.refusal("the nearest neighbour with align_corners")
    height, width = node.value(1).tolist()
    channels = node.shape()[3]
    if channels is None:
        raise node.refusal("the number of its channels must be known")
    where = "align_corners" if aligned else "half_pixel" if half else "asymmetric"
    first = node.emit("Transpose", node.inputs[:1], perm=[0, 3, 1, 2])
    rows = node.emit("Slice", [node.emit("Shape", [first]), *map(node.integers, (0, 1))])
    sizes = node.emit("Concat", [rows, node.integers(channels, height, width)], axis=0)
    found = node.emit(
        "Resize",
        [first, "", "", sizes],
        mode="linear" if bilinear else "nearest",
        coordinate_transformation_mode=where,
        nearest_mode="round_prefer_ceil" if half else "floor",
    )
    found = node.emit("Transpose", [found], perm=[0, 2, 3, 1])
    return [found if node.dtype() == node.output_dtype() else node.cast(found, node.output_dtype())]


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
