"""`tf.linalg`: linear algebra under its newer names.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow._generated.ops.indexing.reordering": "cross",
        "sparkflow._generated.ops.linalg.decompositions": "cholesky expm logm matrix_square_root:sqrtm",
        "sparkflow._generated.ops.linalg.diagonals": (
            "diag:tensor_diag diag_part:tensor_diag_part matrix_band_part:band_part "
            "matrix_set_diag:set_diag"
        ),
        "sparkflow._generated.ops.linalg.linear_systems": (
            "matrix_determinant:det matrix_inverse:inv matrix_solve:solve "
            "matrix_triangular_solve:triangular_solve slogdet"
        ),
        "sparkflow.ops.linalg.decompositions": (
            "lu lu_matrix_inverse lu_reconstruct lu_solve matrix_rank pinv qr "
            "self_adjoint_eig:eigh self_adjoint_eigvals:eigvalsh svd"
        ),
        "sparkflow.ops.linalg.diagonals": (
            "adjoint matrix_diag:diag matrix_diag_part:diag_part matrix_transpose "
            "matrix_transpose:transpose trace"
        ),
        "sparkflow.ops.linalg.einsum": "einsum",
        "sparkflow.ops.linalg.linalg": "eye matmul matvec tensordot",
        "sparkflow.ops.linalg.linear_systems": "cholesky_solve logdet matrix_solve_ls:lstsq tridiagonal_matmul tridiagonal_solve",
        "sparkflow.ops.nn.normalization": "l2_normalize",
        "sparkflow.ops.reduction.clip": "global_norm",
        "sparkflow.ops.reduction.norms": "norm normalize",
    },
)
