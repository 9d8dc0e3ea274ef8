"""Reads of variables that come after an update, as TensorFlow 1's programs count on.

A variable has one node, `v/read`, that everything reads which does not update it. In TensorFlow its
output shares the variable's memory, so

    with tf.control_dependencies([tf.assign_add(v, 1)]):
        after = tf.identity(v)

sees the new value, although `v/read` itself may have run before the update. Here, whatever follows
an update of a variable and reads such a node reads the variable instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkflow_runtime.dtypes import resource
from sparkflow_runtime.ir.function import ARG
from sparkflow_runtime.ir.graph import Graph, rewired
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry


def late_reads(graph: Graph) -> Graph:
    """The graph with what follows an update of a variable reading the variable itself."""
    owner = references(graph)
    if not owner:
        return graph
    snapshots: dict[Endpoint, list[Node]] = {}
    for node in graph:
        if node.op != "Identity" or node.control_inputs:
            continue
        if owner.get(node.inputs[0]) == node.inputs[0]:
            snapshots.setdefault(node.inputs[0], []).append(node)
    if not snapshots:
        return graph
    updates = find_updates(graph, owner)
    read_and_updated = [variable for variable in snapshots if variable in updates]
    if not read_and_updated:
        return graph
    consumers = graph.consumers()
    changed = dict(graph.nodes)
    for variable in read_and_updated:
        exchanged = {Endpoint(node.name, 0): variable for node in snapshots[variable]}
        for name in _after(updates[variable], consumers):
            changed[name] = rewired(changed[name], exchanged)
    return Graph(changed.values())


def find_updates(graph: Graph, owner: Mapping[Endpoint, Endpoint]) -> dict[Endpoint, list[str]]:
    """Per variable the nodes that may change it.

    Args:
        graph: Any graph.
        owner: Per reference or handle the variable it stands for.
    """
    updates: dict[Endpoint, list[str]] = {}
    for node in graph:
        if owner.keys().isdisjoint(node.inputs):
            continue
        op = registry.lookup(node.op)
        if op.only_reads:
            continue
        expected = op.signature.input_dtypes(node.attrs)
        for endpoint, dtype in zip(node.inputs, expected, strict=True):
            if endpoint in owner and (dtype.is_ref or dtype is resource):
                updates.setdefault(owner[endpoint], []).append(node.name)
    return updates


def references(graph: Graph) -> dict[Endpoint, Endpoint]:
    """Per reference and handle what it stands for: updates pass their references on."""
    owner: dict[Endpoint, Endpoint] = {}
    if not any(map(_may_refer, graph)):
        return owner
    for node in graph.sorted():
        if not _may_refer(node):
            continue
        outputs = registry.lookup(node.op).signature.output_dtypes(node.attrs)
        if not any(dtype.is_ref or dtype is resource for dtype in outputs):
            continue
        held = [owner[endpoint] for endpoint in node.inputs if endpoint in owner]
        for slot, dtype in enumerate(outputs):
            if dtype.is_ref or dtype is resource:
                here = Endpoint(node.name, slot)
                owner[here] = held[0] if held and node.op != ARG else here
    return owner


def _may_refer(node: Node) -> bool:
    signature = registry.lookup(node.op).signature
    return (
        signature.gives_references
        or node.attrs.get("T") is resource
        or any(arg.dtype is resource for arg in signature.outputs)
    )


def _after(names: list[str], consumers: dict[str, list[Node]]) -> set[str]:
    """Every node that runs after one of these."""
    found: set[str] = set()
    stack = list(names)
    while stack:
        for node in consumers[stack.pop()]:
            if node.name not in found:
                found.add(node.name)
                stack.append(node.name)
    return found
