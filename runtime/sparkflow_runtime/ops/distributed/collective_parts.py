"""The two halves into which a pass splits every collective: start and wait.

`_CollectiveStart` receives the tensors as soon as they exist and returns at once; a separate thread
communicates with the other ranks while the partition continues. `_CollectiveWait` returns the
result. On GPUs NCCL does the exchange if it can, see `ops.collective_gpu`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.distributed.collective import ON_CPU_AND_GPU
from sparkflow_runtime.ops.distributed.collective_gpu import bind_on_gpu, split
from sparkflow_runtime.ops.inference import attribute
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import NETWORK, Array, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import (
    Attr,
    bool_attr,
    float_attr,
    int_attr,
    list_attr,
    shape_attr,
    string_attr,
)
from sparkflow_runtime.resources.collectives import collective_exchange as collective
from sparkflow_runtime.resources.collectives.collective_exchange import Exchange, Group
from sparkflow_runtime.resources.collectives.collective_runs import (
    DEFAULT_TIMEOUT_S,
    Collectives,
    Work,
)

_RESOURCE: Final = "collectives"

PART_ATTRS: Final[dict[str, Attr]] = {
    "group_key": int_attr(),
    "instance_key": int_attr(),
    "rank": int_attr(minimum=0),
    "devices": list_attr("string", minimum=1),
    "between": bool_attr(),
    "timeout_seconds": float_attr(0.0),
}
"""The base of both halves: the ranks, and which of them this is."""


@register
class CollectiveStart(Op):
    """Starts a run of an instance with copies of this rank's tensors."""

    type = "_CollectiveStart"
    reaches = frozenset({NETWORK})
    inputs = "inputs: Tin"
    attrs = {
        "Tin": list_attr("type"),
        "Tout": list_attr("type"),
        "kind": string_attr(),
        "merge_op": string_attr("Add"),
        "final_op": string_attr("Id"),
        "shape": shape_attr(None),
        "root": int_attr(0),
        **PART_ATTRS,
    }
    stateful = True
    takes_step = True
    keeps_inputs = False
    kernels = ON_CPU_AND_GPU

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Copies the tensors and starts their exchange on a thread."""
        group, instance, timeout_s = _place(node)
        collectives = _collectives(context)
        begin = _KINDS[node.attrs["kind"]](node, context)
        abandon: Callable[[], None] | None = None
        if context.xp is not np:
            begin, abandon = bind_on_gpu(node, context, group, begin)

        def start(step: StepContext, *tensors: Array) -> None:
            collectives.start(step, group, instance, timeout_s, begin(*tensors), abandon)

        return start


@register
class CollectiveWait(Op):
    """The result of the run that this step's `_CollectiveStart` of the same instance started."""

    type = "_CollectiveWait"
    reaches = frozenset({NETWORK})
    outputs = "outputs: Tout"
    attrs = {"Tout": list_attr("type"), "shapes": list_attr("shape"), **PART_ATTRS}
    stateful = True
    takes_step = True
    kernels = ON_CPU_AND_GPU
    infer = attribute("shapes")

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Waits."""
        group, instance, timeout_s = _place(node)
        collectives = _collectives(context)
        is_single = len(node.attrs["Tout"]) == 1
        xp = context.xp

        def wait(step: StepContext) -> Any:
            results = collectives.wait(step, group, instance, timeout_s)
            if xp is not np:
                results = tuple([xp.asarray(each) for each in results])
            return results[0] if is_single else results

        return wait


def _collectives(context: KernelContext) -> Collectives:
    return context.session.get_or_create("", _RESOURCE, Collectives, Collectives)


def _place(node: NodeView) -> tuple[Group, int, float]:
    attrs = node.attrs
    devices = tuple(attrs["devices"])
    group = Group(attrs["group_key"], attrs["rank"], devices, attrs["between"])
    return group, attrs["instance_key"], attrs["timeout_seconds"] or DEFAULT_TIMEOUT_S


class _Buffer:
    """The buffers in which a node's tensors are exchanged, reused in every other step.

    Every other, because ranks may still read those of the last run, see `run_lanes`.

    Args:
        context: Allocates the memory, which peers on this host can read.
        dtype: The element type.
    """

    def __init__(self, context: KernelContext, dtype: DType) -> None:
        self._allocate = context.resources.allocate
        self._dtype = np.dtype(dtype.as_numpy_dtype)
        self._next: _Memory | None = None
        self._last: _Memory | None = None

    def take(self, count: int) -> Any:
        """Returns an array [count] that nobody else uses: the last run but one's, if possible."""
        found = self._next
        if found is None or len(found.array) != count or found.is_used:
            found = _Memory(self._allocate((count,), self._dtype))
            found.count_uses()
        self._next, self._last = self._last, found
        return found.array[:]


