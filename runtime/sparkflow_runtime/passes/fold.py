"""Constant folding: computes nodes that depend on constants only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.ir.effects import without_dead
from sparkflow_runtime.ir.graph import Graph, predecessors, rewired
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import evaluation, registry
from sparkflow_runtime.ops.op import Op

MAX_FOLDED_BYTES: Final = 10 << 20
"""Maximum size of a folded constant, which is sent with the graph (TensorFlow's limit)."""

MAX_REPEATED: Final = 1 << 14
"""Maximum number of elements of a constant that repeats few numbers: reading a longer one is slower
than computing or broadcasting it."""


def fold(graph: Graph, keep: Collection[str] = ()) -> Graph:
    """Returns the graph with pure nodes of constant inputs replaced by their values.

    Each output of a node becomes a separate constant; the first has the node's name. Returns the
    same object if there is nothing to fold.

    A node that fails when folded is left alone: it fails when it runs, with its location in the
    text. So is one that reads a constant with control inputs, since its successors wait for those.
    Unread constants are dropped.

    Args:
        graph: Any graph.
        keep: Names of nodes that must stay: the targets of the step.
    """
    constants: dict[Endpoint, Any] = {}
    moved: dict[Endpoint, Endpoint] = {}
    folded: list[Node] = []
    made: set[str] = set()
    for original in graph.sorted():
        if original.op == "Const":
            if not original.control_inputs:
                constants[Endpoint(original.name, 0)] = original.attrs["value"]
            folded.append(original)
            continue
        node = rewired(original, moved) if moved else original
        values = _compute(node, constants)
        if values is None:
            folded.append(node)
            continue
        for slot, value in enumerate(values):
            name = node.name if slot == 0 else _fresh(f"{node.name}/output_{slot}", graph)
            folded.append(_constant(node, name, value))
            made.add(name)
            constants[Endpoint(name, 0)] = value
            if slot:
                moved[Endpoint(node.name, slot)] = Endpoint(name, 0)
    if not made:
        return graph
    once_read = {name for node in graph for name in predecessors(node)} & graph.nodes.keys()
    once_read.update(name for name in made if name not in graph)
    return Graph(without_dead(folded, once_read, keep))


def _fresh(name: str, graph: Graph) -> str:
    while name in graph:
        name += "_"
    return name


def _compute(node: Node, constants: Mapping[Endpoint, Any]) -> tuple[Any, ...] | None:
    if not node.inputs or node.control_inputs or not registry.contains(node.op):
        return None
    if any(endpoint not in constants for endpoint in node.inputs):
        return None
    op = registry.lookup(node.op)
    if not evaluation.is_computable(op, node.attrs):
        return None
    inputs = [constants[endpoint] for endpoint in node.inputs]
    if _repeated(op, node, inputs) > MAX_REPEATED:
        return None
    arrays = evaluation.computed(op, node, inputs)
    if arrays is None or sum(array.nbytes for array in arrays) > MAX_FOLDED_BYTES:
        return None
    return arrays


def _repeated(op: Op, node: Node, inputs: Sequence[np.ndarray[Any, Any]]) -> int:
    """Returns the size of the result of an op that only repeats numbers; 0 for other ops."""
    if op.repeats is None and op.fills is None:
        return 0
    found = evaluation.inferred(op, node, inputs)
    return 0 if found is None else shapes.num_elements(found[0]) or 0


def _constant(node: Node, name: str, array: np.ndarray[Any, Any]) -> Node:
    attrs = {name: item for name, item in node.attrs.items() if name.startswith("_")}
    attrs |= {"value": array, "dtype": dtypes.as_dtype(array.dtype)}
    return Node(name, "Const", (), (), node.device, attrs)
