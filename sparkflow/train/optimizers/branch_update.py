"""Updates inside a branch of `tf.cond`: replicas make them together, after the branch.

A branch runs in some replicas and not in others, and on one task. The gradients leave it, with
zeros from the branches without an update, and the strategy is told whether there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.graph.functions.function_graph import FunctionGraph
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control.afterwards import Afterwards
from sparkflow.ops.control.ordering import group
from sparkflow.ops.shape import arrays, constants

Pairs = Sequence[tuple[Any, Any]]


def left_by(
    branch: FunctionGraph,
    pairs: Pairs,
    condition: Tensor | None,
    update: Callable[[Pairs, Tensor], Operation],
) -> Operation:
    """Leaves an update to be made after a branch; what stands for it inside.

    Args:
        branch: The branch.
        pairs: Gradients (Tensors, IndexedSlices or None) with variables.
        condition: [] bool: whether it is to be made where the branch runs; always when None.
        update: Makes the update, of pairs outside the branch and whether it is to be made.
    """
    given = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    tensors = [each for gradient, _ in given for each in _tensors(gradient)]
    with branch.as_default():
        place = group(*tensors, name="left_for_later")
    if condition is not None:
        tensors.append(condition)

    def absent() -> list[Tensor]:
        zeros = [each for gradient, variable in given for each in _zeros(gradient, variable)]
        return zeros if condition is None else [*zeros, constants.constant(False)]

    def work(is_chosen: Tensor, outside: Sequence[Tensor]) -> Operation:
        rest = list(outside)
        holds = is_chosen if condition is None else rest.pop()
        found = []
        for gradient, variable in given:
            parts = [rest.pop(0) for _ in _tensors(gradient)]
            found.append((_like(gradient, variable, parts), variable))
        return update(found, holds)

    assert branch.afterwards is not None
    branch.afterwards.append(Afterwards(place, tensors, absent, work))
    return place


def _tensors(gradient: Any) -> tuple[Tensor, ...]:
    if isinstance(gradient, IndexedSlices):
        return gradient.values, gradient.indices
    return (gradient,)


def _zeros(gradient: Any, variable: Any) -> list[Tensor]:
    if isinstance(gradient, IndexedSlices):
        rows = [size or 0 for size in variable.shape.as_list()[1:]]
        values = constants.zeros([0, *rows], gradient.values.dtype.base)
        return [values, constants.zeros([0], gradient.indices.dtype.base)]
    dtype = gradient.dtype.base
    if variable.shape.is_fully_defined():
        return [constants.zeros(variable.shape.as_list(), dtype)]
    return [constants.zeros(arrays.shape(variable), dtype)]


def _like(gradient: Any, variable: Any, parts: Sequence[Tensor]) -> Any:
    if isinstance(gradient, IndexedSlices):
        values, indices = parts
        known = variable.shape.is_fully_defined()
        shape = constants.constant(variable.shape.as_list(), indices.dtype.base) if known else None
        return IndexedSlices(values, indices, shape)
    (value,) = parts
    value.set_shape(variable.shape)
    return value
