"""Rules for transposes: pairs cancel, and matrix products absorb them as flags."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.passes.simplify.rewriting import (
    Result,
    Rewriting,
    Rule,
    Rules,
    changed,
    with_inputs,
)


def _order(g: Rewriting, node: Node) -> list[int] | None:
    """The permutation of a Transpose if it is known and valid."""
    perm = g.constant(node.inputs[1])
    if perm is None or perm.ndim != 1 or sorted(perm.tolist()) != list(range(perm.size)):
        return None
    order: list[int] = perm.tolist()
    return order


def _nothing_moves(g: Rewriting, node: Node) -> Result:
    order = _order(g, node)
    return node.inputs[0] if order is not None and order == sorted(order) else None


def _transposed_twice(g: Rewriting, node: Node) -> Result:
    first = g.source(node.inputs[0], "Transpose")
    order = _order(g, node)
    before = None if first is None else _order(g, first)
    if first is None or order is None or before is None or len(order) != len(before):
        return None
    both = [before[axis] for axis in order]
    if both == sorted(both):
        return first.inputs[0]
    perm = np.array(both, node.attrs["Tperm"].as_numpy_dtype)
    return with_inputs(node, first.inputs[0], g.const(node, "perm", perm))


def _only_ones_move(g: Rewriting, node: Node) -> Result:
    """The order of elements is unchanged if only axes of size 1 move."""
    order, sizes = _order(g, node), g.sizes(node.inputs[0])
    if order is None or sizes is None or len(order) != len(sizes):
        return None
    long = [axis for axis in order if sizes[axis] != 1]
    if long != sorted(long):
        return None
    result = [sizes[axis] for axis in order]
    if result == list(sizes):
        return node.inputs[0]
    target = g.const(node, "shape", np.array(result, np.int32))
    attrs: dict[str, Any] = {"T": node.attrs["T"], "Tshape": dtypes.int32}
    return changed(node, "Reshape", [node.inputs[0], target], **attrs)


def _flags(*names: str) -> Rule:
    """Matrix products with transposed operands, by the names of their flags."""

    def rule(g: Rewriting, node: Node) -> Result:
        if any(dtype.is_complex for dtype in _types(node)) and names[0] != "transpose_a":
            return None  # these flags also conjugate
        inputs, attrs = list(node.inputs), dict(node.attrs)
        for place, name in enumerate(names):
            matrix = _untransposed(g, inputs[place])
            if matrix is not None:
                inputs[place], attrs[name] = matrix, not attrs[name]
        if inputs == list(node.inputs):
            return None
        return changed(node, node.op, inputs, **attrs)

    return rule


def _types(node: Node) -> list[DType]:
    return [value for value in node.attrs.values() if isinstance(value, DType)]


def _untransposed(g: Rewriting, endpoint: Endpoint) -> Endpoint | None:
    """Returns the tensor of which this one is the transpose in the last two dimensions."""
    transpose = g.source(endpoint, "Transpose")
    order = None if transpose is None else _order(g, transpose)
    if transpose is None or order is None or len(order) < 2:
        return None
    rank = len(order)
    if order != [*range(rank - 2), rank - 1, rank - 2]:
        return None
    return transpose.inputs[0]


RULES: Final[Rules] = {
    "Transpose": (_nothing_moves, _transposed_twice, _only_ones_move),
    "MatMul": (_flags("transpose_a", "transpose_b"),),
    "BatchMatMul": (_flags("adj_x", "adj_y"),),
    "BatchMatMulV2": (_flags("adj_x", "adj_y"),),
    "BatchMatMulV3": (_flags("adj_x", "adj_y"),),
}
