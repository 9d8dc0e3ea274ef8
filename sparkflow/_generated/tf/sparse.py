"""`tf.sparse`: sparse tensors under their newer names.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow.graph.values.sparse_tensor": "SparseTensor",
        "sparkflow.ops.indexing.segment": (
            "sparse_segment_mean:segment_mean sparse_segment_sqrt_n:segment_sqrt_n "
            "sparse_segment_sum:segment_sum"
        ),
        "sparkflow.ops.sparse.sparse_cross": "sparse_cross:cross sparse_cross_hashed:cross_hashed",
        "sparkflow.ops.sparse.sparse_layout": (
            "from_dense sparse_concat:concat sparse_expand_dims:expand_dims sparse_eye:eye "
            "sparse_fill_empty_rows:fill_empty_rows sparse_mask:mask sparse_merge:merge "
            "sparse_placeholder:placeholder sparse_reorder:reorder "
            "sparse_reset_shape:reset_shape sparse_reshape:reshape sparse_retain:retain "
            "sparse_slice:slice sparse_split:split sparse_tensor_to_dense:to_dense "
            "sparse_to_indicator:to_indicator sparse_transpose:transpose"
        ),
        "sparkflow.ops.sparse.sparse_math": (
            "sparse_add:add sparse_maximum:maximum sparse_minimum:minimum "
            "sparse_reduce_max:reduce_max sparse_reduce_max_sparse:reduce_max_sparse "
            "sparse_reduce_sum:reduce_sum sparse_reduce_sum_sparse:reduce_sum_sparse "
            "sparse_softmax:softmax sparse_tensor_dense_matmul:matmul "
            "sparse_tensor_dense_matmul:sparse_dense_matmul"
        ),
        "sparkflow.ops.state.accumulators": "SparseConditionalAccumulator",
    },
)
