"""Tensors that stay in the session's runtime between runs, and the handles that name them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op, device, get_default_graph, name_scope, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType, as_dtype


class TensorHandle:
    """The fetched value of `get_session_handle(tensor)`: a tensor that the session keeps.

    Args:
        handle: The name the runtime gave it.
        dtype: The tensor's dtype.
        session: The session that keeps it.
    """

    def __init__(self, handle: bytes, dtype: DType, session: Any) -> None:
        self._handle = handle.decode()
        self.dtype = dtype
        self._session = session

    @property
    def handle(self) -> str:
        """The name the runtime gave it, to be fed to what `get_session_tensor` returns."""
        return self._handle

    def get_raw_handle(self) -> str:
        """The same name; the session goes on keeping the tensor."""
        return self._handle

    def eval(self) -> Any:
        """The tensor's value.

        Raises:
            InvalidArgumentError: It was deleted.
        """
        holder, tensor = get_session_tensor(self._handle, self.dtype)
        return self._session.run(tensor, {holder: self._handle})

    def to_numpy_array(self) -> np.ndarray[Any, Any]:
        """The tensor's value as an array."""
        return np.asarray(self.eval())

    def delete(self) -> None:
        """Removes the tensor from the session.

        Raises:
            InvalidArgumentError: It was deleted before.
        """
        holder, deleter = delete_session_tensor(self._handle)
        self._session.run(deleter, {holder: self._handle})

    def __str__(self) -> str:
        return self._handle

    def __repr__(self) -> str:
        return f"<TensorHandle {self._handle!r} dtype={self.dtype.name}>"


@export("get_session_handle")
def get_session_handle(data: Any, name: str | None = None) -> Tensor:
    """A tensor that, when fetched, keeps `data` in the session and returns a `TensorHandle`.

    Args:
        data: The tensor to keep.
        name: Name of the node.
    """
    return output_of("GetSessionHandle", data, name=name)


@export("get_session_tensor")
def get_session_tensor(handle: str, dtype: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The tensor a handle stands for, as a node.

    Args:
        handle: A handle's name; the node is put on the device it names.
        dtype: The tensor's dtype.
        name: Name of the node.

    Returns:
        A string placeholder to feed a handle to, and the tensor.
    """
    holder = _holder(handle)
    with device(_device_of(handle)):
        return holder, apply_op("GetSessionTensor", holder, dtype=as_dtype(dtype), name=name)


@export("delete_session_tensor")
def delete_session_tensor(handle: str, name: str | None = None) -> tuple[Tensor, Any]:
    """A node that forgets what a handle stands for.

    Args:
        handle: A handle's name; the node is put on the device it names.
        name: Name of the node.

    Returns:
        A string placeholder to feed a handle to, and the operation.
    """
    holder = _holder(handle)
    with device(_device_of(handle)):
        return holder, apply_op("DeleteSessionTensor", holder, name=name)


def _holder(handle: str) -> Tensor:
    from sparkflow.ops.shape.constants import placeholder

    with get_default_graph().as_default(), name_scope("session_tensor"):
        return placeholder(dtypes.string, shape=())


def _device_of(handle: str) -> str:
    return handle.rpartition(";")[2]


def is_kept(tensor: Tensor) -> bool:
    """Whether fetching it gives a `TensorHandle`: the session keeps the value."""
    return tensor.op.type == "GetSessionHandle"
