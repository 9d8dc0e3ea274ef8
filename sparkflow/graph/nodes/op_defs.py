"""Op types as OpDef messages, and the attributes of nodes that say no more than the defaults."""

from __future__ import annotations

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ir.graph_def import export_attr
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.ops.signature import REQUIRED, Arg
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef
from sparkflow_runtime.protos.op_def_pb2 import OpDef, OpList


def stripped_op_list(graph_def: GraphDef) -> OpList:
    """The op types that the nodes use, in functions too, by name.

    Readers of other versions see by it which attributes have default values.
    """
    types = {node.op for node in graph_def.node}
    for function in graph_def.library.function:
        types.update(node.op for node in function.node_def)
    found = [name for name in sorted(types) if registry.contains(name)]
    return OpList(op=[op_def(registry.lookup(name)) for name in found])


def op_def(op: Op) -> OpDef:
    """One op type as a message."""
    message = OpDef(name=op.op_type, is_stateful=op.stateful)
    message.input_arg.extend(_arg(each) for each in op.signature.inputs)
    message.output_arg.extend(_arg(each) for each in op.signature.outputs)
    for name, attr in op.signature.attrs.items():
        added = message.attr.add(name=name, type=attr.kind)
        if attr.default is not REQUIRED:
            added.default_value.CopyFrom(export_attr(attr.default, attr.kind))
        if attr.minimum is not None:
            added.has_minimum = True
            added.minimum = attr.minimum
        if attr.allowed is not None:
            _allow(added, sorted(attr.allowed, key=str))
    return message


def without_default_attrs(node: NodeDef) -> None:
    """Removes from a node the attributes that have their default values."""
    if not registry.contains(node.op):
        return
    for name, attr in registry.lookup(node.op).signature.attrs.items():
        if attr.default is REQUIRED or name not in node.attr:
            continue
        if node.attr[name] == export_attr(attr.default, attr.kind):
            del node.attr[name]


def _arg(arg: Arg) -> OpDef.ArgDef:
    message = OpDef.ArgDef(name=arg.name, is_ref=arg.is_ref)
    if arg.dtype is not None:
        message.type = arg.dtype.number  # type: ignore[assignment]  # the enum's numbers are ints
    message.type_attr = arg.type_attr or ""
    message.type_list_attr = arg.list_attr or ""
    message.number_attr = arg.number_attr or ""
    return message


def _allow(attr: OpDef.AttrDef, values: list[object]) -> None:
    for value in values:
        if isinstance(value, DType):
            attr.allowed_values.list.type.append(value.number)  # type: ignore[arg-type]  # the enum's numbers are ints
        else:
            attr.allowed_values.list.s.append(str(value).encode())
