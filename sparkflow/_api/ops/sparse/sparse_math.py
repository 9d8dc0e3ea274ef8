"""Arithmetic on sparse tensors: sums, products, reductions, softmax, distances."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "SparseMatMul",
        "sparse_matmul",
        (
            "a, b, transpose_a: bool = False, transpose_b: bool = False, a_is_sparse: bool = "
            "False, b_is_sparse: bool = False"
        ),
        "The product of two dense matrices of which one may be mostly zero.",
    ),
)
