"""Norms of vectors and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.elementwise import pow, sqrt
from sparkflow.ops.reduction import reduction
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays

_MATRIX = ("fro", "euclidean", 1, 2, np.inf)
_VECTOR = ("euclidean", 1, 2, np.inf)


@export("norm", "linalg.norm")
def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The norm of vectors, of matrices, or of all elements.

    Args:
        tensor: Any numbers; the euclidean norm of complex ones is complex.
        ord: For vectors `euclidean`, any number >= 1 or infinity; for matrices `euclidean` or
            `fro`, 1 (largest column sum), infinity (largest row sum) or 2 (largest singular value).
        axis: The axis of the vectors, a pair of axes of the matrices, or None for everything.
        keepdims: Leaves sizes of 1.
        name: Name of the scope.
        keep_dims: Old name of `keepdims`.

    Raises:
        ValueError: Another `ord`, or no axis or pair of axes.
    """
    keep = bool(either("keepdims", keepdims, "keep_dims", keep_dims))
    is_matrix = isinstance(axis, tuple | list | np.ndarray) and len(axis) == 2
    if is_matrix:
        axis = tuple(int(each) for each in axis)
        if axis[0] == axis[1]:
            raise ValueError(
                f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}"
            )
        if ord not in _MATRIX:
            raise ValueError(f"'ord' must be a supported matrix norm in {_MATRIX}, got {ord!r}")
    else:
        if not (axis is None or isinstance(axis, int | np.integer)):
            raise ValueError("'axis' must be None, an integer, or a tuple of 2 unique integers")
        supported = ord in _VECTOR if isinstance(ord, str) else np.isreal(ord) and ord > 0
        if not supported:
            raise ValueError(f"'ord' must be a supported vector norm, got {ord!r}")
    graph = graph_of((tensor,))
    with graph.as_default(), graph.name_scope(name or "norm"):
        value = convert_to_tensor(tensor, name="tensor")
        if is_matrix and ord == 2:
            return _spectral(value, axis, keep)
        if ord in ("fro", "euclidean", 2):
            conjugate = apply_op("Conj", value) if value.dtype.is_complex else value
            total = reduction.reduce_sum(value * conjugate, axis, keepdims=keep)
            return sqrt(total)
        sizes = _magnitude(value)
        if not is_matrix:
            return _vector_norm(sizes, ord, axis, keep)
        inner, outer = (axis[0], axis[1]) if ord == 1 else (axis[1], axis[0])
        sums = reduction.reduce_sum(sizes, inner, keepdims=True)
        largest = reduction.reduce_max(sums, outer, keepdims=True)
        return largest if keep else arrays.squeeze(largest, list(axis))


@export("linalg.normalize")
def normalize(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """(tensor divided by its norm, the norm with sizes of 1), arguments as for `norm`."""
    graph = graph_of((tensor,))
    with graph.as_default(), graph.name_scope(name or "normalize"):
        value = convert_to_tensor(tensor)
        size = norm(value, ord, axis, keepdims=True)
        if size.dtype.base is not value.dtype.base:
            size = apply_op("Cast", size, DstT=value.dtype.base)
        return value / size, size


def _real(value: Tensor) -> Tensor:
    if not value.dtype.is_complex:
        return value
    kind = "float32" if value.dtype.name == "complex64" else "float64"
    return output_of("Real", value, Tout=kind)


def _magnitude(value: Tensor) -> Tensor:
    if not value.dtype.is_complex:
        return abs(value)
    kind = "float32" if value.dtype.name == "complex64" else "float64"
    return output_of("ComplexAbs", value, Tout=kind)


def _vector_norm(sizes: Tensor, ord: Any, axis: Any, keep: bool) -> Tensor:
    if ord == np.inf:
        return reduction.reduce_max(sizes, axis, keepdims=keep)
    if ord == 1:
        return reduction.reduce_sum(sizes, axis, keepdims=keep)
    powers = reduction.reduce_sum(pow(sizes, ord), axis, keepdims=keep)
    return pow(powers, 1.0 / ord)


def _spectral(value: Tensor, axis: tuple[int, int], keep: bool) -> Tensor:
    rank = value.shape.ndims
    first: Any
    second: Any
    order: Any
    if rank is None:
        places = apply_op("FloorMod", np.array(axis, np.int32), arrays.rank(value))
        rest = apply_op("ListDiff", apply_op("Range", 0, arrays.rank(value), 1), places)[0]
        order = arrays.concat([rest, places], 0)
        first, second = reduction.reduce_min(places), reduction.reduce_max(places)
    else:
        ends = [each % rank for each in axis]
        order = [*(i for i in range(rank) if i not in ends), *ends]
        first, second = sorted(ends)
    s = _real(apply_op("Svd", arrays.transpose(value, order), compute_uv=False)[0])
    largest = reduction.reduce_max(s, -1)
    if keep:
        for each in (first, second):
            largest = arrays.expand_dims(largest, each)
    return largest
