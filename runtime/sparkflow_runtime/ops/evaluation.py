"""Computes values before a step runs. The one place that does: what walks a graph asks here.

The front end follows values while a graph is built (`sparkflow.graph.constant_value`),
`passes.fold` replaces nodes by them, `compiler.known` looks for them once shapes are known.
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
"""Values that are only looked at may not be larger: computing them costs more than they tell."""
_CONTEXT: Final = KernelContext(np, "CPU", "known values", Resources(), Resources())
"""Where kernels are bound that have no state and call nothing."""


@dataclass(frozen=True, slots=True)
class NamedNode:
    """A node as a kernel sees it, for who has none.

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
    """Whether tensors of these shapes are known to be small enough to be computed."""
    return all(_is_small(shape) for shape in outputs)


def _is_small(shape: Shape) -> bool:
    count = shapes.num_elements(shape)
    return count is not None and count * 8 <= MAX_VALUE_BYTES


def is_worth_following(shape: Shape, dtype: DType) -> bool:
    """Whether the value of such a tensor may be looked for while a graph is built.

    A tensor of integers whose shape follows from its value (`Where`, `ListDiff`) may, one of
    numbers may not: it is what a network computes, and the walk would go through all of that.
    """
    return _is_small(shape) or (
        (dtype.is_integer or dtype.is_bool) and not shapes.is_fully_defined(shape)
    )


def computed(op: Op, node: NodeView, inputs: Sequence[HostArray]) -> tuple[HostArray, ...] | None:
    """The outputs of a node that `is_computable`; None where its kernel fails.

    A node that fails here fails again when it runs, with its place in the text.
    """
    try:
        return _run(op, node, inputs)
    except Exception:  # whatever it is, the node raises it again when it runs
        return None


def inferred(op: Op, node: NodeView, inputs: Sequence[HostArray]) -> Sequence[Shape] | None:
    """The shapes of a node's outputs, by its inputs; None where they do not fit."""
    sizes, kinds = [each.shape for each in inputs], [dtypes.as_dtype(each.dtype) for each in inputs]
    known = Inference(sizes, kinds, node.attrs, lambda index: Value(inputs[index]))
    try:
        return op.infer(known)
    except (OpError, ValueError, TypeError, IndexError, ArithmeticError):
        return None  # the node raises it again when it is computed


def origins(op: Op, node: NodeView, marked: Sequence[HostArray]) -> tuple[HostArray, ...] | None:
    """Where the elements of a node's outputs come from, if its rule is `value.moving`.

    Args:
        op: The op, whose node `is_computable`.
        node: The node.
        marked: The inputs; those that are moved with int64 marks instead of their elements.

    Returns:
        The marks at their new places, 0 where there is a zero; None where the kernel fails.
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
    kept = np.array if op.aliases is None else np.asarray  # it may fill its array anew
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
    """What is known of the outputs of a node that `is_computable`.

    Args:
        op: The op.
        node: The node.
        static: The shapes of its inputs.
        kinds: Their dtypes.
        values: What is known of their values, as far as the op's rule reads them.
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
