"""Adds a node from whatever the caller passes for its inputs, as an op's function does.

Python values become constants named after the argument (`add/y`), with the dtype that the op's
other inputs imply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any

from sparkflow.graph.composite import Composite
from sparkflow.graph.conversion import convert, first_symbolic
from sparkflow.graph.nodes.source import user_line
from sparkflow.graph.operators import Held, Symbolic
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import DType, as_dtype, resource
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.ops.signature import Arg
from sparkflow_runtime.shapes import Shape

if TYPE_CHECKING:
    from sparkflow.graph.graph import Graph
    from sparkflow.graph.operation import Operation


def apply(
    graph: Graph, op_type: str, values: Sequence[Any], attrs: Mapping[str, Any], name: str | None
) -> Any:
    """Adds one node, see `Graph.apply`."""
    op = registry.lookup(op_type)
    args = op.signature.inputs
    if _has_ref(op_type):
        for arg, value in zip(args, values, strict=False):
            if arg.is_ref and isinstance(value, Held):  # others are only read
                return value.updated(graph, op_type, values, attrs, name)
    if not _has_list(op_type):
        for value in values:
            if type(value) is not Tensor:
                break
        else:
            _check_types(op, values)
            return _result(op, _beside_variables(graph, op, values, attrs, name))
    for value in values:
        if type(value) is not Tensor:
            for part in value if isinstance(value, list | tuple) else (value,):
                if isinstance(part, Composite):
                    return part._elementwise(op_type, values, attrs, name)
    inputs = _Inputs(graph, op, attrs, name)
    converted = [inputs.argument(arg, value) for arg, value in zip(args, values, strict=False)]
    converted.extend(values[len(args) :])  # add_node reports the number
    return _result(op, _beside_variables(graph, op, converted, attrs, inputs.node_name))


def _beside_variables(
    graph: Graph, op: Op, inputs: Sequence[Any], attrs: Mapping[str, Any], name: str | None
) -> Operation:
    """Adds the node; one that uses variables or other resources goes where they are."""
    if not _has_ref(op.op_type) and not (_has_handle(op.op_type) and graph.is_placing):
        return graph.add_node(op.op_type, inputs, attrs, name)
    with ExitStack() as stack:
        for arg, tensor in zip(op.signature.inputs, inputs, strict=False):
            if arg.is_ref or (arg.dtype is resource and not arg.is_list):
                stack.enter_context(graph.colocate_with(tensor))
        return graph.add_node(op.op_type, inputs, attrs, name)


@cache
def _has_list(op_type: str) -> bool:
    return any(arg.is_list for arg in registry.lookup(op_type).signature.inputs)


@cache
def _has_ref(op_type: str) -> bool:
    return any(arg.is_ref for arg in registry.lookup(op_type).signature.inputs)


@cache
def _has_handle(op_type: str) -> bool:
    return any(arg.dtype is resource for arg in registry.lookup(op_type).signature.inputs)


class _Inputs:
    """Converts the inputs of one node, one argument after the other."""

    def __init__(self, graph: Graph, op: Op, attrs: Mapping[str, Any], name: str | None) -> None:
        self._graph = graph
        self._op = op
        self._known: dict[str, tuple[DType, str]] = {
            key: (value, f"attribute {key!r}")
            for key, value in attrs.items()
            if isinstance(value, DType)
        }
        self.node_name = name
        self._reserved = False

    def argument(self, arg: Arg, value: Any) -> Any:
        """The tensor, or list of tensors, for one argument."""
        if not arg.is_list:
            return self._one(arg, value, arg.name)
        if not isinstance(value, list | tuple):
            raise TypeError(
                f"Input {arg.name!r} of {self._op.op_type} takes a list of tensors, got {value!r}"
            )
        if arg.type_attr is not None and arg.type_attr not in self._known:
            found = first_symbolic(list(value))
            if found is not None:
                self._known[arg.type_attr] = (found._to_tensor().dtype.base, arg.name)
        return [self._one(arg, each, f"{arg.name}_{i}") for i, each in enumerate(value)]

    def _one(self, arg: Arg, value: Any, label: str) -> Tensor:
        expected, because = arg.dtype, None
        if arg.type_attr is not None and arg.type_attr in self._known:
            expected, because = self._known[arg.type_attr]
        if isinstance(value, Symbolic):
            tensor = value._to_tensor(arg.is_ref)
            if expected is not None and tensor.dtype.base is not expected.base:
                raise _mismatch(self._op, arg, tensor, expected, because)
        elif arg.is_ref:
            raise TypeError(
                f"Input {arg.name!r} of {self._op.op_type} must be a variable, got {value!r}"
            )
        else:
            default = self._default(arg, value)
            path = self._constant_name(label)
            tensor = convert(self._graph, value, expected, path, default)
        if arg.type_attr is not None and because is None:
            self._known[arg.type_attr] = (tensor.dtype.base, arg.name)
        return tensor

    def _default(self, arg: Arg, value: Any) -> DType | None:
        """The default of the type attribute, for values that have no allowed type of their own."""
        attr = None if arg.type_attr is None else self._op.signature.attrs[arg.type_attr]
        if attr is None or not isinstance(attr.default, DType):
            return None
        allowed = attr.allowed
        own = getattr(value, "dtype", None)
        if own is None:
            return attr.default
        return None if allowed is None or as_dtype(own) in allowed else attr.default

    def _constant_name(self, label: str) -> str:
        """The full path of a constant; the node's own name is taken first, so that both agree."""
        if not self._reserved:
            name = self.node_name or self._op.op_type
            if not name.endswith("/"):
                name = self._graph.unique_name(name) + "/"
            self.node_name = name
            self._reserved = True
        return self._graph.names.unique_path(f"{self.node_name}{label}") + "/"


