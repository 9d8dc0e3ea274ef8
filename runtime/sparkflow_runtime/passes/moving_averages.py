"""Moves an average towards a value in one step that nothing can come in between of.

Layers and `tf.train.ExponentialMovingAverage` update averages on parameter servers by

    change = (average - value) * rate
    assign_sub(average, change)

Steps of several workers that read the same average subtract a change each. n workers in step move
it by n * rate: with 20 of them and a rate of 0.1 as far beyond the value as it was away, and a
variance gets negative. So the three nodes become one op, which locks the average: n workers leave
(1 - rate)ⁿ of it, in whatever order.

This applies if all three are on the variable's device, nothing else reads the change, no other node
updates the average (a second one would see the first), and shapes are known. The arithmetic is the
same, so a single worker gets the same bits.
"""

from __future__ import annotations

from sparkflow_runtime.ir.effects import find_handles, find_updates, without_dead
from sparkflow_runtime.ir.graph import Graph, predecessors
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import Types
from sparkflow_runtime.ops import registry

_MOVED = {
    "AssignSub": "ApplyMovingAverage",
    "AssignSubVariableOp": "ResourceApplyMovingAverage",
}
"""The op by what it replaces."""


def moving_averages(graph: Graph, types: Types) -> Graph:
    """Returns the graph with averages moved by one op each; the same object if there are none.

    Args:
        graph: Placed.
        types: What is known of its tensors, from before any pass.
    """
    candidates = [node for node in graph if node.op in _MOVED]
    if not candidates:
        return graph
    consumers = graph.consumers()
    ordered = graph.sorted()
    owner = find_handles(ordered)
    updates = find_updates(ordered, owner)
    changed: dict[str, Node] = {}
    for node in candidates:
        if len(updates.get(owner.get(node.inputs[0], node.inputs[0]), ())) != 1:
            continue
        found = _value_and_rate(graph, types, node, consumers)
        if found is None:
            continue
        value, rate = found
        private = {name: each for name, each in node.attrs.items() if name.startswith("_")}
        kind = node.attrs["dtype" if "dtype" in node.attrs else "T"]
        attrs = {**private, "T": kind, "use_locking": False}
        inputs = (node.inputs[0], rate, value)
        changed[node.name] = Node(
            node.name, _MOVED[node.op], inputs, node.control_inputs, node.device, attrs
        )
    if not changed:
        return graph
    once_read = {name for node in graph for name in predecessors(node)}
    nodes = Graph(changed.get(node.name, node) for node in graph).sorted()
    return Graph(without_dead(nodes, once_read, ()))


def _value_and_rate(
    graph: Graph, types: Types, node: Node, consumers: dict[str, list[Node]]
) -> tuple[Endpoint, Endpoint] | None:
    """The value and the rate of an update that moves an average; None if it does not."""
    variable, change = node.inputs[:2]
    product = graph[change.node]
    if product.op != "Mul" or not _is_own(product, node, consumers):
        return None
    difference = graph[product.inputs[0].node]
    if difference.op != "Sub" or not _is_own(difference, product, consumers):
        return None
    read, value, rate = graph[difference.inputs[0].node], difference.inputs[1], product.inputs[1]
    op = registry.lookup(read.op)
    if not op.reads_variable or read.inputs[0] != variable or read.control_inputs:
        return None
    shape, scalar = _shape(types, Endpoint(difference.name, 0)), _shape(types, rate)
    if read.device != node.device or shape is None or None in shape or scalar != ():
        return None
    return (value, rate) if _shape(types, value) == shape else None


def _is_own(node: Node, reader: Node, consumers: dict[str, list[Node]]) -> bool:
    is_alone = consumers[node.name] == [reader] and not node.control_inputs
    return is_alone and node.device == reader.device


def _shape(types: Types, endpoint: Endpoint) -> tuple[int | None, ...] | None:
    known = types.get(endpoint)
    return None if known is None else known.shape
