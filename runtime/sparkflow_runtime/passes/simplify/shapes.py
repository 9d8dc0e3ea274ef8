"""Rules for shapes as values, and for ops that only change the shape."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import evaluation, registry
from sparkflow_runtime.passes.simplify.rewriting import (
    Result,
    Rewriting,
    Rules,
    TraitRules,
    as_constant,
    changed,
    with_inputs,
)

_UNKNOWN: Final = -1
"""An unknown size; sizes are never negative."""


def _shape(g: Rewriting, node: Node) -> Result:
    sizes = g.sizes(node.inputs[0])
    return None if sizes is None else as_constant(node, _array(node, sizes))


def _shapes(g: Rewriting, node: Node) -> Result:
    found = [g.sizes(endpoint) for endpoint in node.inputs]
    if None in found:
        return None
    return [
        g.const(node, f"shape_{index}", _array(node, sizes)) for index, sizes in enumerate(found)
    ]


def _size(g: Rewriting, node: Node) -> Result:
    sizes = g.sizes(node.inputs[0])
    return None if sizes is None else as_constant(node, _array(node, math.prod(sizes)))


def _rank(g: Rewriting, node: Node) -> Result:
    shape = g.shape(node.inputs[0])
    return None if shape is None else as_constant(node, np.array(len(shape), np.int32))


def _array(node: Node, value: Any) -> np.ndarray[Any, Any]:
    return np.array(value, node.attrs["out_type"].as_numpy_dtype)


def _part_of_shape(g: Rewriting, node: Node) -> Result:
    """The known sizes of a partly known shape."""
    shape_of = g.source(node.inputs[0], "Shape")
    shape = None if shape_of is None else g.shape(shape_of.inputs[0])
    if shape_of is None or shape is None or None not in shape:
        return None
    others = [each for e in node.inputs[1:] if (each := g.constant(e)) is not None]
    if len(others) < len(node.inputs) - 1:
        return None
    known = _array(shape_of, [_UNKNOWN if size is None else size for size in shape])
    found = evaluation.computed(registry.lookup(node.op), node, [known, *others])
    return None if found is None or (found[0] == _UNKNOWN).any() else as_constant(node, found[0])


def _equal_shapes(g: Rewriting, node: Node) -> Result:
    """Operands of one shape: no broadcasting, so no summation."""
    first, second = (g.source(endpoint, "Shape") for endpoint in node.inputs)
    same = node.inputs[0] == node.inputs[1]
    if not same and first is not None and second is not None:
        same = first.inputs[0] == second.inputs[0]
    if not same:
        return None
    empty = np.zeros(0, node.attrs["T"].as_numpy_dtype)
    return [g.const(node, f"axes_{index}", empty) for index in (0, 1)]


def _root(g: Rewriting, endpoint: Endpoint) -> Endpoint:
    """The tensor at the start of a chain of reshapes."""
    while (node := g.source_where(endpoint, lambda op: op.reshapes)) is not None:
        endpoint = node.inputs[0]
    return endpoint


def _reshaped(g: Rewriting, node: Node) -> Result:
    """A reshape back to the original shape."""
    root = _root(g, node.inputs[0])
    out = Endpoint(node.name, 0)
    if g.same_sizes(root, out):
        return root
    if node.op != "Reshape":
        return None
    if _fits(g, root, node.inputs[1]):
        return root
    return with_inputs(node, root, node.inputs[1]) if root != node.inputs[0] else None


def _fits(g: Rewriting, root: Endpoint, target: Endpoint) -> bool:
    """Whether a tensor has the shape requested by a reshape, whatever its unknown size."""
    asked = g.source(target, "Shape")
    if asked is not None and asked.inputs[0] == root:
        return True
    shape, sizes = g.shape(root), g.constant(target)
    if shape is None or sizes is None or shape.count(None) != 1 or len(shape) != sizes.size:
        return False
    # The other sizes are unchanged, so the inferred one is too.
    return all(
        wanted == (-1 if size is None else size) and size != 0
        for size, wanted in zip(shape, sizes.tolist(), strict=True)
    )


def _undone(g: Rewriting, node: Node) -> Result:
    """Squeeze of an axis that ExpandDims added, without known shapes."""
    expanded = g.source(node.inputs[0], "ExpandDims")
    axes = node.attrs["squeeze_dims"]
    if expanded is None or len(axes) != 1:
        return None
    axis = g.constant(expanded.inputs[1])
    if axis is None or axis.size != 1 or int(axis.flat[0]) != axes[0]:
        return None
    return expanded.inputs[0]


def _reduced_ones(g: Rewriting, node: Node) -> Result:
    """A reduction over axes of size 1 only changes the shape."""
    sizes, axes = g.sizes(node.inputs[0]), g.constant(node.inputs[1])
    result = g.sizes(Endpoint(node.name, 0))
    if sizes is None or axes is None or result is None:
        return None
    if any(sizes[axis] != 1 for axis in axes.reshape(-1).tolist()):
        return None
    if sizes == result:
        return node.inputs[0]
    target = g.const(node, "shape", np.array(result, np.int32))
    (dtype,) = registry.lookup(node.op).signature.output_dtypes(node.attrs)
    attrs = {"T": dtype, "Tshape": dtypes.int32}
    return changed(node, "Reshape", [node.inputs[0], target], **attrs)


RULES: Final[Rules] = {
    "Shape": (_shape,),
    "ShapeN": (_shapes,),
    "Size": (_size,),
    "Rank": (_rank,),
    "StridedSlice": (_part_of_shape,),
    "Slice": (_part_of_shape,),
    "GatherV2": (_part_of_shape,),
    "BroadcastGradientArgs": (_equal_shapes,),
    "Squeeze": (_undone,),
}
TRAIT_RULES: Final[TraitRules] = (
    (lambda op: op.reshapes, _reshaped),
    (lambda op: op.reduction, _reduced_ones),
)
