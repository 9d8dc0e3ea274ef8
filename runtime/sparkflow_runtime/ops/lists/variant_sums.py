"""Sums and zeros of non-array values: the gradients of lists and tapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.list_access import Access, ListAccess
from sparkflow_runtime.ops.lists.tensor_list import ListOp, TensorList
from sparkflow_runtime.ops.op import Held, Inference, NodeView, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr


@register
class AddVariants(ListOp):
    """The elementwise sum of gradients that are lists or tapes, skipping unset elements."""

    type = "_AddVariants"
    inputs = "inputs: N * variant"
    outputs = "sum: variant"
    attrs = {"N": int_attr(minimum=1)}

    def list_access(self, node: NodeView) -> ListAccess:
        """The sum, if the values are lists."""
        return ListAccess(Access.SUM)

    def holds(self, node: Inference) -> Sequence[Held]:
        """What all inputs hold, if they are lists of the same kind."""
        held = [node.held(place) for place in range(node.attrs["N"])]
        set_ones = [each for each in held if not each.is_unset]
        first = (set_ones or held)[0]
        is_like = all(each.element == first.element for each in set_ones)
        length = first.length if all(each.length == first.length for each in held) else None
        return [Held(length, first.element if is_like else None, not set_ones)]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Adds by kind."""

        def add(*values: Any) -> Any:
            total = values[0]
            for value in values[1:]:
                total = _added(total, value)
            return total

        return add

    def gradient(self, g: Any, op: Any, dsum: Any) -> tuple[Any, ...]:
        """Each input gets the whole gradient."""
        return (dsum,) * len(op.inputs)


def _added(a: Any, b: Any) -> Any:
    if isinstance(a, TensorList) and isinstance(b, TensorList):
        size = max(len(a.items), len(b.items))
        left = a.items + [None] * (size - len(a.items))
        right = b.items + [None] * (size - len(b.items))
        items = [
            y if x is None else (x if y is None else x + y)
            for x, y in zip(left, right, strict=True)
        ]
        return TensorList(items, a.dtype)
    if isinstance(a, TensorList) or isinstance(b, TensorList):
        return a if isinstance(a, TensorList) else b  # the other is a list without writes
    return {**a, **{key: a[key] + value if key in a else value for key, value in b.items()}}


@register
class UnsetLike(ListOp):
    """A list of the same length with all elements unset: the zero gradient of lists."""

    type = "_UnsetLike"
    inputs = "value: variant"
    outputs = "unset: variant"
    gradient = not_differentiable

    def compute(self, xp: Any, value: Any) -> Any:
        """Nones, or an empty table for a tape."""
        if isinstance(value, TensorList):
            return TensorList.unset(len(value), value.dtype)
        return {}
