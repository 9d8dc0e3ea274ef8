"""Common shape rules: `infer = same_as(0)` in a class, instead of a method."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from sparkflow_runtime import shapes
from sparkflow_runtime.ops.op import Inference, Op
from sparkflow_runtime.ops.static import constant_shape
from sparkflow_runtime.shapes import Shape


def _count(op: Op, node: Inference) -> int:
    return len(op.signature.output_dtypes(node.attrs))


def scalars(op: Op, node: Inference) -> Sequence[Shape]:
    """Every output is a scalar."""
    return [shapes.SCALAR] * _count(op, node)


def unknown(op: Op, node: Inference) -> Sequence[Shape]:
    """Nothing is known about any output."""
    return [None] * _count(op, node)


def same_as_all(op: Op, node: Inference) -> Sequence[Shape]:
    """Every output has the shape of the input of that number."""
    return list(node.shapes)


def broadcast(op: Op, node: Inference) -> Sequence[Shape]:
    """The output has the shape to which numpy broadcasts the inputs."""
    return [functools.reduce(shapes.broadcast, node.shapes)]


def merged(op: Op, node: Inference) -> Sequence[Shape]:
    """The output has the shape that all inputs share."""
    return [functools.reduce(shapes.merge, node.shapes)]


def same_as(index: int, rank: int | None = None, name: str = "") -> Any:
    """The output has the shape of an input.

    Args:
        index: Number of the input.
        rank: Its required rank; None for any.
        name: Name of the input, for the error.
    """

    def infer(op: Op, node: Inference) -> Sequence[Shape]:
        return [node.shapes[index] if rank is None else node.with_rank(index, rank, name)]

    return infer


def value_of(index: int, name: str) -> Any:
    """The output has the shape that an input specifies.

    Args:
        index: Number of the input, a vector of sizes.
        name: Its name, for the error.
    """

    def infer(op: Op, node: Inference) -> Sequence[Shape]:
        return [constant_shape(node, index, name)]

    return infer


def attribute(name: str) -> Any:
    """The output has the shape, or the outputs the shapes, in an attribute."""

    def infer(op: Op, node: Inference) -> Sequence[Shape]:
        said = node.attrs[name]
        return list(said) if op.signature.attrs[name].kind.startswith("list(") else [said]

    return infer


def sizes(*dims: Shape) -> Any:
    """The outputs have these shapes."""

    def infer(op: Op, node: Inference) -> Sequence[Shape]:
        return list(dims)

    return infer


def one_per_element_read(op: Op, node: Inference, outputs: Sequence[Shape]) -> int:
    """As `float_operations`: one for every element of the first input."""
    return shapes.size(node.shapes[0])
