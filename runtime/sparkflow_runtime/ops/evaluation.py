"""Computes values before a step runs; the only place that does, for everything that walks a graph.

The front end evaluates values while a graph is built (`sparkflow.graph.constant_value`),
`passes.fold` replaces nodes by them, `compiler.known` determines them once shapes are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext, StepArithmetic
from sparkflow_runtime.ops.kernels.narrow import bind_kernel
from sparkflow_runtime.ops.op import Inference, NodeView, Op
from sparkflow_runtime.ops.value import Found, HostArray, Valuation, Value
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.shapes import Shape

MAX_VALUE_BYTES: Final = 1 << 16
"""Maximum size of values that are only inspected: larger ones cost more than they are worth."""
_CONTEXT: Final = KernelContext(np, "CPU", "known values", Resources(), Resources())
"""The context for kernels that have no state and call no functions."""


@dataclass(frozen=True, slots=True)
class NamedNode:
    """A stand-in for a node, as a kernel sees it.

    Attributes:
        name: Its name.
        op: Its op type.
        attrs: Its attributes, completed.
    """

    name: str
    op: str
    attrs: Mapping[str, Any]


def is_computable(op: Op, attrs: Mapping[str, Any]) -> bool:
    """Whether the node's outputs depend on its inputs alone and are plain arrays."""
    if op.stateful or op.takes_step or not op.signature.outputs:
        return False
    return registry.has_kernel(op, "CPU", attrs) and all(
        dtype in dtypes.PLAIN for dtype in op.signature.output_dtypes(attrs)
    )


def is_small(outputs: Sequence[Shape]) -> bool:
    """Whether tensors of these shapes are known to be small enough to compute."""
    return all(_is_small(shape) for shape in outputs)


def _is_small(shape: Shape) -> bool:
    count = shapes.num_elements(shape)
    return count is not None and count * 8 <= MAX_VALUE_BYTES


def is_worth_following(shape: Shape, dtype: DType) -> bool:
    """Whether the value of a tensor of this dtype and shape may be searched while a graph is built.

    An integer tensor whose shape depends on its value (`Where`, `ListDiff`) may, a floating-point
    one may not: a network computes those, and the search would traverse all of it.
    """
    return _is_small(shape) or (
        (dtype.is_integer or dtype.is_bool) and not shapes.is_fully_defined(shape)
    )


def computed(op: Op, node: NodeView, inputs: Sequence[HostArray]) -> tuple[HostArray, ...] | None:
    """The outputs of a node that `is_computable`; None if its kernel fails.

    A node that fails here fails again when it runs, with its location in the message.
    """
    try:
        return _run(op, node, inputs)
    except Exception:  # any error: the node raises it again when it runs
        return None


def inferred(op: Op, node: NodeView, inputs: Sequence[HostArray]) -> Sequence[Shape] | None:
    """The shapes of a node's outputs from its inputs; None if they do not fit."""
    sizes, kinds = [each.shape for each in inputs], [dtypes.as_dtype(each.dtype) for each in inputs]
    known = Inference(sizes, kinds, node.attrs, lambda index: Value(inputs[index]))
    try:
        return op.infer(known)
    except (OpError, ValueError, TypeError, IndexError, ArithmeticError):
        return None  # the node raises it again when it is computed


def origins(op: Op, node: NodeView, marked: Sequence[HostArray]) -> tuple[HostArray, ...] | None:
    """The origins of the elements of a node's outputs, if its rule is `value.moving`.

    Args:
        op: The op, whose node `is_computable`.
        node: The node.
        marked: The inputs; moved ones hold int64 marks instead of their elements.

    Returns:
        The marks at their new positions, 0 for zeros; None if the kernel fails.
    """
    try:
        result = bind_kernel(op, node, _CONTEXT)(*marked)
    except Exception:  # as in `computed`
        return None
    several = tuple(result) if isinstance(result, tuple | list) else (result,)
    found = tuple(np.asarray(each) for each in several)
    return found if all(each.dtype == np.int64 for each in found) else None


def _run(op: Op, node: NodeView, inputs: Sequence[HostArray]) -> tuple[HostArray, ...]:
    with StepArithmetic():
        result = bind_kernel(op, node, _CONTEXT)(*inputs)
    several = tuple(result) if isinstance(result, tuple | list) else (result,)
    outputs = op.signature.output_dtypes(node.attrs)
    kept = np.array if op.aliases is None else np.asarray  # it may refill its array
    return tuple(
        kept(value, dtype.as_numpy_dtype) for value, dtype in zip(several, outputs, strict=True)
    )


def evaluate(
    op: Op,
    node: NodeView,
    static: Sequence[Shape],
    kinds: Sequence[DType],
    values: Sequence[Value | None],
) -> Found:
    """The known values of the outputs of a node that `is_computable`.

    Args:
        op: The op.
        node: The node.
        static: The shapes of its inputs.
        kinds: Their dtypes.
        values: Their known values, as far as the op's rule reads them.
    """
    rule = op.value_rule
    whole = [each.array for each in values if each is not None and each.unknown is None]
    if rule.reads and len(whole) == len(static):
        found = computed(op, node, whole)
        if found is None or sum(array.nbytes for array in found) > MAX_VALUE_BYTES:
            return None
        return [Value(array) for array in found]
    valuation = Valuation(static, kinds, node.attrs, values, lambda arrays: _run(op, node, arrays))
    try:
        return rule.find(valuation)
    except Exception:  # as in `computed`
        return None
