"""Collectives of tensors on GPUs: by NCCL if possible, else through the host.

NCCL is used if all ranks are GPUs, for sums, means and broadcasts of the dtypes it supports. The
ranks still do a handshake first, so that differing graphs are detected before any GPU waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.device import gpu_collectives
from sparkflow_runtime.device.gpu_collectives import GpuCommunicator
from sparkflow_runtime.errors import InternalError
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, NodeView
from sparkflow_runtime.resources.collectives import collective_exchange as collective
from sparkflow_runtime.resources.collectives.collective_exchange import Exchange, Group
from sparkflow_runtime.resources.collectives.collective_runs import Work

Begin = Callable[..., Work]


def bind_on_gpu(
    node: NodeView, context: KernelContext, group: Group, begin_on_host: Begin
) -> tuple[Begin, Callable[[], None] | None]:
    """Returns functions that start a run with GPU arrays, and end it if it fails.

    Args:
        node: The start node.
        context: The kernel context of the GPU.
        group: The ranks.
        begin_on_host: The start function for host arrays.
    """
    communicator = _communicator(context, group) if _suits_nccl(node, group) else None
    if communicator is not None:
        make = _broadcast if node.attrs["kind"] == "CollectiveBroadcast" else _merge
        return make(node, context, communicator), communicator.abort
    to_host = context.xp.asnumpy
    return lambda *tensors: begin_on_host(*[to_host(each) for each in tensors]), None


def split(flat: Any, parts: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
    """Views of a flat array in these shapes, one after another."""
    views, start = [], 0
    for shape in parts:
        stop = start + int(np.prod(shape))
        views.append(flat[start:stop].reshape(shape))
        start = stop
    return tuple(views)


def _suits_nccl(node: NodeView, group: Group) -> bool:
    kind, dtype = node.attrs["kind"], node.attrs["Tin"][-1:]
    if not all("/device:GPU:" in device for device in group.devices):
        return False
    if kind not in ("CollectiveReduce", "CollectiveWeightedMean", "CollectiveBroadcast"):
        return False
    divides_integers = node.attrs["final_op"] == "Div" and not dtype[0].is_floating
    return gpu_collectives.supports(dtype[0].as_numpy_dtype) and not divides_integers


def _communicator(context: KernelContext, group: Group) -> GpuCommunicator | None:
    """The session's communicator of this rank; None without NCCL."""
    nccl, gpu = gpu_collectives.bindings(context.xp), context.gpu
    if nccl is None or gpu is None:
        return None
    return context.session.get_or_create(
        "",
        f"nccl/{group.key}/{group.rank}",
        GpuCommunicator,
        lambda: GpuCommunicator(gpu.cupy, nccl, gpu.index),
    )


def _merge(node: NodeView, context: KernelContext, communicator: GpuCommunicator) -> Begin:
    is_mean = node.attrs["kind"] == "CollectiveWeightedMean"
    op, divides = node.attrs["merge_op"], node.attrs["final_op"] == "Div"

    def begin(*tensors: Array) -> Work:
        ticket = communicator.ticket()
        weight, values = (tensors[0], tensors[1:]) if is_mean else (None, tensors)
        flat, ready = _packed(context.xp, values)

        def work(exchange: Exchange) -> tuple[Any, ...]:
            group = exchange.group
            with communicator.turn(ticket):
                ready.synchronize()
                own = 1.0 if weight is None else float(context.xp.asnumpy(weight))
                text = f"NCCL run {ticket}: {op} {'mean ' * is_mean}{flat.dtype} [{flat.size}]"
                weights, _ = collective.greet(exchange, text, own)
                scale = collective.shares_of(exchange, weights)[group.rank] if is_mean else None
                _connect(exchange, communicator)
                divisor = group.size if divides else 1
                communicator.all_reduce(flat, op, ready, scale, divisor)
            return split(flat, [each.shape for each in values])

        return work

    return begin


def _broadcast(node: NodeView, context: KernelContext, communicator: GpuCommunicator) -> Begin:
    root = node.attrs["root"]

    def begin(*values: Array) -> Work:
        ticket = communicator.ticket()
        flat, ready = _packed(context.xp, values)

        def work(exchange: Exchange) -> tuple[Any, ...]:
            with communicator.turn(ticket):
                text = f"NCCL run {ticket}: broadcast of {root}, {flat.dtype} [{flat.size}]"
                collective.greet(exchange, text)
                _connect(exchange, communicator)
                communicator.broadcast(flat, root, ready)
            return split(flat, [each.shape for each in values])

        return work

    return begin


def _packed(xp: Any, values: Sequence[Array]) -> tuple[Any, Any]:
    """The values in one array, and an event that signals their arrival."""
    flat = xp.empty((sum(each.size for each in values),), values[0].dtype)
    start = 0
    for each in values:
        flat[start : start + each.size] = each.reshape(-1)
        start += each.size
    ready = xp.cuda.Event(disable_timing=True)
    ready.record(xp.cuda.get_current_stream())
    return flat, ready


def _connect(exchange: Exchange, communicator: GpuCommunicator) -> None:
    group = exchange.group

    def exchange_id(made: Any) -> Any:
        if made is not None:
            exchange.send(group.others, "nccl", (made,))
            return made
        message = exchange.receive(0, "nccl")
        if len(message) != 1:
            raise InternalError(message=f"{exchange.title}: {len(message)} identifiers of NCCL")
        return np.asarray(message[0])

    communicator.connect(group.size, group.rank, exchange_id)
