"""Drops computations whose results nobody reads.

Control edges alone can keep a pure node: the tuple around the gradients of a matrix product waits
for both of them, also for the one towards the features, which costs as much as the others and is
not used.
"""

from __future__ import annotations

from collections.abc import Collection

from sparkflow_runtime.ir.effects import is_pure
from sparkflow_runtime.ir.graph import Graph, predecessors
from sparkflow_runtime.ir.node import Node


def drop_unread(graph: Graph, targets: Collection[str]) -> Graph:
    """Returns the graph with unread pure nodes made NoOps; the same object if there are none.

    Such a NoOp waits for all that the node needed, so the order of what has effects stays as it is.
    Targets are computed, whether or not they are read, and so are reads of variables, which fail
    where the variable has no value yet.

    Args:
        graph: Pruned, with fetches as nodes.
        targets: Names of the nodes the step is asked to run.
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
