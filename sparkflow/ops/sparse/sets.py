"""Set operations on the rows of tensors."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op, convert_to_tensor, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor, SparseTensorValue, as_sparse

_SPARSE = (SparseTensor, SparseTensorValue)


@export("sets.set_size", "sets.size")
def set_size(a: Any, validate_indices: bool = True) -> Tensor:
    """Counts the distinct elements of each row (the last dimension) of a sparse tensor.

    Raises:
        TypeError: `a` is not a sparse tensor.
    """
    if not isinstance(a, _SPARSE):
        raise TypeError(f"Expected `SparseTensor`, got {type(a)}.")
    parts = _parts(as_sparse(a))
    return output_of("SetSize", *parts, validate_indices=validate_indices)


@export("sets.set_intersection", "sets.intersection")
def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Returns the elements that are in both rows, sparse and sorted."""
    return _combined(a, b, "intersection", validate_indices)


@export("sets.set_difference", "sets.difference")
def set_difference(
    a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True
) -> SparseTensor:
    """Returns the elements that are only in the row of `a` (or only in that of `b`)."""
    return _combined(a, b, "a-b" if aminusb else "b-a", validate_indices)


@export("sets.set_union", "sets.union")
def set_union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Returns the elements that are in either row."""
    return _combined(a, b, "union", validate_indices)


def _parts(sparse: SparseTensor) -> tuple[Tensor, Tensor, Tensor]:
    return sparse.indices, sparse.values, sparse.dense_shape


def _combined(a: Any, b: Any, operation: str, validate_indices: bool) -> SparseTensor:
    first, second = (
        as_sparse(each) if isinstance(each, _SPARSE) else convert_to_tensor(each) for each in (a, b)
    )
    if first.dtype.base is not second.dtype.base:
        raise TypeError(f"Types don't match, {first.dtype} vs {second.dtype}.")
    attrs: dict[str, Any] = {"set_operation": operation, "validate_indices": validate_indices}
    if isinstance(first, SparseTensor):
        if not isinstance(second, SparseTensor):
            swapped = {"a-b": "b-a", "b-a": "a-b"}.get(operation, operation)
            return _combined(second, first, swapped, validate_indices)
        parts = (*_parts(first), *_parts(second))
        return SparseTensor(*apply_op("SparseToSparseSetOperation", *parts, **attrs))
    if isinstance(second, SparseTensor):
        parts_of_one = (first, *_parts(second))
        return SparseTensor(*apply_op("DenseToSparseSetOperation", *parts_of_one, **attrs))
    return SparseTensor(*apply_op("DenseToDenseSetOperation", first, second, **attrs))
