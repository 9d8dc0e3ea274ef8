"""Reads of variables that come after an update, as TensorFlow 1's programs count on.

A variable has one node, `v/read`, that everything reads which does not update it. In TensorFlow its
output shares the variable's memory, so

    with tf.control_dependencies([tf.assign_add(v, 1)]):
        after = tf.identity(v)

sees the new value, although `v/read` itself may have run before the update. Here, whatever follows
an update of a variable and reads such a node reads the variable instead.
"""

from __future__ import annotations

from sparkflow_runtime.ir.function import ARG
from sparkflow_runtime.ir.graph import Graph, rewired
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry


def late_reads(graph: Graph) -> Graph:
    """The graph with what follows an update of a variable reading the variable itself."""
    owner = _references(graph)
    if not owner:
        return graph
    updates: dict[Endpoint, list[str]] = {}
    snapshots: dict[Endpoint, list[Node]] = {}
    for node in graph:
        if node.op == "Identity" and node.inputs[0] in owner:
            if not node.control_inputs and owner[node.inputs[0]] == node.inputs[0]:
                snapshots.setdefault(node.inputs[0], []).append(node)
            continue
        op = registry.lookup(node.op)
        if op.only_reads or owner.keys().isdisjoint(node.inputs):
            continue
        expected = op.signature.input_dtypes(node.attrs)
        for endpoint, dtype in zip(node.inputs, expected, strict=True):
            if dtype.is_ref and endpoint in owner:
                updates.setdefault(owner[endpoint], []).append(node.name)
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


def _references(graph: Graph) -> dict[Endpoint, Endpoint]:
    """Per reference the variable it refers to: updates pass theirs on."""
    owner: dict[Endpoint, Endpoint] = {}
    if not any(registry.lookup(node.op).signature.gives_references for node in graph):
        return owner
    for node in graph.sorted():
        signature = registry.lookup(node.op).signature
        if not signature.gives_references:
            continue
        outputs = signature.output_dtypes(node.attrs)
        if not any(dtype.is_ref for dtype in outputs):
            continue
        held = [owner[endpoint] for endpoint in node.inputs if endpoint in owner]
        for slot, dtype in enumerate(outputs):
            if dtype.is_ref:
                here = Endpoint(node.name, slot)
                owner[here] = held[0] if held and node.op != ARG else here
    return owner


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
