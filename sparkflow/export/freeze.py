"""Cutting a graph down to what its outputs need, and turning its variables into constants."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

import numpy as np

from sparkflow_runtime.errors import NotFoundError
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef
from sparkflow_runtime.tensor_proto import export_constant

_VARIABLE = "VariableV2"


def prune_graph(graph_def: GraphDef, outputs: Iterable[str]) -> GraphDef:
    """The nodes that `outputs` (tensor names, `node:0`) depend on, in their order.

    Raises:
        NotFoundError: A node is missing.
    """
    nodes = {node.name: node for node in graph_def.node}
    waiting = [_node_name(name) for name in outputs]
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in needed:
            continue
        if name not in nodes:
            raise NotFoundError(message=f"The graph has no node {name!r}")
        needed.add(name)
        waiting += [_node_name(source) for source in nodes[name].input]
    pruned = GraphDef(versions=graph_def.versions, library=graph_def.library)
    pruned.node.extend(node for node in graph_def.node if node.name in needed)
    return pruned


def variable_names(graph_def: GraphDef) -> list[str]:
    """The names of the graph's variables."""
    return [node.name for node in graph_def.node if node.op == _VARIABLE]


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
    """
    missing = sorted(
        name for name in variable_names(graph_def) if name not in values and name not in kept
    )
    if missing:
        raise NotFoundError(message=f"There is no value for the variables {', '.join(missing)}")
    frozen = GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        is_constant = node.op == _VARIABLE and node.name in values
        frozen.node.append(_constant(node, values[node.name]) if is_constant else node)
    return frozen


def _constant(variable: NodeDef, value: np.ndarray[Any, Any]) -> NodeDef:
    constant = NodeDef(name=variable.name, op="Const", device=variable.device)
    constant.attr["dtype"].CopyFrom(variable.attr["dtype"])
    constant.attr["value"].tensor.CopyFrom(export_constant(value))
    return constant


def _node_name(reference: str) -> str:
    return reference.removeprefix("^").partition(":")[0]
