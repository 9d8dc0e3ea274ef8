"""A trained model as TensorFlow's SavedModel, in the layout that TensorFlow Serving watches.

`<folder>/<version>/saved_model.pb` has the graph, tagged `serve`, with the signature
`serving_default`; `variables/` has the values as a checkpoint, so that there is no limit on their
size. A version appears when it is complete: a server that watches the folder sees all or nothing.
The messages are made without a session; nothing here needs TensorFlow.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from sparkflow.export.freeze import variable_names
from sparkflow.export.signature import Exported, part_names
from sparkflow.graph.messages.foreign import nodes_unknown_to_tensorflow
from sparkflow_runtime import dtypes
from sparkflow_runtime.checkpoint.bundle_writer import Saved, write_bundle
from sparkflow_runtime.checkpoint.sealed_message import seal_message
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import AlreadyExistsError, UnimplementedError
from sparkflow_runtime.files.errors import translated
from sparkflow_runtime.files.whole import sync_directory, write_whole
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.meta_graph_pb2 import MetaGraphDef, SignatureDef, TensorInfo
from sparkflow_runtime.protos.node_def_pb2 import NodeDef
from sparkflow_runtime.protos.saved_model_pb2 import SavedModel
from sparkflow_runtime.protos.saver_pb2 import SaverDef
from sparkflow_runtime.protos.variable_pb2 import VariableDef
from sparkflow_runtime.shapes import Shape
from sparkflow_runtime.tensor_proto import export_constant, export_shape

_SIGNATURE: Final = "serving_default"
_METHOD: Final = "tensorflow/serving/predict"
_TAG: Final = "serve"
_TENSORFLOW: Final = "1.15.0"
_MAIN_OP: Final = "saved_model_main_op"
_SCOPE: Final = "sparkflow_saved_model"


def write_saved_model(model: Exported, folder: str | Path, version: int | None = None) -> Path:
    """Writes a model as a version below a folder.

    Args:
        model: The model.
        folder: The folder of all versions, which is made if it does not exist.
        version: The version's number; one more than the greatest there is, from 1, when None.

    Returns:
        The folder of the version.

    Raises:
        UnimplementedError: The graph has an op that TensorFlow lacks; the text names op and node.
        AlreadyExistsError: There is such a version.
        ValueError: The version is not positive.
        PermissionDeniedError, ResourceExhaustedError, ...: It cannot be written.
    """
    base = Path(folder)
    meta_graph = saved_model_of(model)
    if version is not None and version < 1:
        raise ValueError(f"version must be at least 1, got {version}")
    with translated(os.fspath(base)):
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".sparkflow-", dir=base) as made:
            # Its own mode is for nobody else, and a server is often somebody else.
            target = Path(made) / "version"
            (target / "variables").mkdir(parents=True)
            values = [
                Saved(name, _dtype(value), value) for name, value in sorted(model.variables.items())
            ]
            if values:
                write_bundle(os.fspath(target / "variables" / "variables"), values)
            message = SavedModel(saved_model_schema_version=1, meta_graphs=[meta_graph])
            content = seal_message(message.SerializeToString(deterministic=True))
            write_whole(target / "saved_model.pb", content)
            sync_directory(os.fspath(target))
            number = version if version is not None else _next_version(base)
            final = base / str(number)
            if final.exists():
                raise AlreadyExistsError(
                    message=f"{final} exists; give another version, or none for the next one"
                )
            target.rename(final)
        sync_directory(os.fspath(base))
    return final


def saved_model_of(model: Exported) -> MetaGraphDef:
    """The graph with what saves and restores its variables, and its signature."""
    graph_def = GraphDef()
    graph_def.CopyFrom(model.to_graph_def(frozen=False))
    _require_tensorflow(graph_def)
    for node in graph_def.node:
        node.device = ""
    result = MetaGraphDef()
    result.meta_info_def.tags.append(_TAG)
    result.meta_info_def.tensorflow_version = _TENSORFLOW
    nodes = _Nodes(graph_def)
    held = {name: model.variables[name] for name in variable_names(graph_def)}
    if held:
        handles = {name: nodes.make_resource(name) for name in held}
        result.saver_def.CopyFrom(_add_saver(nodes, handles, held))
        for message in _add_initializers(nodes, handles, held):
            result.collection_def["variables"].bytes_list.value.append(message)
            result.collection_def["trainable_variables"].bytes_list.value.append(message)
    if model.signature.initializers:
        waits = [f"^{each}" for each in model.signature.initializers]
        main = nodes.add("NoOp", "initializers", waits)
        result.collection_def[_MAIN_OP].node_list.value.append(main)
    result.signature_def[_SIGNATURE].CopyFrom(_signature(model, nodes))
    result.graph_def.CopyFrom(graph_def)
    return result


class _Nodes:
    """Adds nodes to a message, in a scope of their own."""

    def __init__(self, graph_def: GraphDef) -> None:
        self._graph_def = graph_def
        self._taken = {node.name for node in graph_def.node}
        self.by_name = {node.name: node for node in graph_def.node}

    def add(self, op: str, name: str, inputs: Sequence[str] = (), **attrs: Any) -> str:
        """Adds a node; its name."""
        full, number = f"{_SCOPE}/{name}", 0
        while full in self._taken:
            number += 1
            full = f"{_SCOPE}/{name}_{number}"
        self._taken.add(full)
        node = self._graph_def.node.add(name=full, op=op, input=list(inputs))
        self.by_name[full] = node
        for key, value in attrs.items():
            _set(node, key, value)
        return full

    def make_resource(self, name: str) -> str:
        """Makes a variable one behind a handle, which is what TensorFlow 2 has; the handle's name.

        What read the variable by its name reads its value.
        """
        variable = self.by_name[name]
        handle = self._graph_def.node.add(name=f"{_SCOPE}/handles/{name}", op="VarHandleOp")
        for key in ("dtype", "shape"):
            handle.attr[key].CopyFrom(variable.attr[key])
        handle.attr["shared_name"].s = name.encode()
        dtype = variable.attr["dtype"].type
        variable.Clear()
        variable.name = name
        variable.op = "ReadVariableOp"
        variable.input.append(handle.name)
        variable.attr["dtype"].type = dtype
        return handle.name

    def constant(self, name: str, value: np.ndarray[Any, Any]) -> str:
        """Adds a constant; its name."""
        made = self.add("Const", name, dtype=_dtype(value))
        self.by_name[made].attr["value"].tensor.CopyFrom(export_constant(value))
        return made


def _set(node: NodeDef, key: str, value: Any) -> None:
    attr = node.attr[key]
    if isinstance(value, DType):
        number: Any = value.number
        attr.type = number
    elif isinstance(value, list):
        attr.list.type.extend(each.number for each in value)
    elif isinstance(value, bool):
        attr.b = value
    else:
        attr.shape.CopyFrom(export_shape(value))


def _add_saver(
    nodes: _Nodes, handles: Mapping[str, str], held: Mapping[str, np.ndarray[Any, Any]]
) -> SaverDef:
    """What TensorFlow restores the variables with."""
    types = [_dtype(value) for value in held.values()]
    default = nodes.constant("filename", np.array(b"model", object))
    path = nodes.add("PlaceholderWithDefault", "Const", [default], dtype=dtypes.string, shape=())
    names = nodes.constant("names", np.array([each.encode() for each in held], object))
    slices = nodes.constant("slices", np.array([b""] * len(held), object))
    saved = nodes.add("SaveV2", "SaveV2", [path, names, slices, *held], dtypes=types)
    done = nodes.add("Identity", "control_dependency", [path, f"^{saved}"], T=dtypes.string)
    restored = nodes.add("RestoreV2", "RestoreV2", [path, names, slices], dtypes=types)
    assigned = []
    for place, (name, dtype) in enumerate(zip(held, types, strict=True)):
        value = f"{restored}:{place}"
        assigned.append(
            nodes.add("AssignVariableOp", "Assign", [handles[name], value], dtype=dtype)
        )
    restore = nodes.add("NoOp", "restore_all", [f"^{each}" for each in assigned])
    return SaverDef(
        filename_tensor_name=f"{path}:0",
        save_tensor_name=f"{done}:0",
        restore_op_name=restore,
        version=SaverDef.V2,
    )


def _add_initializers(
    nodes: _Nodes, handles: Mapping[str, str], held: Mapping[str, np.ndarray[Any, Any]]
) -> list[bytes]:
    """What loaders want to know of each variable: here, that it begins as zeros."""
    found = []
    for name, value in held.items():
        dtype = _dtype(value)
        shape = nodes.constant("shape", np.array(value.shape, np.int32))
        zero = nodes.constant("zero", np.zeros((), value.dtype))
        zeros = nodes.add("Fill", "zeros", [shape, zero], T=dtype, index_type=dtypes.int32)
        initializer = nodes.add(
            "AssignVariableOp", "initialize", [handles[name], zeros], dtype=dtype
        )
        message = VariableDef(
            variable_name=f"{handles[name]}:0",
            initial_value_name=f"{zeros}:0",
            initializer_name=initializer,
            snapshot_name=f"{name}:0",
            is_resource=True,
            trainable=True,
        )
        found.append(message.SerializeToString())
    return found


def _signature(model: Exported, nodes: _Nodes) -> SignatureDef:
    signature = SignatureDef(method_name=_METHOD)
    for each in model.signature.inputs:
        dtype = dtypes.as_dtype(each.dtype)
        if len(each.tensors) == 1:
            infos = [(dtype, (None, *each.shape))]
        else:
            infos = [(dtypes.int64, (None, 2)), (dtype, (None,)), (dtypes.int64, (2,))]
        for name, tensor, (kind, shape) in zip(part_names(each), each.tensors, infos, strict=True):
            signature.inputs[name].CopyFrom(_info(tensor, kind, shape))
    for output in model.signature.outputs:
        found = _info(output.tensor, dtypes.as_dtype(output.dtype), (None, *output.shape))
        signature.outputs[output.name].CopyFrom(found)
    return signature


def _info(tensor: str, dtype: DType, shape: Shape) -> TensorInfo:
    number: Any = dtype.number
    return TensorInfo(name=tensor, dtype=number, tensor_shape=export_shape(shape))


def _dtype(value: np.ndarray[Any, Any]) -> DType:
    return dtypes.string if value.dtype == object else dtypes.as_dtype(value.dtype)


def _next_version(base: Path) -> int:
    numbers = [int(each.name) for each in base.iterdir() if each.name.isdecimal()]
    return max(numbers, default=0) + 1


def _require_tensorflow(graph_def: GraphDef) -> None:
    """Passes where every op is one that TensorFlow has."""
    for node in nodes_unknown_to_tensorflow(graph_def):
        raise UnimplementedError(
            message=f"The node {node.name!r} (op {node.op}) cannot be in a SavedModel for "
            "TensorFlow: it is an op of sparkflow's or of your own, or calls Python. Make "
            "predictions of tensors that do not depend on it"
        )
