"""Tensors that a session keeps between steps, and handles to them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import as_dtype
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import scalars, unknown
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr

_CONTAINER = "session tensors"
_numbers = itertools.count()


class _Kept:
    """The tensors a session keeps, by handle. `_lock` guards `_items`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: dict[str, Array] = {}

    def add(self, handle: str, value: Array) -> None:
        with self._lock:
            self._items[handle] = value

    def get(self, handle: str, *, forget: bool = False) -> Array:
        with self._lock:
            found = self._items.pop(handle, None) if forget else self._items.get(handle)
        if found is None:
            raise InvalidArgumentError(
                message=f"The tensor with handle '{handle}' is not in the session store."
            )
        return found


def _kept(context: KernelContext) -> _Kept:
    return context.session.get_or_create(_CONTAINER, "all", _Kept, _Kept)


def _text(handle: Array) -> str:
    item: bytes = handle.item()
    return item.decode()


@register
class GetSessionHandle(Op):
    """Keeps a tensor for later steps of the session and returns a handle to it."""

    inputs = "value: T"
    outputs = "handle: string"
    attrs = {"T": type_attr()}
    stateful = True
    kernels = {"CPU": None}
    gradient = not_differentiable
    infer = scalars

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Keeps a copy."""
        kept, name, device = _kept(context), node.name, context.device_name

        def keep(value: Array) -> Array:
            handle = f"{name};{next(_numbers)};{device}"
            kept.add(handle, np.array(value))
            return np.array(handle.encode(), object)

        return keep


@register
class GetSessionTensor(Op):
    """The tensor that a handle refers to."""

    inputs = "handle: string"
    outputs = "value: dtype"
    attrs = {"dtype": type_attr()}
    stateful = True
    kernels = {"CPU": None}
    gradient = not_differentiable
    infer = unknown

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Looks it up."""
        kept, dtype = _kept(context), node.attrs["dtype"]

        def get(handle: Array) -> Array:
            value = kept.get(_text(handle))
            if as_dtype(value.dtype) is not dtype:
                raise InvalidArgumentError(
                    message=f"The tensor with handle '{_text(handle)}' is of type "
                    f"{as_dtype(value.dtype).name}, not {dtype.name}"
                )
            return value

        return get


@register
class DeleteSessionTensor(Op):
    """Deletes the tensor that a handle refers to."""

    inputs = "handle: string"
    stateful = True
    kernels = {"CPU": None}

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Forgets it."""
        kept = _kept(context)

        def delete(handle: Array) -> None:
            kept.get(_text(handle), forget=True)

        return delete
