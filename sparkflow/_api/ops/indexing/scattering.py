"""Slices set, added or compared where vectors of coordinates point."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "ScatterNd",
        "scatter_nd manip.scatter_nd",
        "indices, updates, shape",
        "Zeros of shape `shape` with the updates added where the vectors in `indices` point.",
        arguments={
            "indices": "[..., depth] integers.",
            "updates": "indices.shape[:-1] + shape[depth:].",
            "shape": "A vector of the type of `indices`.",
        },
    ),
    Row(
        "TensorScatterUpdate",
        "tensor_scatter_update tensor_scatter_nd_update",
        "tensor, indices, updates",
        "A copy of `tensor` with slices replaced, arguments as for `scatter_nd`.",
    ),
    Row(
        "TensorScatterAdd",
        "tensor_scatter_add tensor_scatter_nd_add",
        "tensor, indices, updates",
        "A copy of `tensor` with the updates added, arguments as for `scatter_nd`.",
    ),
    Row(
        "TensorScatterSub",
        "tensor_scatter_sub tensor_scatter_nd_sub",
        "tensor, indices, updates",
        "A copy of `tensor` with the updates subtracted, arguments as for `scatter_nd`.",
    ),
    Row(
        "TensorScatterMin",
        "tensor_scatter_min tensor_scatter_nd_min",
        "tensor, indices, updates",
        "A copy of `tensor` lowered to the updates, arguments as for `scatter_nd`.",
    ),
    Row(
        "TensorScatterMax",
        "tensor_scatter_max tensor_scatter_nd_max",
        "tensor, indices, updates",
        "A copy of `tensor` raised to the updates, arguments as for `scatter_nd`.",
    ),
)
