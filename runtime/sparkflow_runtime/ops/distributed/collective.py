"""Collectives of several devices or several sessions.

Ranks find each other by `group_key`, runs by `instance_key`; see `passes.collectives` for the
members of a group. A pass splits every node of these types in two, `_CollectiveStart` and
`_CollectiveWait` (`ops.collective_parts`), so that nothing waits before the result is needed. Here
are the ops that a graph contains: TensorFlow's, and ours for gradients and values of variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError, UnimplementedError
from sparkflow_runtime.events.crc32c import crc32c
from sparkflow_runtime.ops.inference import same_as, same_as_all
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import NETWORK, Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import (
    Attr,
    float_attr,
    int_attr,
    list_attr,
    shape_attr,
    string_attr,
    type_attr,
)
from sparkflow_runtime.shapes import Shape

NUMBERS: Final = frozenset(
    {
        dtypes.bfloat16,
        dtypes.float16,
        dtypes.float32,
        dtypes.float64,
        dtypes.int32,
        dtypes.int64,
    }
)
_GROUP: Final[dict[str, Attr]] = {
    "group_size": int_attr(minimum=1),
    "group_key": int_attr(),
    "instance_key": int_attr(),
}
_HOW: Final[dict[str, Attr]] = {
    "communication_hint": string_attr("auto"),
    "timeout_seconds": float_attr(0.0),
}
ON_CPU_AND_GPU: Final = {"CPU": None, "GPU": None}


class CollectiveOp(Op):
    """The base of collectives."""

    is_collective = True
    reaches = frozenset({NETWORK})
    stateful = True
    takes_step = True
    gradient = not_differentiable
    kernels = ON_CPU_AND_GPU
    infer = same_as(0)

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Never runs: a pass has split every node at the top level of a graph.

        Raises:
            UnimplementedError: Always.
        """
        raise UnimplementedError(
            message=f"{node.op} {node.name!r} is in the body of a function, a branch or a loop; "
            "collectives run at the top of a graph"
        )


@register
class CollectiveReduce(CollectiveOp):
    """Reduces the tensors of all ranks to one, on every rank. `subdiv_offsets` has no effect."""

    inputs = "input: T"
    outputs = "data: T"
    attrs = {
        "T": type_attr(NUMBERS),
        **_GROUP,
        "merge_op": string_attr(allowed=frozenset({"Min", "Max", "Mul", "Add"})),
        "final_op": string_attr(allowed=frozenset({"Id", "Div"})),
        "subdiv_offsets": list_attr("int", []),
        "wait_for": list_attr("int", []),
        **_HOW,
    }


@register
class CollectiveBcastSend(CollectiveOp):
    """Sends its tensor to all other ranks, which run `CollectiveBcastRecv`."""

    inputs = "input: T"
    outputs = "data: T"
    attrs = {
        "T": type_attr(NUMBERS | {dtypes.bool_}),
        **_GROUP,
        "shape": shape_attr(),
        **_HOW,
    }


@register
class CollectiveBcastRecv(CollectiveOp):
    """The tensor of the rank that runs `CollectiveBcastSend`."""

    outputs = "data: T"
    attrs = CollectiveBcastSend.attrs

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape in the attribute, which must be fully defined.

        Raises:
            InvalidArgumentError: It is not.
        """
        shape = node.attrs["shape"]
        if not shapes.is_fully_defined(shape):
            raise InvalidArgumentError(
                message=f"CollectiveBcastRecv must know its shape, got {shapes.text(shape)}"
            )
        return [shape]


@register
class CollectiveBroadcast(CollectiveOp):
    """The tensors of rank `root`, on every rank; ours. They are sent as one.

    Every rank passes tensors of the same dtypes and shapes; only the root's values count. So all
    ranks can run the same graph.
    """

    inputs = "tensors: N * T"
    outputs = "data: N * T"
    attrs = {
        "N": int_attr(minimum=1),
        "T": type_attr(dtypes.PLAIN),
        "root": int_attr(0, minimum=0),
        **_GROUP,
        **_HOW,
    }
    infer = same_as_all


@register
class CollectiveGather(CollectiveOp):
    """The tensors of all ranks, concatenated along their first axis in rank order.

    Unlike TensorFlow's, ranks may have different numbers of rows.
    """

    inputs = "input: T"
    outputs = "data: T"
    attrs = {"T": type_attr(NUMBERS), **_GROUP, "shape": shape_attr(), **_HOW}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's, with any number of rows.

        Raises:
            InvalidArgumentError: The input is a scalar.
        """
        shape = node.shapes[0]
        if shape is None:
            return [None]
        if not shape:
            raise InvalidArgumentError(
                message="CollectiveGather joins tensors along their first axis, got a scalar"
            )
        return [(None, *shape[1:])]


@register
class CollectiveWeightedMean(CollectiveOp):
    """The weighted means over all ranks of several tensors; ours.

    They are sent as one. A rank with weight 0 does not count, whatever its tensors are; if all
    weights are 0, so are the means.
    """

    inputs = "weight: float32, tensors: N * T"
    outputs = "means: N * T"
    attrs = {
        "N": int_attr(minimum=1),
        "T": type_attr(NUMBERS & dtypes.FLOATING),
        **_GROUP,
        **_HOW,
    }

    def infer(self, node: Inference) -> Sequence[Shape]:
        """As the tensors."""
        return list(node.shapes[1:])


@register
class CollectiveWeightedRows(CollectiveOp):
    """The rows of all ranks, each multiplied by its rank's share of the weights; ours.

    Adding rows of equal index gives the weighted mean of sparse gradients.
    """

    inputs = "weight: float32, indices: Tindices, values: T"
    outputs = "all_indices: Tindices, all_values: T"
    attrs = {
        "T": type_attr(NUMBERS & dtypes.FLOATING),
        "Tindices": type_attr(dtypes.INDEX),
        **_GROUP,
        **_HOW,
    }

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Any number of rows."""
        values = node.shapes[2]
        return [(None,), None if not values else (None, *values[1:])]


@register
class Fingerprints(Op):
    """A checksum (CRC-32C) of the bytes of each tensor; ours. Equal tensors have equal ones."""

    inputs = "tensors: T"
    outputs = "fingerprints: int64"
    attrs = {"T": list_attr("type", minimum=1)}
    kernels = ON_CPU_AND_GPU
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """One per tensor."""
        return [(len(node.shapes),)]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Reads the bytes on the host."""
        xp = context.xp
        types: Sequence[DType] = node.attrs["T"]
        for dtype in types:
            if dtype not in dtypes.PLAIN:
                raise UnimplementedError(message=f"Tensors of {dtype.name} have no fingerprint")

        def fingerprints(*tensors: Array) -> Array:
            hosts = tensors if xp is np else [xp.asnumpy(tensor) for tensor in tensors]
            found = [_fingerprint(np.asarray(host)) for host in hosts]
            return xp.asarray(found, np.int64)

        return fingerprints


def _fingerprint(array: np.ndarray[Any, Any]) -> int:
    return crc32c(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
