"""Special functions: gamma, beta, error, zeta and Bessel functions, and integrals."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.elementwise.special import *  # noqa: F403
from sparkflow._generated.ops.elementwise.special import lgamma, ndtri
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.reduction.reduction import reduce_sum


@export("math.erfcinv", "math.special.erfcinv")
def erfcinv(x: Any, name: str | None = None) -> Tensor:
    """The inverse of erfc, on (0, 2)."""
    graph = graph_of((x,))
    with graph.as_default(), graph.name_scope(name or "erfcinv"):
        tensor = convert_to_tensor(x, name="start")
        result: Tensor = -ndtri(tensor * 0.5) * 0.5**0.5
        return result


@export("lbeta", "math.lbeta", "math.special.lbeta")
def lbeta(x: Any, name: str | None = None) -> Tensor:
    """Log |Beta(x)| along the last dimension: the sum of log Γ less log Γ of the sum."""
    graph = graph_of((x,))
    with graph.as_default(), graph.name_scope(name or "lbeta") as scope:
        tensor = convert_to_tensor(x, name="x")
        products = reduce_sum(lgamma(tensor), [-1])
        of_sum = lgamma(reduce_sum(tensor, [-1]))
        result: Tensor = apply_op("Sub", products, of_sum, name=scope)
        return result
