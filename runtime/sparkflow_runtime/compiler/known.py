"""Infers what is known about a partition's tensors, given the shapes of its arguments.

One sweep in execution order infers shapes and computes small values that depend only on shapes and
constants, so that shape arithmetic, which is frequent in gradients, costs nothing per step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import evaluation, registry
from sparkflow_runtime.ops.fusion import is_uniform
from sparkflow_runtime.ops.op import Inference, Op
from sparkflow_runtime.ops.value import Value, fixed, wholly
from sparkflow_runtime.shapes import Shape


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one tensor.

    Attributes:
        dtype: The dtype; a reference type for references.
        shape: None, or with None, if unknown.
        value: The value, if constants and shapes determine it.
    """

    dtype: DType
    shape: Shape
    value: Any = None

    @property
    def full_shape(self) -> tuple[int, ...] | None:
        """The shape if every size is known, else None."""
        if self.shape is None or None in self.shape:
            return None
        return self.shape  # type: ignore[return-value]  # no None in it


def find_known(
    nodes: Sequence[Node], given: Mapping[Endpoint, tuple[int, ...]]
) -> dict[Endpoint, Known]:
    """Infers what is known of every output.

    Args:
        nodes: One partition in execution order.
        given: Shapes of tensors that cannot be inferred: arguments, data.
    """
    known: dict[Endpoint, Known] = {}
    handles: dict[Endpoint, Shape] = {}
    reshaped = {node.inputs[0] for node in nodes if _may_reshape(node)}
    for node in nodes:
        op = registry.lookup(node.op)
        outputs = op.signature.output_dtypes(node.attrs)
        if node.op == "Const":
            value = fixed(node.attrs["value"])
            known[Endpoint(node.name, 0)] = Known(outputs[0], value.shape, value)
            continue
        if op.is_variable and op.signature.gives_handles:
            handles[Endpoint(node.name, 0)] = node.attrs["shape"]
        inputs = [known[endpoint] for endpoint in node.inputs]
        found = _shapes(op, node, inputs, len(outputs), handles)
        values = _computed(op, node, inputs, outputs, found)
        for slot, dtype in enumerate(outputs):
            endpoint = Endpoint(node.name, slot)
            if values is not None:
                known[endpoint] = Known(dtype, values[slot].shape, values[slot])
                continue
            shape = None if found is None else found[slot]
            shape = None if endpoint in reshaped else given.get(endpoint, shape)
            known[endpoint] = Known(dtype, shape)
    return known


def without_shapes(
    nodes: Sequence[Node], constants: Mapping[Endpoint, Any]
) -> dict[Endpoint, Known]:
    """Returns what is known of every output for any shapes of arguments: dtypes and constants.

    Args:
        nodes: One partition in execution order.
        constants: The values of its `Const` nodes.
    """
    return {
        endpoint: Known(dtype, None, constants.get(endpoint))
        for node in nodes
        for slot, dtype in enumerate(registry.lookup(node.op).signature.output_dtypes(node.attrs))
        for endpoint in (Endpoint(node.name, slot),)
    }


def _may_reshape(node: Node) -> bool:
    """Whether the variable of its reference input may change its shape."""
    if node.attrs.get("validate_shape", True) or not node.inputs:
        return False
    return registry.lookup(node.op).signature.input_dtypes(node.attrs)[0].is_ref


def _shapes(
    op: Op,
    node: Node,
    inputs: Sequence[Known],
    count: int,
    handles: Mapping[Endpoint, Shape],
) -> Sequence[Shape] | None:
    def constant(index: int) -> Value | None:
        return wholly(inputs[index].value)

    def variable(index: int) -> Shape:
        return handles.get(node.inputs[index])

    static, kinds = [each.shape for each in inputs], [each.dtype for each in inputs]
    try:
        found = op.infer(Inference(static, kinds, node.attrs, constant, variable))
    except (OpError, ValueError, TypeError, IndexError, ArithmeticError, NotImplementedError):
        return None  # the node raises it at run time, or its shape is known only then
    return found if len(found) == count else None


def _computed(
    op: Op,
    node: Node,
    inputs: Sequence[Known],
    outputs: Sequence[DType],
    found: Sequence[Shape] | None,
) -> tuple[Any, ...] | None:
    if not inputs or not evaluation.is_computable(op, node.attrs):
        return None
    filled = _filled(op, node, inputs, outputs[0], found) if len(outputs) == 1 else None
    if filled is not None:
        return (filled,)
    reads = op.value_rule.reads
    if reads and (found is None or not evaluation.is_small(found)):
        return None
    if any(each.value is None if reads else each.dtype.is_ref for each in inputs):
        return None
    static, kinds = [each.shape for each in inputs], [each.dtype for each in inputs]
    values = [wholly(each.value) for each in inputs]
    result = evaluation.evaluate(op, node, static, kinds, values)
    arrays = [None if each is None else each.whole for each in result or ()]
    if not arrays or any(array is None for array in arrays):
        return None
    return tuple(fixed(np.array(array)) for array in arrays)


def _filled(
    op: Op,
    node: Node,
    inputs: Sequence[Known],
    dtype: DType,
    found: Sequence[Shape] | None,
) -> Any:
    """Returns the output if all its elements are one known number, as a broadcast array."""
    values = [each.value for each in inputs]
    number: Any = None
    if op.fills is not None:
        number = np.array(op.fills)
    elif op.repeats is not None:
        number = values[op.signature.input_names(node.attrs).index(op.repeats)]
    elif op.elementwise and all(v is not None and is_uniform(v) for v in values):
        result = evaluation.computed(op, node, [np.array(value.flat[0]) for value in values])
        number = None if result is None else result[0]
    elif (op.passes_on or op.reshapes) and values[0] is not None and is_uniform(values[0]):
        number = values[0]
    else:
        return None
    if number is None or not is_uniform(np.asarray(number)):
        return None
    shape = None if found is None else Known(dtype, found[0]).full_shape
    if shape is None:
        return None
    return np.broadcast_to(np.asarray(number).flat[0].astype(dtype.as_numpy_dtype), shape)
