"""A copy of a tensor with slices set, added or compared at index vectors.

`ScatterNd`, which starts from zeros, is in `gather`; updates of variables are in `scatter_nd`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.indexing.gather import check_depth, updates_text
from sparkflow_runtime.ops.indexing.scatter_nd import scatter_nd
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import string_attr, type_attr
from sparkflow_runtime.ops.static import STRINGS_ON_HOST
from sparkflow_runtime.shapes import Shape

_TINDICES = type_attr(dtypes.INDEX)
_POLICY = string_attr("", frozenset({"", "DEFAULT", "ERROR"}))
_ADDABLE = {"CPU": None, "GPU": dtypes.FLOATING | dtypes.INDEX}


def _infer(node: Inference) -> Sequence[Shape]:
    whole, indices, updates = node.shapes
    if indices == ():
        raise InvalidArgumentError(message="indices must be at least a vector")
    if whole is not None and indices is not None and indices[-1] is not None:
        check_depth(indices[-1], len(whole), "tensor")
        expected = indices[:-1] + whole[indices[-1] :]
        if not shapes.is_compatible(expected, updates):
            raise InvalidArgumentError(message=updates_text(updates, expected))
    return [whole]


class _TensorScatter(Op):
    """A copy of the tensor with updates where the vectors in `indices` point."""

    inputs = "tensor: T, indices: Tindices, updates: T"
    outputs = "output: T"
    attrs = {
        "T": type_attr(dtypes.NUMERIC),
        "Tindices": _TINDICES,
        "bad_indices_policy": _POLICY,
    }
    kernels: ClassVar[Any] = _ADDABLE
    how: ClassVar[str]

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The tensor's shape."""
        return _infer(node)

    def compute(self, xp: Any, tensor: Array, indices: Array, updates: Array) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: An index outside, or updates of the wrong shape.
        """
        if not indices.ndim:
            raise InvalidArgumentError(message="indices must be at least a vector")
        depth = indices.shape[-1]
        check_depth(depth, tensor.ndim, "tensor")
        expected = indices.shape[:-1] + tensor.shape[depth:]
        if updates.shape != expected:
            raise InvalidArgumentError(message=updates_text(updates.shape, expected))
        result = xp.array(tensor, order="C")
        scatter_nd(xp, result, indices, updates, self.how)
        return result


@register
class TensorScatterUpdate(_TensorScatter):
    """The slices replaced; of equal indices the last one wins."""

    attrs = {"T": type_attr(), "Tindices": _TINDICES, "bad_indices_policy": _POLICY}
    kernels = STRINGS_ON_HOST
    how = "update"

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """The gradient without the slices, and the slices."""
        _, indices, updates = op.inputs
        rest = g.TensorScatterUpdate(dy, indices, g.ZerosLike(updates))
        return rest, None, g.GatherNd(dy, indices)


@register
class TensorScatterAdd(_TensorScatter):
    """The slices with the updates added."""

    how = "add"

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """The gradient, and its slices."""
        return dy, None, g.GatherNd(dy, op.inputs[1])


@register
class TensorScatterSub(_TensorScatter):
    """The slices with the updates subtracted."""

    how = "subtract"

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """The gradient, and its slices negated."""
        return dy, None, g.Neg(g.GatherNd(dy, op.inputs[1]))


class _TensorScatterExtremum(_TensorScatter):
    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """Shared among all elements equal to the result: the tensor's and the updates'."""
        tensor, indices, updates = op.inputs
        result = op.outputs[0]
        kind = dy.dtype.base
        kept = g.Cast(g.Equal(result, tensor), SrcT=dtypes.bool_, DstT=kind)
        chosen = g.Cast(g.Equal(g.GatherNd(result, indices), updates), SrcT=dtypes.bool_, DstT=kind)
        count = g.TensorScatterAdd(kept, indices, chosen)
        shares = g.GatherNd(g.RealDiv(dy, g.Maximum(count, g.OnesLike(count))), indices)
        whole = g.RealDiv(g.Mul(kept, dy), g.Maximum(count, g.OnesLike(count)))
        return whole, None, g.Mul(chosen, shares)


@register
class TensorScatterMin(_TensorScatterExtremum):
    """The slices lowered to the updates where these are smaller."""

    attrs = {"T": type_attr(dtypes.REAL), "Tindices": _TINDICES, "bad_indices_policy": _POLICY}
    how = "minimum"


@register
class TensorScatterMax(_TensorScatterExtremum):
    """The slices raised to the updates where these are larger."""

    attrs = {"T": type_attr(dtypes.REAL), "Tindices": _TINDICES, "bad_indices_policy": _POLICY}
    how = "maximum"


@register
class ScatterNdNonAliasingAdd(_TensorScatter):
    """`TensorScatterAdd` under an older name."""

    inputs = "input: T, indices: Tindices, updates: T"
    attrs = {
        "T": type_attr(dtypes.NUMERIC),
        "Tindices": _TINDICES,
        "bad_indices_policy": _POLICY,
    }
    how = "add"

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """The gradient, and its slices."""
        return dy, None, g.GatherNd(dy, op.inputs[1])
