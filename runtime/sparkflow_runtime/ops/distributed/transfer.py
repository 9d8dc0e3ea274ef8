"""The ops that a master adds: feeds, fetches, and the ends of edges between partitions.

One `_SendBundle` sends everything that crosses from one device to another at the same point of a
step, `_RecvBundle` receives it. They replace TensorFlow's `_Send` and `_Recv`, of which there is
one pair per tensor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.errors import InternalError, InvalidArgumentError
from sparkflow_runtime.once import once
from sparkflow_runtime.ops.inference import attribute
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import NETWORK, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import (
    bool_attr,
    int_attr,
    list_attr,
    shape_attr,
    string_attr,
    type_attr,
)
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Shape


@register
class Arg(Op):
    """A fed tensor: argument `index` of the step. The compiler reads it from its parameters."""

    quiet = True
    capturable = True
    type = "_Arg"
    outputs = "output: T"
    attrs = {"T": type_attr(), "index": int_attr(minimum=0), "shape": shape_attr(None)}
    stateful = True
    infer = attribute("shape")

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Moves the fed host array to the device."""
        xp = context.xp
        return _same if xp is np else xp.asarray


@register
class Retval(Op):
    """A fetched tensor: result `index` of the step, on the host.

    It is a copy, unless `live`: then it is the memory of a variable, which is sent out of the
    process at once (see `passes.lend.live_results`).
    """

    quiet = True
    capturable = True
    type = "_Retval"
    inputs = "input: T"
    attrs = {"T": type_attr(), "index": int_attr(minimum=0), "live": bool_attr(False)}
    stateful = True

    def lends(self, node: NodeView) -> Sequence[int]:
        """Its input if it is `live`."""
        return (0,) if node.attrs.get("live") else ()

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Copies, so that a fetched value does not alias a live buffer."""
        if node.attrs.get("live") and context.xp is np:
            return _same
        return fetched if context.xp is np else context.xp.asnumpy


@register
class SendBundle(Op):
    """Passes tensors to the rendezvous under `key`; never blocks.

    The attributes `key` and `destination` (a device name) are set by the partition pass, `lent`
    (the numbers of tensors that the receiver may read in place) by `passes.lend`.
    """

    type = "_SendBundle"
    reaches = frozenset({NETWORK})
    inputs = "tensors: T"
    attrs = {
        "T": list_attr("type"),
        "key": string_attr(),
        "destination": string_attr(),
        "lent": list_attr("int", []),
    }
    stateful = True
    keeps_inputs = False
    takes_step = True

    def lends(self, node: NodeView) -> Sequence[int]:
        """The inputs that are `lent`."""
        lent: Sequence[int] = node.attrs["lent"]
        return lent

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Sends host copies."""
        key, destination = node.attrs["key"], node.attrs["destination"]
        lent = tuple(node.attrs["lent"])
        if context.xp is np:

            def send(step: StepContext, *values: Any) -> None:
                step.send(key, destination, values, lent)

            return send
        to_host = context.xp.asnumpy

        def send_copies(step: StepContext, *values: Any) -> None:
            step.send(key, destination, tuple([to_host(value) for value in values]))

        return send_copies


@register
class RecvBundle(Op):
    """Waits for the tensors that a `_SendBundle` on the device `source` sent under `key`.

    Attribute `behind`: the names of the ops there that may block before it, see `ir.strands`;
    `shapes`: the required shapes of the tensors, None for any shape, empty if there are no
    requirements.
    """

    type = "_RecvBundle"
    reaches = frozenset({NETWORK})
    outputs = "tensors: T"
    attrs = {
        "T": list_attr("type"),
        "key": string_attr(),
        "source": string_attr(),
        "lent": list_attr("int", []),
        "behind": list_attr("string", []),
        "shapes": list_attr("shape", []),
    }
    stateful = True
    takes_step = True

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The attribute `shapes`."""
        return list(node.attrs.get("shapes") or [None] * len(node.attrs["T"]))

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Receives the arrays and moves them to the device."""
        key, source, count = node.attrs["key"], node.attrs["source"], len(node.attrs["T"])
        from_host = _same if context.xp is np else context.xp.asarray
        given = enumerate(node.attrs.get("shapes", ()))
        wanted = [(slot, shape) for slot, shape in given if shape is not None]

        def receive(step: StepContext) -> tuple[Any, ...]:
            values = step.receive(key, source)
            if len(values) != count:
                raise InternalError(
                    message=f"Bundle {key} carries {len(values)} tensors, expected {count}"
                )
            for slot, shape in wanted:
                found = np.shape(values[slot])
                if found != shape:
                    raise InvalidArgumentError(
                        message=f"Tensor {slot} of bundle {key} from {source} has the shape "
                        f"{bracketed(found)}, the graph says {bracketed(shape)}"
                    )
            return values if from_host is _same else tuple([from_host(each) for each in values])

        return receive


def _same(value: Any) -> Any:
    return value


def fetched(value: Any) -> Any:
    """Returns a value for the client: numpy scalars unchanged, arrays as copies."""
    if isinstance(value, np.ndarray):
        if not value.ndim:
            return value[()]
        if value.flags.c_contiguous:
            return value.copy()
        from sparkflow_runtime.ops.kernels.transposing import contiguous  # views are rarely fetched

        return contiguous(value)
    if isinstance(value, np.generic):
        return value
    return np.asarray(value)[()]


def handed_over(value: Any) -> Any:
    """As `fetched`, for a local variable that is not read again: its array needs no copy.

    Unless something else refers to the array's memory; what does, has a reference to the array.
    """
    if type(value) is np.ndarray and value.ndim and value.flags.carray:
        of_value, of_base = _references()
        if sys.getrefcount(value) == of_value:
            base = value.base
            if base is None:
                if value.flags.owndata:
                    return value
            elif (
                type(base) is np.ndarray
                and base.nbytes == value.nbytes
                and base.flags.owndata
                and sys.getrefcount(base) == of_base
            ):
                return value
    return fetched(value)


@once
def _references() -> tuple[int, int]:
    """The counts of references in `handed_over`, which differ between versions of Python."""

    def count(value: Any) -> tuple[int, int]:
        base = value.base
        return sys.getrefcount(value), sys.getrefcount(base)

    local = np.zeros(2).reshape(2, 1)
    return count(local)
