"""Conversion between GraphDef and the typed graph.

Attributes are converted by their own form (oneof), so that nodes of unregistered types survive the
round trip; `import_graph` completes the attributes of registered ones from their signatures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError, OpError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node, parse_endpoint
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos.attr_value_pb2 import AttrValue
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef
from sparkflow_runtime.tensor_proto import (
    export_constant,
    export_shape,
    import_shape,
    import_tensor,
)

PRODUCER_VERSION = 1882
"""The GraphDef version written and read; TensorFlow 1 and 2 can read it."""
MAX_NAME_BYTES = 4096


def export_graph(nodes: Iterable[Node]) -> GraphDef:
    """Converts nodes to a GraphDef, in the given order."""
    graph_def = GraphDef()
    graph_def.versions.producer = PRODUCER_VERSION
    for node in nodes:
        _fill(graph_def.node.add(), node)
    return graph_def


def export_node(node: Node) -> NodeDef:
    """Converts one node to a NodeDef."""
    proto = NodeDef()
    _fill(proto, node)
    return proto


def export_attr(value: Any, kind: str | None = None) -> AttrValue:
    """Converts an attribute's canonical value to a message; `kind` as in `signature.Attr`."""
    proto = AttrValue()
    _fill_attr(proto, value, kind)
    return proto


def _fill(proto: NodeDef, node: Node) -> None:
    proto.name = node.name
    proto.op = node.op
    if node.device:
        proto.device = node.device
    if node.inputs:
        proto.input.extend(
            [name if not index else f"{name}:{index}" for name, index in node.inputs]
        )
    if node.control_inputs:
        proto.input.extend([f"^{name}" for name in node.control_inputs])
    if not node.attrs:
        return
    specs = registry.lookup(node.op).attrs if registry.contains(node.op) else {}
    for name, value in node.attrs.items():
        spec = specs.get(name)
        _fill_attr(proto.attr[name], value, spec.kind if spec is not None else None)


def _fill_attr(proto: AttrValue, value: Any, kind: str | None) -> None:
    if isinstance(value, DType):
        proto.type = value.number  # type: ignore[assignment]  # the enum's numbers are ints
    elif isinstance(value, bool | np.bool_):
        proto.b = bool(value)
    elif isinstance(value, int) and kind != "float":
        proto.i = value
    elif isinstance(value, float | int):
        proto.f = value
    elif isinstance(value, str):
        if kind == "func":
            proto.func.name = value
        else:
            proto.s = value.encode("utf-8", "surrogateescape")
    elif isinstance(value, bytes):
        proto.s = value
    elif isinstance(value, tuple) or value is None:
        proto.shape.CopyFrom(export_shape(value))
    elif isinstance(value, list):
        _fill_list(proto, value, kind)
    elif isinstance(value, np.ndarray | np.generic):
        proto.tensor.CopyFrom(export_constant(value))
    else:
        raise InvalidArgumentError(
            message=f"An attribute value of type {type(value).__name__} has no protobuf form"
        )


def _fill_list(proto: AttrValue, values: list[Any], kind: str | None) -> None:
    proto.list.SetInParent()
    item_kind = kind[5:-1] if kind and kind.startswith("list(") else None
    for value in values:
        item = AttrValue()
        _fill_attr(item, value, item_kind)
        which = item.WhichOneof("value")
        assert which is not None
        field = getattr(proto.list, which)
        if which in ("shape", "tensor", "func"):
            field.add().CopyFrom(getattr(item, which))
        else:
            field.append(getattr(item, which))


def import_graph(graph_def: GraphDef) -> Graph:
    """Converts a GraphDef to a typed graph.

    Raises:
        InvalidArgumentError: A repeated name, an unreadable input or attribute.
    """
    graph = Graph()
    for proto in graph_def.node:
        node = import_node(proto)
        if node.name in graph.nodes:
            raise InvalidArgumentError(message=f"Node {node.name!r} is not unique")
        graph.nodes[node.name] = node
    return graph


def import_node(proto: NodeDef) -> Node:
    """Converts one NodeDef to a node, with default attributes filled in.

    Raises:
        InvalidArgumentError: An unreadable name, input, device or attribute; the message names the
            node.
    """
    if not proto.name or len(proto.name) > MAX_NAME_BYTES:
        raise InvalidArgumentError(
            message=f"A node name must have 1 to {MAX_NAME_BYTES} characters, "
            f"got {proto.name[:80]!r}"
        )
    if len(proto.device) > MAX_NAME_BYTES:
        raise InvalidArgumentError(
            message=f"Node {proto.name!r} has a device name of {len(proto.device)} characters, "
            f"at most {MAX_NAME_BYTES} are allowed"
        )
    try:
        inputs: list[Endpoint] = []
        control: list[str] = []
        for text in proto.input:
            if text.startswith("^"):
                control.append(text[1:])
            else:
                inputs.append(parse_endpoint(text))
        attrs = {name: import_attr(value) for name, value in proto.attr.items()}
        if registry.contains(proto.op):
            attrs = registry.lookup(proto.op).signature.read_attrs(attrs)
    except OpError as error:
        raise error.at(f"[[node {proto.name!r} ({proto.op})]]") from None
    return Node(proto.name, proto.op, tuple(inputs), tuple(control), proto.device, attrs)


def called_functions(proto: NodeDef) -> Iterator[str]:
    """Returns the names of the functions in a node's attributes, and in their attributes."""
    todo = list(proto.attr.values())
    while todo:
        value = todo.pop()
        given = [value.func] if value.HasField("func") else list(value.list.func)
        for each in given:
            yield each.name
            todo += each.attr.values()


def import_attr(proto: AttrValue) -> Any:
    """Converts a message to the canonical value of an attribute.

    Raises:
        InvalidArgumentError: It has no value.
    """
    which = proto.WhichOneof("value")
    if which == "list":
        return _import_list(proto.list)
    if which is None:
        raise InvalidArgumentError(message="An attribute without a value")
    return _IMPORT[which](getattr(proto, which))


def _import_list(proto: AttrValue.ListValue) -> list[Any]:
    for descriptor, items in proto.ListFields():
        convert = _IMPORT[descriptor.name]
        return [convert(item) for item in items]
    return []


def _import_dtype(number: int) -> DType:
    try:
        return dtypes.as_dtype(int(number))
    except TypeError as error:
        raise InvalidArgumentError(message=f"Unknown dtype number {number}") from error


_IMPORT: Mapping[str, Any] = {
    "s": lambda value: value.decode("utf-8", "surrogateescape"),
    "i": int,
    "f": float,
    "b": bool,
    "type": _import_dtype,
    "shape": import_shape,
    "tensor": import_tensor,
    "func": lambda value: value.name,
    "placeholder": str,
}
