"""Pools whose windows have random borders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor


class FractionalPool(NamedTuple):
    """What a window holds, [batch, height, width, channels], and the windows' borders."""

    output: Tensor
    row_pooling_sequence: Tensor
    col_pooling_sequence: Tensor


def _pool(op_type: str, value: Any, ratio: Sequence[float], **attrs: Any) -> FractionalPool:
    ratios = [float(each) for each in ratio]
    return FractionalPool(*apply_op(op_type, value, pooling_ratio=ratios, **attrs))


@export("nn.fractional_max_pool")
def fractional_max_pool(
    value: Any,
    pooling_ratio: Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> FractionalPool:
    """The largest element of every window of an image cut at random borders.

    Args:
        value: [batch, height, width, channels] float32, float64, int32 or int64.
        pooling_ratio: [1, by rows, by columns, 1], each at least 1: how much it shrinks.
        pseudo_random: Whether the borders keep about the same distance.
        overlapping: Whether a border belongs to the windows on both its sides.
        deterministic: Whether the borders are the same in every step.
        seed: For the same borders in every run.
        seed2: A second one.
        name: Name of the node.
    """
    return _pool(
        "FractionalMaxPool",
        value,
        pooling_ratio,
        pseudo_random=pseudo_random,
        overlapping=overlapping,
        deterministic=deterministic,
        seed=seed,
        seed2=seed2,
        name=name,
    )


@export("nn.fractional_avg_pool")
def fractional_avg_pool(
    value: Any,
    pooling_ratio: Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> FractionalPool:
    """The mean of every window; the arguments are those of `fractional_max_pool`."""
    return _pool(
        "FractionalAvgPool",
        value,
        pooling_ratio,
        pseudo_random=pseudo_random,
        overlapping=overlapping,
        deterministic=deterministic,
        seed=seed,
        seed2=seed2,
        name=name,
    )
