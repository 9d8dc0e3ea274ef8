"""Merges common subexpressions: equal pure nodes on equal devices become one."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.ir.graph import Graph, rewired
from sparkflow_runtime.ir.node import SOURCE_ATTR, Endpoint, Node
from sparkflow_runtime.ops import registry


def merge(graph: Graph) -> Graph:
    """The graph without repeated pure computations.

    Two nodes are equal when op, inputs, control inputs, requested device and attributes (but for
    the source line) are. Stateful nodes and those that touch variables are never merged.
    """
    seen: dict[Any, Node] = {}
    renamed: dict[str, str] = {}
    replaced: dict[Endpoint, Endpoint] = {}
    kept: list[Node] = []
    for original in graph.sorted():
        node = _renamed(rewired(original, replaced), renamed)
        key = _key(node)
        if key is None:
            kept.append(node)
            continue
        first = seen.setdefault(key, node)
        if first is node:
            kept.append(node)
            continue
        renamed[node.name] = first.name
        outputs = registry.lookup(node.op).signature.output_dtypes(node.attrs)
        for slot in range(len(outputs)):
            replaced[Endpoint(node.name, slot)] = Endpoint(first.name, slot)
    return Graph(kept)


def _renamed(node: Node, renamed: dict[str, str]) -> Node:
    if not any(name in renamed for name in node.control_inputs):
        return node
    control = tuple(dict.fromkeys(renamed.get(name, name) for name in node.control_inputs))
    return Node(node.name, node.op, node.inputs, control, node.device, node.attrs)


def _key(node: Node) -> Any:
    if not registry.contains(node.op):
        return None
    op = registry.lookup(node.op)
    if op.stateful or op.takes_step or node.op in ("NoOp", "Placeholder"):
        return None
    signature = op.signature
    if any(dtype.is_ref for dtype in signature.input_dtypes(node.attrs)):
        return None
    attrs = tuple(
        (name, _hashable(value))
        for name, value in sorted(node.attrs.items())
        if name != SOURCE_ATTR
    )
    return node.op, node.inputs, frozenset(node.control_inputs), node.device, attrs


def _hashable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return value.shape, tuple(value.reshape(-1).tolist())
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    return type(value).__name__, value
