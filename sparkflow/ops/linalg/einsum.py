"""Einstein summation."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from sparkflow._api import export
from sparkflow.graph.scopes import convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor

_SIDE = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


@export("einsum", "linalg.einsum")
def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """The sum of products of tensors whose dimensions are named by letters.

    Args:
        equation: As for `numpy.einsum`: `ij,jk->ik`; without an arrow the output has the labels
            that appear once, in alphabetical order; `...` stands for any dimensions.
        *inputs: One tensor for each part before the arrow.
        **kwargs: `name`, the name of the node; `optimize` is accepted.

    Raises:
        TypeError: Another keyword.
        ValueError: The equation cannot be read, or does not fit the inputs.
    """
    name = kwargs.pop("name", None)
    kwargs.pop("optimize", None)
    if kwargs:
        raise TypeError(
            f"Invalid keyword arguments for this function: {', '.join(sorted(kwargs))}. "
            "Expected: name."
        )
    resolved = _resolved(equation, len(inputs))
    graph = graph_of(inputs)
    with graph.as_default(), graph.name_scope(name or "einsum"):
        tensors = [convert_to_tensor(each, name="tensor") for each in inputs]
        _check_ranks(resolved, tensors)
        return output_of("Einsum", tensors, equation=resolved)


def _resolved(equation: str, count: int) -> str:
    """The equation without blanks and with its output spelled out."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if not all(_SIDE.fullmatch(part) for part in [*parts, right]):
        raise ValueError(f"Indices have incorrect format: {equation}")
    if len(parts) != count:
        raise ValueError(
            f'Expected {len(parts)} arguments for equation "{equation}", but got {count}'
        )
    labels = left.replace(".", "").replace(",", "")
    if not arrow:
        counts = Counter(labels)
        once = "".join(sorted(label for label in counts if counts[label] == 1))
        right = ("..." if "..." in left else "") + once
    unknown = [label for label in right.replace(".", "") if label not in labels]
    if unknown:
        raise ValueError(f"Unknown ax{'e' if len(unknown) > 1 else 'i'}s: {''.join(unknown)}")
    return f"{left}->{right}"


def _check_ranks(equation: str, tensors: list[Tensor]) -> None:
    for part, tensor in zip(equation.partition("->")[0].split(","), tensors, strict=True):
        rank = tensor.shape.ndims
        labels = len(part.replace(".", ""))
        if rank is not None and (rank < labels or ("." not in part and rank != labels)):
            raise ValueError(
                f"Unable to calculate einsum: {part!r} names {labels} dimensions, but the tensor "
                f"has shape {tensor.shape}"
            )
