"""Special functions: gamma, beta, error, zeta and Bessel functions, and integrals."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.elementwise.special import *  # noqa: F403
from sparkflow._generated.ops.elementwise.special import ndtri
from sparkflow.graph.scopes import convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor


@export("math.erfcinv", "math.special.erfcinv")
def erfcinv(x: Any, name: str | None = None) -> Tensor:
    """The inverse of erfc, on (0, 2)."""
    graph = graph_of((x,))
    with graph.as_default(), graph.name_scope(name or "erfcinv"):
        tensor = convert_to_tensor(x, name="start")
        result: Tensor = -ndtri(tensor * 0.5) * 0.5**0.5
        return result
