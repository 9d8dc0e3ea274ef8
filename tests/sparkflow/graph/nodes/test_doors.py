"""Every op that reaches beyond a step, at every place of a graph, through every way in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export import InferenceModel, Output, Signature
from sparkflow.graph.nodes import reach
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.meta_graph_pb2 import MetaGraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef
from sparkflow_runtime.protos.saved_model_pb2 import SavedModel
from sparkflow_runtime.tensor_proto import export_constant

DENIED = tf.errors.PermissionDeniedError


def reaching() -> Iterator[Op]:
    """Yields ops that reach something even with default attributes."""
    for op in sorted(registry.all_ops(), key=lambda each: each.op_type):
        known = {name: attr.default for name, attr in op.signature.attrs.items()}
        if op.reaches is None or (op.reaches and op.reach(known) != frozenset()):
            yield op


OPS = list(reaching())


def test_there_are_such_ops() -> None:
    names = {op.op_type for op in OPS}
    assert names >= {"ReadFile", "WriteFile", "PyFunc", "SaveV2", "RestoreV2", "TextLineDataset"}
    assert len(names) > 40


def node_of(op: Op) -> NodeDef:
    """Returns a node whose files have a name that was not fed."""
    return NodeDef(name="reaches", op=op.op_type, input=["path"] * len(op.signature.inputs))


def path() -> NodeDef:
    made = NodeDef(name="path", op="Const")
    made.attr["dtype"].type = tf.string.as_datatype_enum
    made.attr["value"].tensor.CopyFrom(export_constant(np.array(b"/etc/passwd", object)))
    return made


def at_the_top(node: NodeDef) -> GraphDef:
    return GraphDef(node=[path(), node])


def _function(message: GraphDef, name: str, *nodes: NodeDef) -> None:
    function = message.library.function.add()
    function.signature.name = name
    function.node_def.extend(nodes)


def called_by_name(node: NodeDef) -> GraphDef:
    message = GraphDef(node=[NodeDef(name="call", op="inner")])
    _function(message, "inner", path(), node)
    return message


def _in_attribute(op: str, attribute: str) -> Callable[[NodeDef], GraphDef]:
    def build(node: NodeDef) -> GraphDef:
        message = called_by_name(node)
        message.node[0].op = op
        message.node[0].attr[attribute].func.name = "inner"
        return message

    return build


def in_a_list(node: NodeDef) -> GraphDef:
    message = called_by_name(node)
    message.node[0].op = "Case"
    message.node[0].attr["branches"].list.func.add().name = "inner"
    return message


def two_functions_deep(node: NodeDef) -> GraphDef:
    message = called_by_name(node)
    caller = NodeDef(name="deeper", op="StatefulPartitionedCall")
    caller.attr["f"].func.name = "inner"
    _function(message, "outer", caller)
    message.node[0].op = "PartitionedCall"
    message.node[0].attr["f"].func.name = "outer"
    return message


def by_an_attribute_of_a_function(node: NodeDef) -> GraphDef:
    """A function passed to a function, as `f` of `outer[f=inner]`."""
    message = called_by_name(node)
    message.node[0].op = "PartitionedCall"
    outer = message.node[0].attr["f"].func
    outer.name = "outer"
    outer.attr["f"].func.name = "inner"
    _function(message, "outer", NodeDef(name="nothing", op="NoOp"))
    return message


PLACES = {
    "top": at_the_top,
    "by name": called_by_name,
    "call": _in_attribute("PartitionedCall", "f"),
    "stateful call": _in_attribute("StatefulPartitionedCall", "f"),
    "branch": _in_attribute("If", "then_branch"),
    "other branch": _in_attribute("StatelessIf", "else_branch"),
    "body": _in_attribute("While", "body"),
    "condition": _in_attribute("StatelessWhile", "cond"),
    "map": _in_attribute("MapDataset", "f"),
    "filter": _in_attribute("FilterDataset", "predicate"),
    "gradient": _in_attribute("SymbolicGradient", "f"),
    "case": in_a_list,
    "deep": two_functions_deep,
    "given": by_an_attribute_of_a_function,
}


def by_import(message: GraphDef, _: Path) -> None:
    tf.import_graph_def(message)


def by_meta_graph(message: GraphDef, _: Path) -> None:
    tf.train.import_meta_graph(MetaGraphDef(graph_def=message))


def by_saved_model(message: GraphDef, folder: Path) -> None:
    model = SavedModel(saved_model_schema_version=1)
    graph = model.meta_graphs.add(graph_def=message)
    graph.meta_info_def.tags.append("serve")
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    with tf.Session() as session:
        tf.saved_model.load(session, ["serve"], str(folder))


def _model(message: GraphDef) -> InferenceModel:
    with tf.Graph().as_default() as graph:
        tf.identity(tf.placeholder(tf.float32, [None, 2], name="x"), name="y")
    signature = Signature.of_features("x:0", 2, (Output("y", "y:0", "float32", (2,)),))
    model = InferenceModel.build(graph.as_graph_def(), {}, signature)
    model.graph_def.MergeFrom(message)
    return model


def by_model_files(message: GraphDef, _: Path) -> None:
    InferenceModel.from_files(_model(message).to_files())


def by_model_folder(message: GraphDef, folder: Path) -> None:
    for name, content in _model(message).to_files().items():
        (folder / name).write_bytes(content)
    InferenceModel.load(folder)


DOORS = [by_import, by_meta_graph, by_saved_model, by_model_files, by_model_folder]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("place", list(PLACES))
def test_no_op_gets_in_unnamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: Callable[..., None], place: str
) -> None:
    monkeypatch.setattr(reach, "_ours", set())
    monkeypatch.setattr(reach, "_changers", set())
    passed = []
    for op in OPS:
        with tf.Graph().as_default() as graph:
            said = ""
            try:
                door(PLACES[place](node_of(op)), tmp_path)
            except DENIED as error:
                said = str(error)
            except Exception as error:
                passed.append(f"{op.op_type}: {error!r}"[:200])
            if op.op_type not in said or graph.get_operations():
                passed.append(op.op_type)
    assert passed == []
