"""Rules for nodes that return an input unchanged, always or given what is known of it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sparkflow_runtime.ir.graph import predecessors
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.passes.simplify.rewriting import (
    Result,
    Rewriting,
    Rule,
    Rules,
    TraitRules,
    with_inputs,
)
from sparkflow_runtime.shapes import is_compatible, is_fully_defined


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
    """Ops that change nothing if all elements of an input are one number."""

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
    """Ops that return their input if the shape is unchanged."""
    return node.inputs[0] if g.same_sizes(node.inputs[0], Endpoint(node.name, 0)) else None


def _whole(g: Rewriting, node: Node) -> Result:
    """A slice with steps of 1 that has the size of its input."""
    strides = g.constant(node.inputs[3])
    if strides is None or (strides != 1).any():
        return None
    if node.attrs["new_axis_mask"] or node.attrs["shrink_axis_mask"]:
        return None
    return _same_sizes(g, node)


def _chosen(g: Rewriting, node: Node) -> Result:
    """The operand that a constant condition selects, if it has the shape of the result."""
    condition = g.constant(node.inputs[0])
    if condition is None or not condition.size or condition.any() != condition.all():
        return None
    chosen = node.inputs[1 if condition.any() else 2]
    if node.op == "Select" and condition.ndim == 0:
        return chosen
    return chosen if g.same_sizes(chosen, Endpoint(node.name, 0)) else None


def _holds(g: Rewriting, node: Node) -> Result:
    """An assertion that holds becomes a NoOp."""
    condition = g.constant(node.inputs[0])
    if condition is None or condition.ndim or not condition:
        return None
    waits = tuple(dict.fromkeys(predecessors(node)))
    private: dict[str, Any] = {k: v for k, v in node.attrs.items() if k.startswith("_")}
    return Node(node.name, "NoOp", (), waits, node.device, private)


def _is_repeated(op: Op) -> bool:
    return op.repeats is not None or op.fills is not None


def _unrepeated(g: Rewriting, node: Node) -> Result:
    """Removes a broadcast before an op that broadcasts itself."""
    for place, endpoint in enumerate(node.inputs):
        repeated = g.source_where(endpoint, _is_repeated)
        if repeated is None:
            continue
        result = g.sizes(Endpoint(node.name, 0))
        if result is None:
            return None
        op = registry.lookup(repeated.op)
        number = op.fills
        names = op.signature.input_names(repeated.attrs)
        small = repeated.inputs[0 if op.repeats is None else names.index(op.repeats)]
        sizes = [g.sizes(each) for each in node.inputs]
        sizes[place] = g.sizes(small) if number is None else ()
        if None in sizes or _broadcast(sizes) != result:
            continue
        if number is None and not _is_broadcast(g, small, repeated):
            continue
        if number is not None:
            dtype = repeated.attrs["T"]
            if not (dtype.is_floating or dtype.is_integer):
                continue
            small = g.const(node, f"number_{place}", np.array(number, dtype.as_numpy_dtype))
        return with_inputs(node, *node.inputs[:place], small, *node.inputs[place + 1 :])
    return None


def _is_broadcast(g: Rewriting, small: Endpoint, repeated: Node) -> bool:
    """Whether broadcasting has the same result; a Tile also repeats sizes above 1."""
    before, after = g.sizes(small), g.sizes(Endpoint(repeated.name, 0))
    if before is None or all(size == 1 for size in before):
        return before is not None
    return after is not None and _broadcast([before, after]) == after


def _broadcast(sizes: list[Any]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(*sizes)
    except ValueError:
        return None


RULES: Final[Rules] = {
    "Cast": (_same_dtype,),
    "EnsureShape": (_known_shape,),
    "PlaceholderWithDefault": (_all,),  # feeds are arguments by now
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
    "SelectV2": (_chosen,),
    "Assert": (_holds,),
}
TRAIT_RULES: Final[TraitRules] = (
    (lambda op: op.passes_on, _all),
    (lambda op: op.reduction, _without_axes(1)),
    (lambda op: op.broadcasts, _unrepeated),
)
