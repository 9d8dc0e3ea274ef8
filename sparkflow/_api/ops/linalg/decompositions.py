"""Decompositions and functions of matrices."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "Cholesky",
        "cholesky linalg.cholesky",
        "input",
        "The lower triangular L with L L' = input, for positive definite [..., n, n] matrices.",
    ),
    Row(
        "MatrixExponential",
        "linalg.expm",
        "input",
        "The exponentials of matrices: I + A + A²/2! + A³/3! + ...",
    ),
    Row("MatrixLogarithm", "linalg.logm", "input", "The principal logarithms of complex matrices."),
    Row(
        "MatrixSquareRoot",
        "matrix_square_root linalg.sqrtm",
        "input",
        "The principal square roots of matrices.",
    ),
)
