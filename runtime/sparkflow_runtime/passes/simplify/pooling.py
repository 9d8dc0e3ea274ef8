"""Rules for gradients of max pooling: operations move to the smaller tensor.

The whole gradient of a window goes to the position of its maximum. So it may be masked, or added up
per channel, before it is scattered over the images.
"""

from __future__ import annotations

from typing import Final

from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ops.windows import has_channels_last
from sparkflow_runtime.passes.simplify.rewriting import (
    Result,
    Rewriting,
    Rules,
    changed,
    waiting_as,
    with_inputs,
)

_GEOMETRY: Final = ("ksize", "strides", "padding", "data_format", "T")


def _spread(g: Rewriting, node: Node) -> Node | None:
    """Returns the max pooling gradient that is a node's first input; it may have control inputs."""
    found = g.nodes[node.inputs[0].node]
    if found.op != "MaxPoolGrad" or g.reads_references(found):
        return None
    pooled = g.source(found.inputs[1], "MaxPool")
    if pooled is None or pooled.inputs[0] != found.inputs[0]:
        return None
    return found if all(pooled.attrs[name] == found.attrs[name] for name in _GEOMETRY) else None


def _masked_before(g: Rewriting, node: Node) -> Result:
    """Applies the mask of a pooled relu to maxima instead of images.

    A gradient goes where the image equals its maximum, so both are positive, or neither is.
    """
    spread = _spread(g, node)
    if spread is None or spread.inputs[0] != node.inputs[1] or not g.is_read_once(node.inputs[0]):
        return None
    images, maxima, gradient = spread.inputs
    masked = g.node(node, "of_maxima", "ReluGrad", (gradient, maxima), T=node.attrs["T"])
    attrs = {name: value for name, value in spread.attrs.items() if not name.startswith("_")}
    return waiting_as(changed(node, spread.op, (images, maxima, masked), **attrs), spread)


def _summed_before(g: Rewriting, node: Node) -> Result:
    """Computes the sum per channel before scattering."""
    spread = _spread(g, node)
    if spread is None:
        return None
    data_format = spread.attrs["data_format"]
    channel = 3 if has_channels_last(data_format) else 1
    if node.attrs["data_format"] != data_format or spread.attrs["ksize"][channel] != 1:
        return None
    return waiting_as(with_inputs(node, spread.inputs[2]), spread)


RULES: Final[Rules] = {"ReluGrad": [_masked_before], "BiasAddGrad": [_summed_before]}