def _check_types(op: Op, values: Sequence[Tensor]) -> None:
    known: dict[str, tuple[DType, str]] = {}
    for arg, tensor in zip(op.signature.inputs, values, strict=False):
        base = tensor.dtype.base if tensor.dtype.number > 100 else tensor.dtype
        if arg.type_attr is None:
            if arg.dtype is not None and arg.dtype is not base:
                raise _mismatch(op, arg, tensor, arg.dtype, None)
            continue
        first = known.setdefault(arg.type_attr, (base, arg.name))
        if first[0] is not base:
            raise _mismatch(op, arg, tensor, *first)


def _mismatch(op: Op, arg: Arg, tensor: Tensor, expected: DType, because: str | None) -> TypeError:
    wanted = (
        f"expected type of {expected.base.name}"
        if because is None
        else f"type {expected.base.name} of argument '{because}'"
    )
    return TypeError(
        f"Input '{arg.name}' of '{op.op_type}' Op has type {tensor.dtype.base.name} that does not "
        f"match {wanted}. Inputs: {tensor!r}. (at {user_line()})"
    )


def _result(op: Op, operation: Any) -> Any:
    outputs = operation.outputs
    declared = op.signature.outputs
    if len(declared) == 1 and not declared[0].is_list:
        return outputs[0]
    if not declared:
        return operation
    if len(declared) == 1:
        return list(outputs)
    return tuple(outputs)


def shape_error(
    error: InvalidArgumentError, op_type: str, name: str, inputs: Sequence[Tensor], source: str
) -> ValueError:
    """What a node whose shapes do not fit raises: it names the node, its inputs and the line."""
    listed = ", ".join(_bracketed(tensor._shape) for tensor in inputs)
    return ValueError(
        f"{error.message} for '{name}' (op: '{op_type}') with input shapes: {listed}.\n"
        f"\t defined at {source}"
    )


def _bracketed(shape: Shape) -> str:
    """TensorFlow's spelling of shapes inside error texts: `[?,3]`."""
    if shape is None:
        return "<unknown>"
    return "[" + ",".join("?" if size is None else str(size) for size in shape) + "]"
