"""How kernels meet bfloat16: they compute in float32, and the result is rounded once.

numpy has few loops for ml_dtypes' bfloat16, and sums in it lose their small terms. So the kernel of
a pure op is bound as that of float32, between conversions. Ops that only move elements, and those
with state, keep arrays as they are: a lookup reads the rows it wants, not the whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, NodeView, Op

_NARROW = np.dtype(dtypes.bfloat16.numpy)


@dataclass(frozen=True, slots=True)
class _WidenedNode:
    """A node as its kernel sees it: float32 stands where bfloat16 was."""

    name: str
    op: str
    attrs: Mapping[str, Any]


def bind_kernel(op: Op, node: NodeView, context: KernelContext) -> Callable[..., Any]:
    """The function that runs this node, as `Op.bind`, for every dtype."""
    if not is_widened(op, node):
        return op.bind(node, context)
    attrs = {
        name: dtypes.float32 if value is dtypes.bfloat16 else value
        for name, value in node.attrs.items()
    }
    kernel = op.bind(_WidenedNode(node.name, node.op, attrs), context)
    narrow = [dtype is dtypes.bfloat16 for dtype in op.signature.output_dtypes(node.attrs)]

    def run(*inputs: Array) -> Any:
        result = kernel(
            *(x.astype(np.float32) if getattr(x, "dtype", None) == _NARROW else x for x in inputs)
        )
        if not isinstance(result, tuple | list):
            return np.asarray(result).astype(_NARROW) if narrow[0] else result
        return tuple(
            np.asarray(each).astype(_NARROW) if is_narrow else each
            for each, is_narrow in zip(result, narrow, strict=True)
        )

    return run


def is_widened(op: Op, node: NodeView) -> bool:
    """Whether the node's kernel is bound as that of float32, between conversions."""
    return (
        op.widens_bfloat16
        and not op.value_rule.moves
        and not op.stateful
        and not op.takes_step
        and bool(op.signature.inputs)
        and not any(arg.is_ref for arg in op.signature.inputs)
        and any(
            attr.kind == "type" and node.attrs.get(name) is dtypes.bfloat16
            for name, attr in op.signature.attrs.items()
        )
    )
