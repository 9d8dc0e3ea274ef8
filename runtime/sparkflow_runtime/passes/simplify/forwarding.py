"""Rules for nodes that hand on an input, always or because of what is known of it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sparkflow_runtime.ir.graph import predecessors
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.passes.simplify.rewriting import Result, Rewriting, Rule, Rules, with_inputs
from sparkflow_runtime.shapes import is_compatible, is_fully_defined


def _first(g: Rewriting, node: Node) -> Result:
    return node.inputs[0]


def _all(g: Rewriting, node: Node) -> Result:
    return list(node.inputs)


def _same_dtype(g: Rewriting, node: Node) -> Result:
    return node.inputs[0] if node.attrs["SrcT"] is node.attrs["DstT"] else None


def _known_shape(g: Rewriting, node: Node) -> Result:
    """EnsureShape of a tensor that has that shape."""
    wanted, shape = node.attrs["shape"], g.shape(node.inputs[0])
    if wanted is None or (is_fully_defined(shape) and is_compatible(wanted, shape)):
        return node.inputs[0]
    return None


def _without_axes(place: int) -> Rule:
    """Reductions and the like over no axes."""

    def rule(g: Rewriting, node: Node) -> Result:
        axes = g.constant(node.inputs[place])
        return node.inputs[0] if axes is not None and not axes.size else None

    return rule


def _all_equal(place: int, number: int) -> Rule:
    """Nothing happens where all elements of an input are one number."""

    def rule(g: Rewriting, node: Node) -> Result:
        value = g.constant(node.inputs[place])
        return node.inputs[0] if value is not None and bool((value == number).all()) else None

    return rule


def _one_part(value: int) -> Rule:
    """A split into one part."""

    def rule(g: Rewriting, node: Node) -> Result:
        return [node.inputs[value]] if node.attrs["num_split"] == 1 else None

    return rule


def _same_sizes(g: Rewriting, node: Node) -> Result:
    """What can only give its input when the shape stays."""
    return node.inputs[0] if g.same_sizes(node.inputs[0], Endpoint(node.name, 0)) else None


def _whole(g: Rewriting, node: Node) -> Result:
    """A slice with steps of one that has the size of the whole."""
    strides = g.constant(node.inputs[3])
    if strides is None or (strides != 1).any():
        return None
    if node.attrs["new_axis_mask"] or node.attrs["shrink_axis_mask"]:
        return None
    return _same_sizes(g, node)


def _chosen(g: Rewriting, node: Node) -> Result:
    """What a constant condition chooses, where it has the shape of the result."""
    condition = g.constant(node.inputs[0])
    if condition is None or not condition.size or condition.any() != condition.all():
        return None
    chosen = node.inputs[1 if condition.any() else 2]
    if node.op == "Select" and condition.ndim == 0:
        return chosen
    return chosen if g.same_sizes(chosen, Endpoint(node.name, 0)) else None


def _holds(g: Rewriting, node: Node) -> Result:
    """An assertion that holds only waits."""
    condition = g.constant(node.inputs[0])
    if condition is None or condition.ndim or not condition:
        return None
    waits = tuple(dict.fromkeys(predecessors(node)))
    private: dict[str, Any] = {k: v for k, v in node.attrs.items() if k.startswith("_")}
    return Node(node.name, "NoOp", (), waits, node.device, private)


_BROADCASTS: Final = ("BroadcastTo", "Tile", "Fill", "OnesLike", "ZerosLike")
_NUMBERS: Final = {"OnesLike": 1, "ZerosLike": 0}


def _unrepeated(g: Rewriting, node: Node) -> Result:
    """Reads what was repeated before an op that repeats it itself."""
    for place, endpoint in enumerate(node.inputs):
        repeated = g.source(endpoint, *_BROADCASTS)
        if repeated is None:
            continue
        result = g.sizes(Endpoint(node.name, 0))
        if result is None:
            return None
        number = _NUMBERS.get(repeated.op)
        small = repeated.inputs[1 if repeated.op == "Fill" else 0]
        sizes = [g.sizes(each) for each in node.inputs]
        sizes[place] = g.sizes(small) if number is None else ()
        if None in sizes or _broadcast(sizes) != result or not _only_repeats(g, repeated, small):
            continue
        if number is not None:
            dtype = repeated.attrs["T"]
            if not (dtype.is_floating or dtype.is_integer):
                continue
            small = g.const(node, f"number_{place}", np.array(number, dtype.as_numpy_dtype))
        return with_inputs(node, *node.inputs[:place], small, *node.inputs[place + 1 :])
    return None


def _only_repeats(g: Rewriting, repeated: Node, small: Endpoint) -> bool:
    """Whether numpy's broadcasting gives the same; Tile repeats also what is longer than 1."""
    if repeated.op != "Tile":
        return True
    before, after = g.sizes(small), g.sizes(Endpoint(repeated.name, 0))
    if before is None or after is None:
        return False
    return all(a in (1, b) for a, b in zip(before, after, strict=True))


def _broadcast(sizes: list[Any]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(*sizes)
    except ValueError:
        return None


_BROADCASTING: Final = (
    *("Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "Maximum", "Minimum", "SquaredDifference"),
    *("Pow", "Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual", "LogicalAnd"),
    *("LogicalOr", "SelectV2"),
)
"""Ops of inputs that are broadcast. Later rules of the same op are in `arithmetic`."""
_REDUCTIONS: Final = ("Sum", "Mean", "Max", "Min", "Prod", "All", "Any")

RULES: Final[Rules] = {
    "Identity": (_first,),
    "StopGradient": (_first,),
    "PreventGradient": (_first,),
    "IdentityN": (_all,),
    "Cast": (_same_dtype,),
    "EnsureShape": (_known_shape,),
    "ReverseV2": (_without_axes(1),),
    "Tile": (_all_equal(1, 1),),
    "Pad": (_all_equal(1, 0),),
    "PadV2": (_all_equal(1, 0),),
    "MirrorPad": (_all_equal(1, 0),),
    "Split": (_one_part(1),),
    "SplitV": (_one_part(0),),
    "BroadcastTo": (_same_sizes,),
    "Slice": (_same_sizes,),
    "StridedSlice": (_whole,),
    "Select": (_chosen,),
    "SelectV2": (_chosen, _unrepeated),
    "Assert": (_holds,),
    **{op: (_without_axes(1),) for op in _REDUCTIONS},
    **{op: (_unrepeated,) for op in _BROADCASTING if op != "SelectV2"},
}
