"""The arguments that describe the components of a queue's elements, made regular."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow_runtime.dtypes import DType, as_dtype


def type_list(dtypes: Any) -> list[DType]:
    """One dtype, or several, as a list."""
    if isinstance(dtypes, list | tuple):
        return [as_dtype(dtype).base for dtype in dtypes]
    return [as_dtype(dtypes).base]


def shape_list(
    shapes: Any, unknown_dim_allowed: bool = False, unknown_rank_allowed: bool = False
) -> list[TensorShape] | None:
    """One shape, or several, as a list; None for None.

    Raises:
        TypeError: It is neither.
        ValueError: A shape is less known than it must be.
    """
    if shapes is None:
        return None
    if isinstance(shapes, TensorShape):
        shapes = [shapes]
    if not isinstance(shapes, list | tuple):
        raise TypeError("shapes must be a TensorShape or a list or tuple of TensorShapes.")
    if all(isinstance(size, int) for size in shapes):
        shapes = [shapes]
    found = [TensorShape(shape) for shape in shapes]
    if not unknown_dim_allowed and not all(shape.is_fully_defined() for shape in found):
        raise ValueError(f"All shapes must be fully defined: {shapes}")
    if not unknown_rank_allowed and any(shape.ndims is None for shape in found):
        raise ValueError(f"All shapes must have a defined rank: {shapes}")
    return found


def name_list(names: Any, dtypes: Sequence[DType]) -> list[str] | None:
    """One name, or several, as a list; None for None.

    Raises:
        ValueError: There are not as many as dtypes.
    """
    if names is None:
        return None
    found = list(names) if isinstance(names, list | tuple) else [names]
    if len(found) != len(dtypes):
        raise ValueError("List of names must have the same length as the list of dtypes")
    return found


def shape_attr(shapes: Sequence[TensorShape] | None) -> list[Any]:
    """Shapes as the attribute of an op: none where they are not given."""
    return [] if shapes is None else [shape.as_tuple() for shape in shapes]
