"""Graphs cut down to what some of their nodes need."""

from __future__ import annotations

from collections.abc import Container, Iterable

from sparkflow.graph.messages.variable_values import node_name
from sparkflow_runtime.ir.node import CLASS_ATTR, COLOCATION_PREFIX
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef


def nodes_needed(graph_def: GraphDef, names: Iterable[str]) -> GraphDef:
    """The nodes of these names, if they exist, with all that they need, in their order."""
    nodes = {node.name: node for node in graph_def.node}
    waiting, needed = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in needed or name not in nodes:
            continue
        needed.add(name)
        waiting += [node_name(text) for text in nodes[name].input]
    result = GraphDef(library=graph_def.library, versions=graph_def.versions)
    result.node.extend(node for node in graph_def.node if node.name in needed)
    for node in result.node:
        _keep_groups(node, needed)
    return result


def _keep_groups(node: NodeDef, present: Container[str]) -> None:
    """Drops the wish to be beside nodes that are not there: no graph with it could be imported."""
    if CLASS_ATTR not in node.attr:
        return
    prefix = COLOCATION_PREFIX.encode()
    groups = [
        each
        for each in node.attr[CLASS_ATTR].list.s
        if not each.startswith(prefix) or each.removeprefix(prefix).decode() in present
    ]
    if groups:
        node.attr[CLASS_ATTR].list.s[:] = groups
    else:
        del node.attr[CLASS_ATTR]
