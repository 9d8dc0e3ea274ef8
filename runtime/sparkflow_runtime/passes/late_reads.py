"""Reads variables again after an update, as TensorFlow 1 programs expect.

A variable has one node, `v/read`, through which it is read. In TensorFlow its output shares the
variable's memory, so

    with tf.control_dependencies([tf.assign_add(v, 1)]):
        after = tf.identity(v)

sees the new value, although `v/read` itself may have run before the update. Here, nodes that follow
an update of a variable and read such a node read the variable instead.
"""

from __future__ import annotations

from sparkflow_runtime.ir.effects import find_handles, find_updates
from sparkflow_runtime.ir.graph import Graph, descendants, rewired
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry


def late_reads(graph: Graph) -> Graph:
    """Returns the graph in which nodes after an update of a variable read the variable itself."""
    owner = find_handles(graph.sorted())
    if not owner:
        return graph
    snapshots: dict[Endpoint, list[Node]] = {}
    for node in graph:
        op = registry.lookup(node.op)
        if not (op.passes_on and op.reads_variable) or node.control_inputs:
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
        for name in descendants(updates[variable], consumers):
            changed[name] = rewired(changed[name], exchanged)
    return Graph(changed.values())
