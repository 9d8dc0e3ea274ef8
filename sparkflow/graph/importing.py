"""Nodes from a GraphDef message into the graph under construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.ir.graph_def import import_graph
from sparkflow_runtime.ir.node import CLASS_ATTR, COLOCATION_PREFIX, Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos import graph_pb2


def import_graph_def(
    graph_def: graph_pb2.GraphDef,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
) -> list[Tensor | Operation] | None:
    """Adds the nodes of a message to the default graph.

    Args:
        graph_def: The nodes.
        input_map: Tensors of the graph to use instead of tensors of the message, by their names in
            the message.
        return_elements: Names in the message of what to return.
        name: Prefix of all names; `import` when None, no prefix when "".

    Returns:
        The tensors and operations asked for; None when `return_elements` is.

    Raises:
        TypeError: `graph_def` is not a GraphDef.
        ValueError: A name is not in the message, or a node does not fit.
        NotFoundError: An op type is not known.
    """
    if not isinstance(graph_def, graph_pb2.GraphDef):
        raise TypeError(f"graph_def must be a GraphDef proto, got {type(graph_def).__name__}")
    graph = get_default_graph()
    source = import_graph(graph_def)
    replaced = {
        _endpoint(key): value._to_tensor() if isinstance(value, Symbolic) else graph.convert(value)
        for key, value in (input_map or {}).items()
    }
    unknown = sorted({str(key) for key in replaced if key.node not in source})
    if unknown:
        raise ValueError(
            "Attempted to map inputs that were not found in graph_def: " + ", ".join(unknown)
        )
    with graph.name_scope("import" if name is None else name) as scope:
        importer = _Importer(graph, scope, replaced)
        for node in source.sorted():
            importer.add(node)
    if return_elements is None:
        return None
    return [importer.element(each) for each in return_elements]


class _Importer:
    """Adds nodes in topological order."""

    def __init__(self, graph: Graph, scope: str, replaced: Mapping[Endpoint, Tensor]) -> None:
        self._graph = graph
        self._scope = scope
        self._replaced = replaced
        self._made: dict[str, Operation] = {}

    def add(self, node: Node) -> None:
        """Adds one node whose inputs are there already."""
        flat = [self._input(endpoint) for endpoint in node.inputs]
        attrs = {key: value for key, value in node.attrs.items() if key != CLASS_ATTR}
        with (
            self._graph.control_dependencies([self._made[name] for name in node.control_inputs]),
            self._graph.device(node.device or ""),
        ):
            op = self._graph.create_op(
                node.op, grouped(node.op, flat, attrs), attrs, f"{self._scope}{node.name}/"
            )
        if node.colocated_with:
            groups = [f"{COLOCATION_PREFIX}{self._scope}{other}" for other in node.colocated_with]
            op._set_attr(CLASS_ATTR, groups)
        self._made[node.name] = op

    def _input(self, endpoint: Endpoint) -> Tensor:
        if endpoint in self._replaced:
            return self._replaced[endpoint]
        node, index = endpoint
        return self._made[node].outputs[index]

    def element(self, name: str) -> Tensor | Operation:
        """What has this name in the message."""
        if ":" in name and _endpoint(name) in self._replaced:
            return self._replaced[_endpoint(name)]
        path, colon, index = name.partition(":")
        op = self._made.get(path)
        if op is None or (colon and int(index) >= len(op.outputs)):
            raise ValueError(f"Requested return_element {name!r} not found in graph_def.")
        return op.outputs[int(index)] if colon else op


def _endpoint(name: str) -> Endpoint:
    path, _, index = name.partition(":")
    return Endpoint(path, int(index or 0))


def grouped(op_type: str, flat: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Any]:
    """The inputs of a node by argument, list arguments as lists."""
    rest = list(flat)
    result: list[Any] = []
    for arg in registry.lookup(op_type).signature.inputs:
        if not arg.is_list:
            result.append(rest.pop(0) if rest else [])
            continue
        count = (
            attrs[arg.number_attr]
            if arg.number_attr is not None
            else len(attrs[str(arg.list_attr)])
        )
        result.append(rest[:count])
        del rest[:count]
    return [*result, *rest]
