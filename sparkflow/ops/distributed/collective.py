"""`collective_ops`: what several devices, or the sessions of several workers, do together.

Every rank builds the same call with the same `group_key` and `instance_key` on its own device. The
ranks are the devices of one graph, or else the first tasks of the job, each with a session of its
own. The names and errors are those of TensorFlow 1's `tensorflow/python/ops/collective_ops.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.scopes import convert_to_tensor, output_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType


def all_reduce(
    t: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    merge_op: str = "Add",
    final_op: str = "Id",
    subdiv_offsets: Sequence[int] = (0,),
    communication_hint: str = "auto",
    timeout: float = 0,
) -> Tensor:
    """The tensors of all ranks merged into one, bit for bit the same on every rank.

    Args:
        t: A tensor of numbers, of the same dtype and shape on every rank.
        group_size: How many ranks there are.
        group_key: The number of the group.
        instance_key: The number of this call, the same on every rank.
        merge_op: `Add`, `Mul`, `Min` or `Max`.
        final_op: `Id`, or `Div` for division by the number of ranks.
        subdiv_offsets: Has no effect.
        communication_hint: Has no effect.
        timeout: How many seconds to wait for other ranks; 0 for ten minutes.

    Raises:
        ValueError: There are less than two ranks.
    """
    _require_group("all_reduce", group_size)
    attrs = {
        "merge_op": merge_op,
        "final_op": final_op,
        "subdiv_offsets": list(subdiv_offsets),
    }
    return _collective(
        "CollectiveReduce",
        (t,),
        group_size,
        group_key,
        instance_key,
        communication_hint,
        timeout,
        **attrs,
    )


def all_gather(
    t: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str = "auto",
    timeout: float = 0,
) -> Tensor:
    """The tensors of all ranks one after another along the first axis, in the order of ranks.

    Args:
        t: A tensor of numbers of rank 1 or more; only the first axis may differ between ranks.
        group_size: See `all_reduce`, as the others.
        group_key: See `all_reduce`.
        instance_key: See `all_reduce`.
        communication_hint: Has no effect.
        timeout: See `all_reduce`.

    Raises:
        ValueError: There are less than two ranks.
    """
    _require_group("all_gather", group_size)
    return _collective(
        "CollectiveGather",
        (t,),
        group_size,
        group_key,
        instance_key,
        communication_hint,
        timeout,
        shape=[0],
    )


def broadcast_send(
    t: Any,
    shape: Any,
    dtype: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str = "auto",
    timeout: float = 0,
) -> Tensor:
    """Sends a tensor to all other ranks, which call `broadcast_recv`; returns that tensor.

    Args:
        t: The tensor.
        shape: Its shape.
        dtype: Its dtype.
        group_size: See `all_reduce`, as the others.
        group_key: See `all_reduce`.
        instance_key: See `all_reduce`.
        communication_hint: Has no effect.
        timeout: See `all_reduce`.

    Raises:
        ValueError: There are less than two ranks; the tensor has another shape or dtype.
    """
    _require_group("broadcast_send", group_size)
    tensor = convert_to_tensor(t)
    if tensor.shape.as_list() != TensorShape(shape).as_list():
        raise ValueError("Shape of broadcast_send tensor not equal to declared shape")
    if tensor.dtype.base is not dtypes.as_dtype(dtype):
        raise ValueError("Type of broadcast_send tensor not equal to declared type")
    return _collective(
        "CollectiveBcastSend",
        (tensor,),
        group_size,
        group_key,
        instance_key,
        communication_hint,
        timeout,
        shape=shape,
    )


def broadcast_recv(
    shape: Any,
    dtype: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str = "auto",
    timeout: float = 0,
) -> Tensor:
    """The tensor that another rank sends with `broadcast_send`.

    Args:
        shape: Its shape, in full.
        dtype: Its dtype.
        group_size: See `all_reduce`, as the others.
        group_key: See `all_reduce`.
        instance_key: See `all_reduce`.
        communication_hint: Has no effect.
        timeout: See `all_reduce`.

    Raises:
        ValueError: There are less than two ranks.
    """
    _require_group("broadcast_recv", group_size)
    element: DType = dtypes.as_dtype(dtype)
    return _collective(
        "CollectiveBcastRecv",
        (),
        group_size,
        group_key,
        instance_key,
        communication_hint,
        timeout,
        shape=shape,
        T=element,
    )


def _collective(
    op_type: str,
    inputs: Sequence[Any],
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str,
    timeout: float,
    **attrs: Any,
) -> Tensor:
    return output_of(
        op_type,
        *inputs,
        group_size=group_size,
        group_key=group_key,
        instance_key=instance_key,
        communication_hint=communication_hint.lower(),
        timeout_seconds=float(timeout),
        **attrs,
    )


def _require_group(name: str, group_size: int) -> None:
    if group_size <= 1:
        raise ValueError(f"Parameter group_size to {name} must be at least 2.")
