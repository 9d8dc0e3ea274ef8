"""Walks the inference graph and writes ONNX's format."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkflow.export.onnx.table import OPSET, TABLE, Node, Target, unknown
from sparkflow.export.onnx.texts import graph_of_model, text_inputs
from sparkflow.export.signature import Exported, part_names
from sparkflow.graph.constant_value import constant_value
from sparkflow.version import SPARKFLOW_VERSION
from sparkflow_runtime.dtypes import string
from sparkflow_runtime.errors import UnimplementedError, missing_package
from sparkflow_runtime.files.whole import sync_file

_IR_VERSION: Final = 10
_BATCH: Final = "batch"
TEXTS: Final = "sparkflow.texts"
"""The key of the metadata that describe the inputs that are made of texts."""
# A protobuf message holds less than 2 GB.
_LARGEST_MESSAGE_BYTES: Final = 1 << 30


def write_onnx(model: Exported, path: str | Path) -> None:
    """Writes a model as a file in ONNX's format.

    Its inputs and outputs have the names of the signature; of a sparse input they are
    `name/indices`, `name/values`, `name/dense_shape`. ONNX has one namespace for both: an output
    that is called as an input is `name/output`. The first dimension is called `batch`.
    Weights of more than 1 GB in all go to a file beside it.

    Raises:
        ImportError: The package `onnx` is missing.
        UnimplementedError: A node cannot be converted.
    """
    onnx = _onnx()
    made = to_onnx(model)
    size = sum(value.nbytes for value in model.variables.values())
    target = Path(path)
    # Both files are complete before the first of them takes the place of an older one.
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        onnx.save_model(
            made,
            f"{folder}/{target.name}",
            save_as_external_data=size > _LARGEST_MESSAGE_BYTES,
            location=f"{target.name}.data",
        )
        for each in sorted(Path(folder).iterdir(), reverse=True):  # the model itself last
            sync_file(each)
            each.replace(target.parent / each.name)


def to_onnx(model: Exported) -> Any:
    """A model as ONNX's ModelProto, checked by `onnx.checker`; raises as `write_onnx`."""
    onnx = _onnx()
    _fill_table()
    helper = onnx.helper
    graph = graph_of_model(model)
    target = _Target(onnx)
    names: dict[str, str] = {}
    inputs = []
    for each in model.signature.inputs:
        for tensor_name, part in zip(each.tensors, part_names(each), strict=True):
            tensor = graph.get_tensor_by_name(tensor_name)
            if tensor.dtype.base_dtype is string:  # what is made of texts comes instead
                continue
            name = target.unique(part)
            names[tensor_name] = name
            inputs.append(_value_info(onnx, target, name, tensor))
    made_of_texts = text_inputs(graph, model.signature)
    for text in made_of_texts:
        name = target.unique(text.name)
        names.update(dict.fromkeys(text.tensors, name))
        tensor = graph.get_tensor_by_name(text.tensors[0])
        inputs.append(_value_info(onnx, target, name, tensor))
    output_names = _name_outputs(model, target)
    needed = _needed(graph, model.signature.fetches, set(names))
    for op in needed:
        _convert(op, names, target)
    outputs = []
    for output, name in zip(model.signature.outputs, output_names, strict=True):
        tensor = graph.get_tensor_by_name(output.tensor)
        target.nodes.append(helper.make_node("Identity", [names[output.tensor]], [name]))
        shape = [_BATCH, *output.shape]
        outputs.append(
            helper.make_tensor_value_info(name, target.type_number(_dtype(tensor)), shape)
        )
    made = helper.make_model(
        helper.make_graph(target.nodes, "model", inputs, outputs, target.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="sparkflow",
        producer_version=SPARKFLOW_VERSION,
    )
    if made_of_texts:
        described = json.dumps([asdict(each) for each in made_of_texts], ensure_ascii=False)
        made.metadata_props.add(key=TEXTS, value=described)
    if made.ByteSize() < _LARGEST_MESSAGE_BYTES:
        check(onnx, made)
    return made


def check(onnx: Any, made: Any) -> None:
    """Raises an UnimplementedError if a model is not valid."""
    try:
        onnx.checker.check_model(made, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise UnimplementedError(
            message=f"The model cannot be converted to ONNX. What its checker says names the node: "
            f"{error}"
        ) from error


def _name_outputs(model: Exported, target: _Target) -> list[str]:
    """What the outputs are called: as in the signature, unless an input has that name."""
    names = [output.name for output in model.signature.outputs]
    shared = {name for name in names if target.has(name)}
    own = {name: target.unique(name) for name in names if name not in shared}
    # After all others, so that none of them is called so.
    return [own.get(name) or target.unique(f"{name}/output") for name in names]


def _convert(op: Any, names: dict[str, str], target: _Target) -> None:
    if op.type == "Const":
        names[op.outputs[0].name] = target.add_constant(op.attr("value"), op.name)
        return
    if op.type not in TABLE:
        raise unknown(op)
    given = [names[tensor.name] for tensor in op.inputs]
    made = TABLE[op.type](Node(op, given, target))
    for tensor, name in zip(op.outputs, made, strict=False):
        names[tensor.name] = name


def _needed(graph: Any, fetches: list[str], fed: set[str]) -> list[Any]:
    """The operations that the fetches need, each after its inputs; loops were refused before."""
    order: list[Any] = []
    done: set[str] = set()
    waiting = [(graph.get_tensor_by_name(name).op, False) for name in reversed(fetches)]
    while waiting:
        op, entered = waiting.pop()
        if op.name in done or (op.outputs and all(each.name in fed for each in op.outputs)):
            continue
        if entered:
            done.add(op.name)
            order.append(op)
            continue
        if op.type != "Const" and op.type not in TABLE:
            raise unknown(op)
        waiting.append((op, True))
        waiting += [(tensor.op, False) for tensor in op.inputs if tensor.name not in fed]
    return order


class _Target(Target):
    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._names: set[str] = set()
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._by_number: dict[int, np.dtype[Any]] = {}
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def has(self, name: str) -> bool:
        """Whether something has this name."""
        return name in self._names

    def unique(self, name: str) -> str:
        """A name that nothing has yet, taken."""
        found, number = name, 0
        while found in self._names:
            number += 1
            found = f"{name}_{number}"
        self._names.add(found)
        return found

    def add(
        self, op_type: str, inputs: list[str], count: int, name: str, attributes: dict[str, Any]
    ) -> list[str]:
        """See `Target`."""
        outputs = [self.unique(f"{name}:{op_type}") for _ in range(count)]
        takes, gives = self.types(op_type, len(inputs), count)
        known = {
            each: self._dtypes[given] for each, given in zip(takes, inputs, strict=True) if given
        }
        if op_type == "Cast":
            known[gives[0]] = self._by_number[attributes["to"]]
        for output, each in zip(outputs, gives, strict=True):
            self._dtypes[output] = known[each] if each in known else self._only(op_type, each)
        self.nodes.append(
            self._onnx.helper.make_node(
                op_type, inputs, outputs, self.unique(f"{name}/{op_type}"), **attributes
            )
        )
        return outputs

    def types(self, op_type: str, inputs: int, outputs: int) -> tuple[list[str], list[str]]:
        """See `Target`."""
        schema = self._schema(op_type)
        takes, gives = (
            [parts[min(index, len(parts) - 1)].type_str for index in range(count)]
            for parts, count in ((schema.inputs, inputs), (schema.outputs, outputs))
        )
        return takes, gives

    def _only(self, op_type: str, name: str) -> np.dtype[Any]:
        """The dtype that an output always has."""
        allowed = {
            each.type_param_str: each.allowed_type_strs
            for each in self._schema(op_type).type_constraints
        }
        (only,) = allowed.get(name, [name])
        found: np.dtype[Any] = np.dtype(only.removeprefix("tensor(").removesuffix(")"))
        return found

    def _schema(self, op_type: str) -> Any:
        return self._onnx.defs.get_schema(op_type, OPSET, "")

    def declare(self, name: str, dtype: np.dtype[Any]) -> None:
        """Says of which dtype an input is."""
        self._dtypes[name] = dtype

    def dtype(self, name: str) -> np.dtype[Any]:
        """See `Target`."""
        return self._dtypes[name]

    def add_constant(self, value: npt.NDArray[Any], name: str) -> str:
        """See `Target`."""
        found = self.unique(f"{name}:value")
        self._dtypes[found] = np.asarray(value).dtype
        self.constants.append(self._onnx.numpy_helper.from_array(np.asarray(value), found))
        return found

    def type_number(self, dtype: np.dtype[Any]) -> int:
        """See `Target`."""
        if dtype.kind == "O":
            return int(self._onnx.TensorProto.STRING)
        found = int(self._onnx.helper.np_dtype_to_tensor_dtype(dtype))
        self._by_number[found] = dtype
        return found

    def constant_value(self, tensor: Any) -> npt.NDArray[Any] | None:
        """See `Target`."""
        return constant_value(tensor)


def _value_info(onnx: Any, target: _Target, name: str, tensor: Any) -> Any:
    target.declare(name, _dtype(tensor))
    number = target.type_number(_dtype(tensor))
    shape: list[str | int | None] | None = None
    if tensor.shape.ndims is not None:
        shape = list(tensor.shape.as_list())
        if shape and shape[0] is None and "/" not in name:
            shape[0] = _BATCH
    return onnx.helper.make_tensor_value_info(name, number, shape)


def _dtype(tensor: Any) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(tensor.dtype.base_dtype.as_numpy_dtype)
    return found


def _fill_table() -> None:
    from sparkflow.export.onnx import (  # noqa: F401  they enter themselves
        arrays,
        images,
        math,
        network,
        sparse,
    )


def _onnx() -> Any:
    try:
        import onnx
        import onnx.numpy_helper  # not loaded by the package itself in all versions
    except ImportError as error:
        raise missing_package("The ONNX format", "onnx", "onnx") from error
    return onnx
