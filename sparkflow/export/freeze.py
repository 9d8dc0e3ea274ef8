"""Cutting a graph down to what its outputs need, and turning its variables into constants."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

import numpy as np

from sparkflow.graph.messages.pruning import nodes_needed
from sparkflow.graph.messages.variable_values import (
    constant,
    gives_reference,
    node_name,
    replace_variables,
)
from sparkflow_runtime.errors import NotFoundError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef


def prune_graph(graph_def: GraphDef, outputs: Iterable[str]) -> GraphDef:
    """The nodes that `outputs` (tensor names, `node:0`) depend on, in their order.

    Raises:
        NotFoundError: A node is missing.
    """
    wanted = [node_name(name) for name in outputs]
    known = {node.name for node in graph_def.node}
    for name in wanted:
        if name not in known:
            raise NotFoundError(message=f"The graph has no node {name!r}")
    pruned = nodes_needed(graph_def, wanted)
    for node in pruned.node:
        for text in node.input:
            if node_name(text) not in known:
                raise NotFoundError(message=f"The graph has no node {node_name(text)!r}")
    return pruned


def variable_names(graph_def: GraphDef) -> list[str]:
    """The names of the graph's variables."""
    return [node.name for node in graph_def.node if registry.find(node.op).is_variable]


def without_handles(graph_def: GraphDef) -> GraphDef:
    """The graph with variables that give references in the place of those that give handles.

    So that there is one kind of variable in what is exported.

    Args:
        graph_def: A graph that reads its variables only.

    Raises:
        ValueError: Something takes the handle of a variable that cannot take its value.
    """
    held = [
        node
        for node in graph_def.node
        if registry.find(node.op).is_variable and not gives_reference(node)
    ]
    return replace_variables(graph_def, {node.name: _reference(node) for node in held})


def freeze_graph(
    graph_def: GraphDef, values: Mapping[str, np.ndarray[Any, Any]], kept: Container[str] = ()
) -> GraphDef:
    """The graph with a constant in the place of each variable.

    Args:
        graph_def: A graph that reads its variables only.
        values: The value of each variable, by name.
        kept: The names of variables that stay variables.

    Raises:
        NotFoundError: A variable has no value.
        ValueError: Something takes the handle of a variable that cannot take its value.
    """
    names = set(variable_names(graph_def))
    missing = sorted(name for name in names if name not in values and name not in kept)
    if missing:
        raise NotFoundError(message=f"There is no value for the variables {', '.join(missing)}")
    chosen = [node for node in graph_def.node if node.name in names and node.name in values]
    return replace_variables(
        graph_def, {node.name: constant(node, values[node.name]) for node in chosen}
    )


def _reference(variable: NodeDef) -> NodeDef:
    node = NodeDef()
    node.CopyFrom(variable)
    node.op = _REFERENCE
    return node


_REFERENCE = "VariableV2"
