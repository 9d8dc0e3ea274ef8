"""`tf.graph_util`: cutting GraphDefs down, and turning variables into constants."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sparkflow import logging
from sparkflow.graph.messages.importing import import_graph_def
from sparkflow_runtime.dtypes import resource
from sparkflow_runtime.ir.graph_def import export_attr
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
    if pin_variables_on_cpu and _gives_reference(proto):
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
    nodes = {node.name: node for node in graph_def.node}
    for name in dest_nodes:
        if name not in nodes:
            raise AssertionError(f"{name} is not in graph")
    waiting, needed = list(dest_nodes), set[str]()
    while waiting:
        name = waiting.pop()
        if name in needed or name not in nodes:
            continue
        needed.add(name)
        waiting += [_node_name(text) for text in nodes[name].input]
    result = GraphDef(library=graph_def.library, versions=graph_def.versions)
    result.node.extend(node for node in graph_def.node if node.name in needed)
    return result


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
    result = GraphDef(library=inference.library, versions=inference.versions)
    handles = {node.name for node in chosen if not _gives_reference(node)}
    handles |= _passing(inference, handles)
    for node in inference.node:
        if node.name in values:
            result.node.append(_constant(node, values[node.name]))
        elif node.op in _OF_VALUES and _node_name(node.input[0]) in handles:
            result.node.extend(_OF_VALUES[node.op](node))
        elif node.name in handles:
            copy = result.node.add()
            copy.CopyFrom(node)
            source = _source(inference, node)
            copy.attr["T"].CopyFrom(source.attr["dtype"])
        else:
            result.node.append(node)
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
    while _node_name(text) in removed:
        text = removed[_node_name(text)]
    return f"^{_node_name(text)}" if control else text


def _require_graph_def(graph_def: Any) -> None:
    if not isinstance(graph_def, GraphDef):
        raise TypeError(f"graph_def must be a graph_pb2.GraphDef proto, but got {type(graph_def)}.")


def _node_name(text: str) -> str:
    return text.removeprefix("^").partition(":")[0]


def _value_name(graph_def: GraphDef, variable: NodeDef) -> str:
    """The tensor to fetch for the value of a variable."""
    if _gives_reference(variable):
        return f"{variable.name}:0"
    for node in graph_def.node:
        if _reads_handle(node) and _source(graph_def, node).name == variable.name:
            return f"{node.name}:0"
    return f"{variable.name}/Read/ReadVariableOp:0"


def _source(graph_def: GraphDef, node: NodeDef) -> NodeDef:
    """The node that a handle, or what is read of it, comes from."""
    nodes = {each.name: each for each in graph_def.node}
    while _hands_on(node) or _reads_handle(node):
        node = nodes[_node_name(node.input[0])]
    return node


def _gives_reference(node: NodeDef) -> bool:
    kind = registry.find(node.op)
    return kind.is_variable and kind.signature.gives_references


def _hands_on(node: NodeDef) -> bool:
    kind = registry.find(node.op)
    return (kind.passes_on or kind.checks) and len(kind.signature.inputs) == 1


def _reads_handle(node: NodeDef) -> bool:
    kind = registry.find(node.op)
    return kind.reads_variable and kind.signature.inputs[0].dtype is resource


def _passing(graph_def: GraphDef, handles: set[str]) -> set[str]:
    """The nodes that pass handles on."""
    found: set[str] = set()
    for node in graph_def.node:
        if _hands_on(node) and _node_name(node.input[0]) in handles | found:
            found.add(node.name)
    return found


def _constant(variable: NodeDef, value: Any) -> NodeDef:
    constant = NodeDef(name=variable.name, op="Const", device=variable.device)
    constant.attr["dtype"].CopyFrom(variable.attr["dtype"])
    constant.attr["value"].CopyFrom(export_attr(_array(value)))
    return constant


def _array(value: Any) -> Any:
    return np.asarray(value, object) if isinstance(value, bytes) else np.asarray(value)


def _identity(read: NodeDef) -> list[NodeDef]:
    node = NodeDef(name=read.name, op="Identity", input=read.input, device=read.device)
    node.attr["T"].CopyFrom(read.attr["dtype"])
    return [node]


def _gather(read: NodeDef) -> list[NodeDef]:
    axis = NodeDef(name=f"{read.name}/axis", op="Const", device=read.device)
    axis.attr["dtype"].type = _INT32  # type: ignore[assignment]  # the enum's numbers are ints
    axis.attr["value"].CopyFrom(export_attr(_array(0).astype("int32")))
    inputs = [read.input[0], read.input[1], axis.name, *read.input[2:]]
    node = NodeDef(name=read.name, op="GatherV2", input=inputs, device=read.device)
    node.attr["Tparams"].CopyFrom(read.attr["dtype"])
    node.attr["Tindices"].CopyFrom(read.attr["Tindices"])
    node.attr["Taxis"].type = _INT32  # type: ignore[assignment]  # the enum's numbers are ints
    return [axis, node]


def _gather_nd(read: NodeDef) -> list[NodeDef]:
    node = NodeDef(name=read.name, op="GatherNd", input=read.input, device=read.device)
    node.attr["Tparams"].CopyFrom(read.attr["dtype"])
    node.attr["Tindices"].CopyFrom(read.attr["Tindices"])
    return [node]


_OF_VALUES: Final[Mapping[str, Callable[[NodeDef], list[NodeDef]]]] = {
    "ReadVariableOp": _identity,
    "ResourceGather": _gather,
    "ResourceGatherNd": _gather_nd,
}
"""What stands for a node that reads a variable by its handle, once a constant is in its place."""
