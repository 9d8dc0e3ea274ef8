"""Inverses, determinants and linear systems."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "MatrixInverse",
        "matrix_inverse linalg.inv",
        "input, adjoint: bool = False",
        "The inverses of matrices, or of their adjoints.",
    ),
    Row(
        "MatrixDeterminant",
        "matrix_determinant linalg.det",
        "input",
        "The determinants of matrices.",
    ),
    Row(
        "LogMatrixDeterminant",
        "linalg.slogdet",
        "input",
        "(sign, log_abs_determinant) of matrices.",
        result="Any",
    ),
    Row(
        "MatrixSolve",
        "matrix_solve linalg.solve",
        "matrix, rhs, adjoint: bool = False",
        "x with `matrix x = rhs`, or with the adjoint of the matrix.",
        arguments={
            "matrix": "[..., n, n].",
            "rhs": "[..., n, k].",
            "adjoint": "Solve with the adjoint.",
        },
    ),
    Row(
        "MatrixTriangularSolve",
        "matrix_triangular_solve linalg.triangular_solve",
        "matrix, rhs, lower: bool = True, adjoint: bool = False",
        "x with `matrix x = rhs`, reading only the lower (or upper) triangle of the matrix.",
    ),
)
