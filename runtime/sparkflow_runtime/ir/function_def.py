"""Conversion between FunctionDef and functions.

TensorFlow writes the inputs of a body's nodes as `argument`, or `node:output:index` with the output
argument's name, where our nodes have `node:slot`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.graph_def import MAX_NAME_BYTES, export_graph, export_node, import_node
from sparkflow_runtime.ir.node import ARG, RETVAL, Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos.function_pb2 import FunctionDef
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef
from sparkflow_runtime.protos.op_def_pb2 import OpDef

TAPED_ATTR = "_taped"
STATIC_SHAPE_ATTR = "_output_shapes"


def export_program(nodes: Iterable[Node], functions: Mapping[str, Function]) -> GraphDef:
    """Converts nodes and the functions that they call to a GraphDef."""
    graph_def = export_graph(nodes)
    graph_def.library.function.extend(map(export_function, functions.values()))
    return graph_def


def export_function(function: Function) -> FunctionDef:
    """Converts a function to a message."""
    proto = FunctionDef()
    proto.signature.name = function.name
    texts: dict[Endpoint, str] = {}
    for node in function.args:
        _argument(proto.signature.input_arg.add(), node)
        texts[Endpoint(node.name, 0)] = node.name
        shape = export_node(node).attr["shape"]
        listed = proto.arg_attr[node.attrs["index"]].attr[STATIC_SHAPE_ATTR].list
        listed.shape.add().CopyFrom(shape.shape)
    for node in function.body:
        if node.op not in (ARG, RETVAL):
            for slot, (output, index) in enumerate(_output_names(node)):
                texts[Endpoint(node.name, slot)] = f"{node.name}:{output}:{index}"
    for node in function.body:
        if node.op in (ARG, RETVAL):
            continue
        written = export_node(Node(node.name, node.op, (), (), node.device, node.attrs))
        written.input.extend(texts[endpoint] for endpoint in node.inputs)
        written.input.extend(f"^{name}" for name in node.control_inputs)
        proto.node_def.append(written)
    for node in function.results:
        _argument(proto.signature.output_arg.add(), node)
        proto.ret[node.name] = texts[node.inputs[0]]
    for name in function.targets:
        proto.signature.control_output.append(name)
        proto.control_ret[name] = name
    proto.signature.is_stateful = bool(function.targets)
    if function.taped is not None:
        proto.attr[TAPED_ATTR].list.s.extend(text.encode() for text in function.taped)
        proto.attr[TAPED_ATTR].list.SetInParent()
    return proto


def _argument(proto: OpDef.ArgDef, node: Node) -> None:
    dtype = node.attrs["T"]
    proto.name = node.name
    proto.type = dtype.base.number
    proto.is_ref = dtype.is_ref


def _output_names(node: Node) -> list[tuple[str, int]]:
    """Returns, per output of a node, its argument's name and its position in it."""
    signature = registry.lookup(node.op).signature
    return signature.output_names(node.attrs)


def import_function(proto: FunctionDef) -> Function:
    """Converts a message to a function.

    Raises:
        InvalidArgumentError: A repeated name, a missing input, an unreadable attribute.
        NotFoundError: An op type that is not registered.
    """
    name = proto.signature.name
    if not name or len(name) > MAX_NAME_BYTES:
        raise InvalidArgumentError(message=f"A function cannot be named {name[:80]!r}")
    body = Graph()

    def add(node: Node) -> None:
        if node.name in body:
            raise InvalidArgumentError(message=f"Function {name!r} has two nodes {node.name!r}")
        body.nodes[node.name] = node

    endpoints: dict[str, Endpoint] = {}
    for index, arg in enumerate(proto.signature.input_arg):
        endpoints[arg.name] = Endpoint(arg.name, 0)
        add(import_node(_arg_node(proto, arg, index)))
    nodes: list[tuple[NodeDef, Node]] = []
    for written in proto.node_def:
        bare = NodeDef()
        bare.CopyFrom(written)
        del bare.input[:]
        node = import_node(bare)
        if not registry.contains(node.op):
            registry.lookup(node.op)  # reports what is missing
        nodes.append((written, node))
        for slot, (output, place) in enumerate(_output_names(node)):
            endpoints[f"{node.name}:{output}:{place}"] = Endpoint(node.name, slot)
    for written, node in nodes:
        inputs = [
            _endpoint(name, endpoints, text) for text in written.input if not text.startswith("^")
        ]
        control = [text[1:] for text in written.input if text.startswith("^")]
        add(Node(node.name, node.op, tuple(inputs), tuple(control), node.device, node.attrs))
    for index, arg in enumerate(proto.signature.output_arg):
        result = NodeDef(name=_free(body, arg.name), op=RETVAL)
        result.attr["T"].type = arg.type + 100 if arg.is_ref else arg.type  # type: ignore[assignment]  # the enum's numbers are ints
        result.attr["index"].i = index
        node = import_node(result)
        source = _endpoint(name, endpoints, proto.ret[arg.name])
        add(Node(node.name, node.op, (source,), (), "", node.attrs))
    taped = None
    if TAPED_ATTR in proto.attr:
        taped = tuple(text.decode() for text in proto.attr[TAPED_ATTR].list.s)
    return Function(name, body, tuple(dict.fromkeys(proto.control_ret.values())), taped)


def _arg_node(proto: FunctionDef, arg: OpDef.ArgDef, index: int) -> NodeDef:
    written = NodeDef(name=arg.name, op=ARG)
    if arg.type_attr or arg.type_list_attr or arg.number_attr:
        raise InvalidArgumentError(
            message=f"Argument {arg.name!r} of function {proto.signature.name!r} has no fixed type"
        )
    written.attr["T"].type = arg.type + 100 if arg.is_ref else arg.type  # type: ignore[assignment]  # the enum's numbers are ints
    written.attr["index"].i = index
    if index in proto.arg_attr and STATIC_SHAPE_ATTR in proto.arg_attr[index].attr:
        shapes = proto.arg_attr[index].attr[STATIC_SHAPE_ATTR].list.shape
        if shapes:
            written.attr["shape"].shape.CopyFrom(shapes[0])
    return written


def _endpoint(function: str, endpoints: Mapping[str, Endpoint], text: str) -> Endpoint:
    found = endpoints.get(text)
    if found is None and text.count(":") == 1:
        found = endpoints.get(f"{text}:0")  # `node:output` means its first tensor
    if found is None:
        raise InvalidArgumentError(message=f"Function {function!r} reads {text!r}, which it lacks")
    return found


def _free(body: Graph, name: str) -> str:
    while name in body:
        name += "_result"
    return name
