"""Drops computations whose results are not read.

Control edges alone can keep a pure node: the tuple around the gradients of a matrix product waits
for both of them, also for that of the features, which is as expensive as the other and unused.
"""

from __future__ import annotations

from collections.abc import Collection

from sparkflow_runtime.ir.effects import is_pure
from sparkflow_runtime.ir.graph import Graph, predecessors
from sparkflow_runtime.ir.node import Node


def drop_unread(graph: Graph, targets: Collection[str]) -> Graph:
    """Returns the graph with unread pure nodes made NoOps; the same object if there are none.

    Such a NoOp waits for everything that the node needed, so the order of effects is unchanged.
    Targets are computed even if they are not read, and so are reads of variables, which fail if the
    variable is uninitialized.

    Args:
        graph: Pruned, with fetches as nodes.
        targets: Names of the target nodes of the step.
    """
    read: set[str] = set(targets)
    changed: dict[str, Node] = {}
    found = False
    for node in reversed(graph.sorted()):
        if node.name in read or not is_pure(graph.nodes, node):
            read.update(endpoint.node for endpoint in node.inputs)
            changed[node.name] = node
        else:
            found = True
            waits = tuple(dict.fromkeys(predecessors(node)))
            attrs = {name: value for name, value in node.attrs.items() if name.startswith("_")}
            changed[node.name] = Node(node.name, "NoOp", (), waits, node.device, attrs)
    return Graph(changed[node.name] for node in graph) if found else graph