class _Memory:
    """An array, with detection of views of it."""

    __slots__ = ("_owner", "_unused", "array")

    def __init__(self, array: Any) -> None:
        self.array = array
        # All views of an array have its owner as their base.
        self._owner = array if array.base is None else array.base
        self._unused = 0

    def count_uses(self) -> None:
        """Records the number of references while there are no views."""
        self._unused = sys.getrefcount(self._owner)

    @property
    def is_used(self) -> bool:
        """Whether it may still be read."""
        return sys.getrefcount(self._owner) > self._unused


Begin = Callable[..., Work]


def _reduce(node: NodeView, context: KernelContext) -> Begin:
    op, divide = node.attrs["merge_op"], node.attrs["final_op"] == "Div"
    buffer = _Buffer(context, node.attrs["Tin"][0])

    def begin(tensor: Array) -> Work:
        values = np.asarray(tensor)
        flat, shape = _filled(buffer, (values,)), values.shape

        def work(exchange: Exchange) -> tuple[Any, ...]:
            collective.all_reduce(exchange, flat, op, divide)
            return (flat.reshape(shape),)

        return work

    return begin


def _weighted_mean(node: NodeView, context: KernelContext) -> Begin:
    buffer = _Buffer(context, node.attrs["Tin"][1])

    def begin(weight: Array, *tensors: Array) -> Work:
        own, values = float(weight), [np.asarray(each) for each in tensors]
        flat = _filled(buffer, values) if own else buffer.take(sum(each.size for each in values))
        parts = [each.shape for each in values]

        def work(exchange: Exchange) -> tuple[Any, ...]:
            collective.all_reduce(exchange, flat, "Add", False, own)
            return split(flat, parts)

        return work

    return begin


def _weighted_rows(node: NodeView, context: KernelContext) -> Begin:
    def begin(weight: Array, indices: Array, values: Array) -> Work:
        own = float(weight)
        if indices.ndim != 1 or not values.ndim or len(values) != len(indices):
            raise InvalidArgumentError(
                message=f"CollectiveWeightedRows takes one row per index, got indices "
                f"{shapes.text(indices.shape)} and values {shapes.text(values.shape)}"
            )
        rows = slice(None) if own else slice(0, 0)
        given = np.array(indices[rows]), np.array(values[rows])

        def work(exchange: Exchange) -> tuple[Any, ...]:
            text = f"rows {values.dtype}[{', '.join(map(str, values.shape[1:]))}]"
            weights, found = collective.all_gather(exchange, text, given, own)
            shares = collective.shares_of(exchange, weights)
            scaled = [
                np.multiply(message[1], message[1].dtype.type(share))
                for message, share in zip(found, shares, strict=True)
            ]
            return np.concatenate([message[0] for message in found]), np.concatenate(scaled)

        return work

    return begin


def _many(node: NodeView, context: KernelContext) -> Begin:
    is_root = node.attrs["rank"] == node.attrs["root"]
    buffer = _Buffer(context, node.attrs["Tin"][0])

    def begin(*tensors: Array) -> Work:
        values = [np.asarray(each) for each in tensors]
        flat = _filled(buffer, values)
        parts = [each.shape for each in values]

        def work(exchange: Exchange) -> tuple[Any, ...]:
            collective.broadcast(exchange, flat, is_root)
            return split(flat, parts)

        return work

    return begin


def _send(node: NodeView, context: KernelContext) -> Begin:
    def begin(tensor: Array) -> Work:
        values = np.array(tensor)
        return lambda exchange: _broadcast(exchange, values, True)

    return begin


def _recv(node: NodeView, context: KernelContext) -> Begin:
    shape, kind = node.attrs["shape"], node.attrs["Tout"][0].as_numpy_dtype
    return lambda: lambda exchange: _broadcast(exchange, np.empty(shape, kind), False)


def _broadcast(exchange: Exchange, values: Any, is_sender: bool) -> tuple[Any, ...]:
    collective.broadcast(exchange, values.reshape(-1), is_sender)
    return (values,)


def _gather(node: NodeView, context: KernelContext) -> Begin:
    def begin(tensor: Array) -> Work:
        values = np.array(tensor)

        def work(exchange: Exchange) -> tuple[Any, ...]:
            text = f"{values.dtype}[{', '.join(map(str, values.shape[1:]))}]"
            _, given = collective.all_gather(exchange, text, (values,))
            return (np.concatenate([each for (each,) in given]),)

        return work

    return begin


_KINDS: Final[Mapping[str, Callable[[NodeView, KernelContext], Begin]]] = {
    "CollectiveReduce": _reduce,
    "CollectiveWeightedMean": _weighted_mean,
    "CollectiveWeightedRows": _weighted_rows,
    "CollectiveBroadcast": _many,
    "CollectiveBcastSend": _send,
    "CollectiveBcastRecv": _recv,
    "CollectiveGather": _gather,
}


def _filled(buffer: _Buffer, values: Sequence[Any]) -> Any:
    flat = buffer.take(sum(each.size for each in values))
    for part, each in zip(split(flat, [each.shape for each in values]), values, strict=True):
        part[...] = each
    return flat
