"""Diagonals, bands, transposes and traces of the matrices in the last two dimensions."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "Diag",
        "diag linalg.tensor_diag",
        "diagonal",
        "A tensor of twice the rank with `diagonal` on its diagonal and 0 elsewhere.",
    ),
    Row(
        "DiagPart",
        "diag_part linalg.tensor_diag_part",
        "input",
        "The diagonal of a tensor whose shape is some shape twice.",
    ),
    Row(
        "MatrixSetDiagV3",
        "matrix_set_diag linalg.set_diag",
        'input, diagonal, name: str = "set_diag", k=0, align: str = "RIGHT_LEFT"',
        "The matrices `input` with other diagonals, arguments as for `matrix_diag`.",
    ),
    Row(
        "MatrixBandPart",
        "matrix_band_part linalg.band_part",
        "input, num_lower, num_upper",
        (
            "The matrices with zeros outside a band of `num_lower` and `num_upper` diagonals "
            "(-1: all)."
        ),
    ),
)
