"""Tensors as messages in signatures, and back."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import get_default_graph
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow_runtime.protos.meta_graph_pb2 import TensorInfo


def build_tensor_info(tensor: Any) -> TensorInfo:
    """The name, type and static shape of a tensor or sparse tensor.

    Args:
        tensor: A tensor, variable or `SparseTensor`.

    Raises:
        ValueError: It is none of these.
    """
    message = TensorInfo()
    if hasattr(tensor, "dense_shape"):
        message.coo_sparse.values_tensor_name = tensor.values.name
        message.coo_sparse.indices_tensor_name = tensor.indices.name
        message.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
        shape, dtype = tensor.get_shape(), tensor.dtype
    elif isinstance(tensor, Symbolic):
        found = tensor._as_graph_element()
        message.name = found.name
        shape, dtype = found.shape, found.dtype
    else:
        raise ValueError(f"A TensorInfo can be built of tensors only, got {tensor!r}")
    message.dtype = dtype.base.number
    message.tensor_shape.CopyFrom(TensorShape(shape).as_proto())
    return message


def get_tensor_from_tensor_info(
    tensor_info: TensorInfo, graph: Any = None, import_scope: str | None = None
) -> Any:
    """The tensor or sparse tensor that a message names.

    Args:
        tensor_info: The message.
        graph: Where to look it up; the default graph when None.
        import_scope: The name scope that the graph was imported into.

    Raises:
        KeyError: It is not in the graph.
        ValueError: The message names none.
    """
    graph = get_default_graph() if graph is None else graph
    prefix = f"{import_scope}/" if import_scope else ""

    def named(name: str) -> Any:
        return graph.get_tensor_by_name(prefix + name)

    encoding = tensor_info.WhichOneof("encoding")
    if encoding == "name":
        return named(tensor_info.name)
    if encoding == "coo_sparse":
        from sparkflow.graph.values.sparse_tensor import SparseTensor

        sparse = tensor_info.coo_sparse
        return SparseTensor(
            named(sparse.indices_tensor_name),
            named(sparse.values_tensor_name),
            named(sparse.dense_shape_tensor_name),
        )
    raise ValueError(f"Invalid TensorInfo.encoding: {encoding}")
