"""What is known of a partition's tensors once the shapes of its arguments are.

One sweep in execution order infers shapes and computes small values that depend on shapes and
constants only, so that the arithmetic of shapes, which gradients are full of, costs nothing per
step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.bfloat16 import bind_kernel
from sparkflow_runtime.ops.elementwise_table import ElementwiseOp
from sparkflow_runtime.ops.fusion import is_uniform
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Inference, Op
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.shapes import Shape

MAX_VALUE_BYTES: Final = 1 << 16
"""A computed value may not be larger: beyond it, computing costs less than the memory."""
_FILLED: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    "Fill": lambda values: values[1],
    "BroadcastTo": lambda values: values[0],
    "ZerosLike": lambda values: np.zeros(()),
    "OnesLike": lambda values: np.ones(()),
}
"""The number with which an op fills a tensor, None where the values do not tell it."""
_RENAMED: Final = frozenset({"Identity", "StopGradient", "Reshape", "ExpandDims", "Squeeze"})
_OF_SHAPES_ONLY: Final = frozenset({"Shape", "ShapeN", "Size", "Rank"})
"""Ops whose values follow from the shapes of their inputs."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one tensor.

    Attributes:
        dtype: A reference's is the reference type.
        shape: None or with None where it is not known.
        value: The value itself, where constants and shapes determine it.
    """

    dtype: DType
    shape: Shape
    value: Any = None

    @property
    def full_shape(self) -> tuple[int, ...] | None:
        """The shape where every size is known, else None."""
        if self.shape is None or None in self.shape:
            return None
        return self.shape  # type: ignore[return-value]  # no None in it


def find_known(
    nodes: Sequence[Node], given: Mapping[Endpoint, tuple[int, ...]]
) -> dict[Endpoint, Known]:
    """What is known of every output.

    Args:
        nodes: One partition in execution order.
        given: Shapes of tensors that no inference tells: arguments, data.
    """
    known: dict[Endpoint, Known] = {}
    context = KernelContext(np, "CPU", "known values", Resources(), Resources())
    handles: dict[Endpoint, Shape] = {}
    reshaped = {
        node.inputs[0] for node in nodes if node.op == "Assign" and not node.attrs["validate_shape"]
    }
    for node in nodes:
        op = registry.lookup(node.op)
        outputs = op.signature.output_dtypes(node.attrs)
        if node.op == "Const":
            value = node.attrs["value"]
            known[Endpoint(node.name, 0)] = Known(outputs[0], value.shape, value)
            continue
        if node.op == "VarHandleOp":
            handles[Endpoint(node.name, 0)] = node.attrs["shape"]
        inputs = [known[endpoint] for endpoint in node.inputs]
        found = _shapes(op, node, inputs, len(outputs), handles)
        values = _computed(op, node, inputs, outputs, found, context)
        for slot, dtype in enumerate(outputs):
            endpoint = Endpoint(node.name, slot)
            if values is not None:
                known[endpoint] = Known(dtype, values[slot].shape, values[slot])
                continue
            shape = None if found is None else found[slot]
            shape = None if endpoint in reshaped else given.get(endpoint, shape)
            known[endpoint] = Known(dtype, shape)
    return known


def _shapes(
    op: Op,
    node: Node,
    inputs: Sequence[Known],
    count: int,
    handles: Mapping[Endpoint, Shape],
) -> Sequence[Shape] | None:
    def constant(index: int) -> np.ndarray[Any, Any] | None:
        return inputs[index].value  # type: ignore[no-any-return]  # an array

    def variable(index: int) -> Shape:
        return handles.get(node.inputs[index])

    static, kinds = [each.shape for each in inputs], [each.dtype for each in inputs]
    try:
        found = op.infer(Inference(static, kinds, node.attrs, constant, variable))
    except (OpError, ValueError, TypeError, IndexError, ArithmeticError, NotImplementedError):
        return None  # the node raises it when it runs, or tells its shape only then
    return found if len(found) == count else None


def _computed(
    op: Op,
    node: Node,
    inputs: Sequence[Known],
    outputs: Sequence[DType],
    found: Sequence[Shape] | None,
    context: KernelContext,
) -> tuple[Any, ...] | None:
    if not inputs or op.stateful or op.takes_step or not outputs:
        return None
    if any(dtype not in dtypes.PLAIN for dtype in outputs):
        return None
    filled = _filled(op, node, inputs, outputs[0], found, context)
    if filled is not None:
        return (filled,)
    if node.op in _OF_SHAPES_ONLY:
        if any(each.full_shape is None or each.dtype.is_ref for each in inputs):
            return None
        values = [_any_of_shape(each) for each in inputs]
    elif all(each.value is not None for each in inputs):
        values = [each.value for each in inputs]
    else:
        return None
    if not registry.has_kernel(op, "CPU", node.attrs):
        return None
    if node.op not in _OF_SHAPES_ONLY and not _is_small(found):
        return None
    try:
        with np.errstate(all="ignore"):
            result = bind_kernel(op, node, context)(*values)
    except Exception:  # whatever it is, the node raises it again when it runs
        return None
    several = tuple(result) if isinstance(result, tuple | list) else (result,)
    arrays = tuple(
        np.array(value, dtype.as_numpy_dtype) for value, dtype in zip(several, outputs, strict=True)
    )
    return arrays if sum(array.nbytes for array in arrays) <= MAX_VALUE_BYTES else None


def _filled(
    op: Op,
    node: Node,
    inputs: Sequence[Known],
    dtype: DType,
    found: Sequence[Shape] | None,
    context: KernelContext,
) -> Any:
    """The output where all its elements are one known number: an array that repeats it."""
    values = [each.value for each in inputs]
    if node.op in _FILLED:
        number = _FILLED[node.op](values)
    elif isinstance(op, ElementwiseOp) and all(v is not None and is_uniform(v) for v in values):
        try:
            with np.errstate(all="ignore"):
                number = bind_kernel(op, node, context)(*(np.array(v.flat[0]) for v in values))
        except Exception:  # whatever it is, the node raises it again when it runs
            return None
    elif node.op in _RENAMED and values[0] is not None and is_uniform(values[0]):
        number = values[0]
    else:
        return None
    if number is None or not is_uniform(np.asarray(number)):
        return None
    shape = None if found is None else Known(dtype, found[0]).full_shape
    if shape is None:
        return None
    return np.broadcast_to(np.asarray(number).flat[0].astype(dtype.as_numpy_dtype), shape)


def _is_small(found: Sequence[Shape] | None) -> bool:
    if found is None:
        return False
    counts = [shapes.num_elements(shape) for shape in found]
    return all(count is not None and count * 8 <= MAX_VALUE_BYTES for count in counts)


def _any_of_shape(known: Known) -> Any:
    """An array of a known shape that takes no memory."""
    dtype = known.dtype.as_numpy_dtype
    return np.broadcast_to(np.zeros((), dtype), known.full_shape or ())
