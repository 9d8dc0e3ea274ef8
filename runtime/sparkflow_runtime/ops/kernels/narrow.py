"""How kernels handle float16 and bfloat16: they compute in float32 and round the result once.

numpy has few loops for ml_dtypes' bfloat16, computes with float16 one number at a time, and sums in
either lose small terms. So a pure op is bound to its float32 kernel, between conversions. Ops that
only move elements, and stateful ones, use arrays unconverted: a lookup reads only the rows it
needs, not the whole table. GPUs compute with float16 natively.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.kernel import NARROW
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, NodeView, Op

_BY_NUMPY = {np.dtype(dtype.as_numpy_dtype): dtype for dtype in NARROW}


@dataclass(frozen=True, slots=True)
class _WidenedNode:
    """A node as its kernel sees it, with float32 in place of narrow dtypes."""

    name: str
    op: str
    attrs: Mapping[str, Any]


def widened(node: NodeView, narrow: Collection[DType]) -> NodeView:
    """The node as seen by a kernel that computes these dtypes in float32."""
    if not any(value in narrow for value in node.attrs.values() if isinstance(value, DType)):
        return node
    attrs = {
        name: dtypes.float32 if isinstance(value, DType) and value in narrow else value
        for name, value in node.attrs.items()
    }
    return _WidenedNode(node.name, node.op, attrs)


def is_fusable(op: Op, node: NodeView) -> bool:
    """Whether `Op.fuse` applies to this node, see there; for every dtype."""
    return op.is_fusable(widened(node, NARROW))


def bind_kernel(op: Op, node: NodeView, context: KernelContext) -> Callable[..., Any]:
    """The function that runs this node, as `Op.bind`, for every dtype."""
    if context.xp is not np or not is_widened(op, node):
        return op.bind(node, context)
    kernel = op.bind(widened(node, op.widens), context)
    rounded_to = [
        dtype if dtype in op.widens else None for dtype in op.signature.output_dtypes(node.attrs)
    ]

    def run(*inputs: Array) -> Any:
        result = kernel(*map(_wide, inputs))
        if not isinstance(result, tuple | list):
            return _rounded(result, rounded_to[0])
        return tuple(map(_rounded, result, rounded_to))

    return run


def _wide(array: Any) -> Any:
    narrow = _BY_NUMPY.get(getattr(array, "dtype", None))
    return array if narrow is None else _converted(array, narrow, dtypes.float32)


def _rounded(result: Any, dtype: DType | None) -> Any:
    if dtype is None:
        return result
    return _converted(np.asarray(result), dtypes.float32, dtype)


def _converted(array: Array, source: DType, target: DType) -> Array:
    # Imported here: few programs compute in 16 bits, and this imports the code generator.
    from sparkflow_runtime.ops.kernels.narrow_kernels import converted

    return converted(array, source, target)


def is_widened(op: Op, node: NodeView) -> bool:
    """Whether the node uses its float32 kernel, between conversions, on a host."""
    return (
        bool(op.widens)
        and not op.value_rule.moves
        and not op.stateful
        and not op.takes_step
        and bool(op.signature.inputs)
        and not any(arg.is_ref for arg in op.signature.inputs)
        and any(
            attr.kind == "type" and node.attrs.get(name) in op.widens
            for name, attr in op.signature.attrs.items()
        )
    )
