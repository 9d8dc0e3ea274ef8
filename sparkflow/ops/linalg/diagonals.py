"""Diagonals, bands, transposes and traces of the matrices in the last two dimensions."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.linalg.diagonals import *  # noqa: F403
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, operand, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.reduction import reduction
from sparkflow.ops.shape import arrays


@export("matrix_diag", "linalg.diag")
def matrix_diag(
    diagonal: Any,
    name: str = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with the given diagonals.

    Args:
        diagonal: [..., length], or [..., diagonals, longest] for several.
        name: Name of the node.
        k: The number of the diagonal, above 0 for those above the main one; or (lowest, highest).
        num_rows: How many rows, -1 for as few as fit.
        num_cols: How many columns, -1 for as few as fit.
        padding_value: What is elsewhere.
        align: On which side shorter diagonals lie, above and below the main one.
    """
    graph = graph_of((diagonal, k, num_rows, num_cols, padding_value))
    with graph.as_default():
        tensor, node = operand(diagonal, "diagonal", name)
        padding = _padding(padding_value, diagonal, tensor)
        values = (tensor, k, num_rows, num_cols, padding)
        return output_of("MatrixDiagV3", *values, align=align, name=node)


@export("matrix_diag_part", "linalg.diag_part")
def matrix_diag_part(
    input: Any,
    name: str = "diag_part",
    k: Any = 0,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """The diagonals of matrices, arguments as for `matrix_diag`."""
    graph = graph_of((input, k, padding_value))
    with graph.as_default():
        tensor, node = operand(input, "input", name)
        values = (tensor, k, _padding(padding_value, input, tensor))
        return output_of("MatrixDiagPartV3", *values, align=align, name=node)


def _padding(value: Any, given: Any, like: Tensor) -> Any:
    """`value` as the op is to take it: the number 0 beside bools means False."""
    return bool(value) if hasattr(given, "dtype") and like.dtype.is_bool else value


@export("matrix_transpose", "linalg.matrix_transpose", "linalg.transpose")
def matrix_transpose(a: Any, name: str = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """The last two dimensions exchanged.

    Raises:
        ValueError: Fewer than two dimensions.
    """
    graph = graph_of((a,))
    with graph.as_default(), graph.name_scope(name):
        tensor = convert_to_tensor(a, name="a")
        rank = tensor.shape.ndims
        if rank is None:
            found = apply_op("Rank", tensor)
            head = apply_op("Range", 0, found - 2, 1)
            order: Any = arrays.concat([head, [found - 1, found - 2]], 0)
        elif rank < 2:
            raise ValueError(
                f"Argument 'a' should be a (batch) matrix, with rank >= 2.  Found: {tensor.shape}"
            )
        else:
            order = [*range(rank - 2), rank - 1, rank - 2]
        return arrays.transpose(tensor, order, conjugate=conjugate)


@export("linalg.adjoint")
def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """The transposed and conjugated matrices."""
    graph = graph_of((matrix,))
    with graph.as_default(), graph.name_scope(name or "adjoint"):
        return matrix_transpose(convert_to_tensor(matrix, name="matrix"), conjugate=True)


@export("trace", "linalg.trace")
def trace(x: Any, name: str | None = None) -> Tensor:
    """The sums along the main diagonals of matrices."""
    graph = graph_of((x,))
    with graph.as_default(), graph.name_scope(name or "Trace") as scope:
        matrix = convert_to_tensor(x, name="x")
        return reduction.reduce_sum(matrix_diag_part(matrix), [-1], name=scope)
