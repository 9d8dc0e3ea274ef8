"""How many floating-point operations a node needs, from static shapes: its op says it."""

from __future__ import annotations

from sparkflow.graph.operation import Operation
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Inference
from sparkflow_runtime.shapes import UnknownSizeError


def float_operations(op: Operation) -> int:
    """The number of floating-point operations of a node; 0 where none is known."""
    shapes, kinds = [each._shape for each in op.inputs], [each.dtype for each in op.inputs]
    outputs = [each._shape for each in op.outputs]
    try:
        return registry.find(op.type).float_operations(Inference(shapes, kinds, op._attrs), outputs)
    except UnknownSizeError:
        return 0
