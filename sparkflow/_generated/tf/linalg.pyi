"""`tf.linalg`: linear algebra under its newer names.

Made by `scripts/generate_api.py`.
"""

from sparkflow._generated.ops.indexing.reordering import cross
from sparkflow._generated.ops.linalg.decompositions import (
    cholesky,
    expm,
    logm,
    matrix_square_root as sqrtm,
)
from sparkflow._generated.ops.linalg.diagonals import (
    diag as tensor_diag,
    diag_part as tensor_diag_part,
    matrix_band_part as band_part,
    matrix_set_diag as set_diag,
)
from sparkflow._generated.ops.linalg.linear_systems import (
    matrix_determinant as det,
    matrix_inverse as inv,
    matrix_solve as solve,
    matrix_triangular_solve as triangular_solve,
    slogdet,
)
from sparkflow.ops.linalg.decompositions import (
    lu,
    lu_matrix_inverse,
    lu_reconstruct,
    lu_solve,
    matrix_rank,
    pinv,
    qr,
    self_adjoint_eig as eigh,
    self_adjoint_eigvals as eigvalsh,
    svd,
)
from sparkflow.ops.linalg.diagonals import (
    adjoint,
    matrix_diag as diag,
    matrix_diag_part as diag_part,
    matrix_transpose,
    matrix_transpose as transpose,
    trace,
)
from sparkflow.ops.linalg.einsum import einsum
from sparkflow.ops.linalg.linalg import eye, matmul, matvec, tensordot
from sparkflow.ops.linalg.linear_systems import (
    cholesky_solve,
    logdet,
    matrix_solve_ls as lstsq,
    tridiagonal_matmul,
    tridiagonal_solve,
)
from sparkflow.ops.nn.normalization import l2_normalize
from sparkflow.ops.reduction.clip import global_norm
from sparkflow.ops.reduction.norms import norm, normalize

__all__ = [
    "adjoint",
    "band_part",
    "cholesky",
    "cholesky_solve",
    "cross",
    "det",
    "diag",
    "diag_part",
    "eigh",
    "eigvalsh",
    "einsum",
    "expm",
    "eye",
    "global_norm",
    "inv",
    "l2_normalize",
    "logdet",
    "logm",
    "lstsq",
    "lu",
    "lu_matrix_inverse",
    "lu_reconstruct",
    "lu_solve",
    "matmul",
    "matrix_rank",
    "matrix_transpose",
    "matvec",
    "norm",
    "normalize",
    "pinv",
    "qr",
    "set_diag",
    "slogdet",
    "solve",
    "sqrtm",
    "svd",
    "tensor_diag",
    "tensor_diag_part",
    "tensordot",
    "trace",
    "transpose",
    "triangular_solve",
    "tridiagonal_matmul",
    "tridiagonal_solve",
]
