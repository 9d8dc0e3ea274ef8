"""Nested structures of tensors, as branches return them and loops carry them.

Lists, tuples, named tuples, dictionaries (by sorted key) and attrs classes nest; the leaves are
tensors and what consists of tensors: `IndexedSlices`, `SparseTensor`, `TensorArray`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tree

from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.control.ordering import with_dependencies
from sparkflow.ops.control.tensor_array import TensorArray

Rebuild = Callable[[Sequence[Tensor]], Any]


def tensors_of(structure: Any) -> tuple[list[Tensor], Rebuild]:
    """The tensors of a structure, and the function that makes an equal structure of others.

    Python values become constants, operations a tensor that waits for them.

    Raises:
        TypeError, ValueError: A leaf cannot be a tensor.
    """
    tensors: list[Tensor] = []
    rebuilds: list[tuple[int, Rebuild]] = []
    for leaf in tree.flatten(structure):
        parts, rebuild = _parts(leaf)
        tensors += parts
        rebuilds.append((len(parts), rebuild))

    def build(new: Sequence[Tensor]) -> Any:
        leaves, start = [], 0
        for count, rebuild in rebuilds:
            leaves.append(rebuild(new[start : start + count]))
            start += count
        return tree.unflatten_as(structure, leaves)

    return tensors, build


def _parts(leaf: Any) -> tuple[list[Tensor], Rebuild]:
    if isinstance(leaf, TensorArray):
        return [leaf.flow], lambda new: leaf._with_flow(new[0])
    if isinstance(leaf, IndexedSlices):
        parts = [leaf.values, leaf.indices]
        if leaf.dense_shape is not None:
            parts.append(leaf.dense_shape)
        return parts, lambda new: IndexedSlices(*new)
    if isinstance(leaf, SparseTensor):
        return [leaf.indices, leaf.values, leaf.dense_shape], lambda new: SparseTensor(*new)
    if isinstance(leaf, Operation):
        return [with_dependencies([leaf], convert_to_tensor(True))], lambda new: new[0]
    return [convert_to_tensor(leaf)], lambda new: new[0]


def require_same(expected: Any, given: Any) -> None:
    """Passes when two structures nest alike.

    Raises:
        TypeError: They have sequences of different types in the same place.
        ValueError: They nest differently.
    """
    tree.assert_same_structure(expected, given, check_types=False)
