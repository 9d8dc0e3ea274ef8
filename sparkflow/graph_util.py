"""`tf.graph_util`: cutting GraphDefs down, and turning variables into constants."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from sparkflow import logging
from sparkflow.graph.messages.importing import import_graph_def
from sparkflow.graph.messages.pruning import nodes_needed
from sparkflow.graph.messages.variable_values import (
    constant,
    gives_reference,
    hands_on,
    node_name,
    reads_handle,
    replace_variables,
)
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef

__all__ = [
    "convert_variables_to_constants",
    "extract_sub_graph",
    "import_graph_def",
    "must_run_on_cpu",
    "remove_training_nodes",
    "tensor_shape_from_node_def_name",
]

_STRING = 7
_INT32 = 3


def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """Whether a node (an operation or NodeDef) has no place on a GPU.

    Args:
        node: The node.
        pin_variables_on_cpu: Count variables among them.
    """
    proto: NodeDef = node if isinstance(node, NodeDef) else node.node_def
    if pin_variables_on_cpu and gives_reference(proto):
        return True
    if proto.op == "Const":
        return proto.attr["dtype"].type == _STRING or proto.attr["value"].tensor.dtype == _STRING
    if proto.op in ("DynamicStitch", "ParameterizedTruncatedNormal"):
        return proto.attr["T"].type == _INT32
    if not registry.contains(proto.op):
        return False
    return "GPU" not in registry.lookup(proto.op).kernels


def tensor_shape_from_node_def_name(graph: Any, input_name: str) -> Any:
    """The static shape of the tensor that an input of a node names, e.g. `a` or `a:1`."""
    name = input_name if ":" in input_name else f"{input_name}:0"
    return graph.get_tensor_by_name(name.removeprefix("^")).get_shape()


def extract_sub_graph(graph_def: GraphDef, dest_nodes: Sequence[str]) -> GraphDef:
    """The nodes that some nodes need, in their order.

    Args:
        graph_def: The graph.
        dest_nodes: The names of the nodes wanted.

    Raises:
        TypeError: `graph_def` is not a GraphDef, or `dest_nodes` is a text.
        AssertionError: A name is not in the graph.
    """
    _require_graph_def(graph_def)
    if isinstance(dest_nodes, str):
        raise TypeError(f"Argument `dest_nodes` must be an iterable of strings, got {dest_nodes!r}")
    present = {node.name for node in graph_def.node}
    for name in dest_nodes:
        if name not in present:
            raise AssertionError(f"{name} is not in graph")
    return nodes_needed(graph_def, dest_nodes)


def convert_variables_to_constants(
    sess: Any,
    input_graph_def: GraphDef,
    output_node_names: Sequence[str],
    variable_names_whitelist: Container[str] | None = None,
    variable_names_blacklist: Container[str] | None = None,
) -> GraphDef:
    """The part of a graph that some nodes need, its variables replaced by their values.

    Args:
        sess: The session that holds the variables.
        input_graph_def: The graph.
        output_node_names: The names of the nodes wanted.
        variable_names_whitelist: Replace these variables only.
        variable_names_blacklist: Leave these variables.

    Raises:
        AssertionError: A name is not in the graph.
        FailedPreconditionError: A variable has no value.
        ValueError: Something takes a variable by its handle that cannot take its value.
    """
    inference = extract_sub_graph(input_graph_def, output_node_names)
    chosen = [
        node
        for node in inference.node
        if registry.find(node.op).is_variable
        and (variable_names_whitelist is None or node.name in variable_names_whitelist)
        and (variable_names_blacklist is None or node.name not in variable_names_blacklist)
    ]
    fetches = [_value_name(inference, node) for node in chosen]
    values = dict(zip([node.name for node in chosen], sess.run(fetches), strict=True))
    result = replace_variables(
        inference, {node.name: constant(node, values[node.name]) for node in chosen}
    )
    logging.info("Converted %d variables to const ops.", len(values))
    return result


def remove_training_nodes(
    input_graph: GraphDef, protected_nodes: Sequence[str] | None = None
) -> GraphDef:
    """The graph without checks of numbers and without nodes that pass a value on unchanged.

    Args:
        input_graph: The graph.
        protected_nodes: Names of nodes that stay.
    """
    protected = set(protected_nodes or ())
    kept = [
        node
        for node in input_graph.node
        if not registry.find(node.op).checks or node.name in protected
    ]
    removed = {
        node.name: node.input[0]
        for node in input_graph.node
        if registry.find(node.op).checks and node.name not in protected
    }
    readers_of_control = {text[1:] for node in kept for text in node.input if text.startswith("^")}
    for node in kept:
        plain = not any(text.startswith("^") for text in node.input)
        if (
            node.op == "Identity"
            and node.name not in protected
            and node.name not in readers_of_control
            and plain
        ):
            removed[node.name] = node.input[0]
    result = GraphDef(library=input_graph.library, versions=input_graph.versions)
    for node in kept:
        if node.name in removed:
            continue
        copy = result.node.add()
        copy.CopyFrom(node)
        copy.input[:] = [_behind(text, removed) for text in node.input]
    return result


def _behind(text: str, removed: dict[str, str]) -> str:
    """What an input reads once the nodes that pass values on are gone."""
    control = text.startswith("^")
    while node_name(text) in removed:
        text = removed[node_name(text)]
    return f"^{node_name(text)}" if control else text


def _require_graph_def(graph_def: Any) -> None:
    if not isinstance(graph_def, GraphDef):
        raise TypeError(f"graph_def must be a graph_pb2.GraphDef proto, but got {type(graph_def)}.")


def _value_name(graph_def: GraphDef, variable: NodeDef) -> str:
    """The tensor to fetch for the value of a variable."""
    if gives_reference(variable):
        return f"{variable.name}:0"
    for node in graph_def.node:
        if reads_handle(node) and _source(graph_def, node).name == variable.name:
            return f"{node.name}:0"
    return f"{variable.name}/Read/ReadVariableOp:0"


def _source(graph_def: GraphDef, node: NodeDef) -> NodeDef:
    """The node that a handle, or what is read of it, comes from."""
    nodes = {each.name: each for each in graph_def.node}
    while hands_on(node) or reads_handle(node):
        node = nodes[node_name(node.input[0])]
    return node
