"""Keeping values and gradients within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.dispatch import or_ragged
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control.ordering import identity
from sparkflow.ops.elementwise.elementwise import cast, maximum, minimum, rsqrt, sqrt
from sparkflow.ops.reduction.reduction import reduce_sum
from sparkflow.ops.shape.arrays import size
from sparkflow.ops.shape.constants import ones_like


@export("clip_by_value")
@or_ragged
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """Elements below the minimum become the minimum, above the maximum the maximum.

    Raises:
        ValueError: The bounds would broadcast `t` to another shape.
    """
    if isinstance(t, IndexedSlices):
        clipped = clip_by_value(t.values, clip_value_min, clip_value_max, name)
        return IndexedSlices(clipped, t.indices, t.dense_shape)
    graph = graph_of((t, clip_value_min, clip_value_max))
    with graph.as_default(), graph.name_scope(name or "clip_by_value") as scope:
        values = convert_to_tensor(t, name="t")
        lowered = minimum(values, clip_value_max)
        values.shape.assert_is_compatible_with(lowered.shape)
        clipped = maximum(lowered, clip_value_min, name=scope)
        values.shape.assert_is_compatible_with(clipped.shape)
        return clipped


@export("clip_by_norm")
def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """`t` scaled down so that its euclidean norm over `axes` is at most `clip_norm`.

    Args:
        t: A tensor, or `IndexedSlices`, which stay sparse.
        clip_norm: A scalar above 0.
        axes: The dimensions of the norm; all when None.
        name: Name of the scope.
    """
    if isinstance(t, IndexedSlices):
        clipped = clip_by_norm(t.values, clip_norm, axes, name)
        return IndexedSlices(clipped, t.indices, t.dense_shape)
    graph = graph_of((t, clip_norm))
    with graph.as_default(), graph.name_scope(name or "clip_by_norm") as scope:
        values = convert_to_tensor(t, name="t")
        squared = reduce_sum(values * values, axes, keepdims=axes is not None)
        positive = squared > 0
        one = apply_op("OnesLike", squared)
        # The root of 0 has no gradient: it is taken of 1 there, and the 0 is put back after.
        root = apply_op("Select", positive, squared, one)
        length = apply_op("Select", positive, sqrt(root), squared)
        return identity(values * clip_norm / maximum(length, clip_norm), scope)


@export("clip_by_average_norm")
def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Tensor:
    """`t` scaled down so that its euclidean norm per element is at most `clip_norm`."""
    graph = graph_of((t, clip_norm))
    with graph.as_default(), graph.name_scope(name or "clip_by_average_norm") as scope:
        values = convert_to_tensor(t, name="t")
        count = cast(size(values), values.dtype.base)
        inverse = rsqrt(reduce_sum(values * values))
        factor = clip_norm * minimum(inverse * count, ones_like(inverse) / clip_norm)
        clipped: Tensor = identity(values * factor, scope)
        return clipped


@export("global_norm", "linalg.global_norm")
def global_norm(t_list: Sequence[Any], name: str | None = None) -> Tensor | None:
    """The euclidean norm of all tensors together; None stands for no gradient.

    Raises:
        TypeError: `t_list` is not a sequence.
    """
    values = [_values(each) for each in _sequence(t_list) if each is not None]
    if not values:
        return None
    graph = graph_of(values)
    with graph.as_default(), graph.name_scope(name or "global_norm"):
        halves = []
        for each in values:
            with graph.colocate_with(each):
                halves.append(apply_op("L2Loss", each))
        total = reduce_sum(apply_op("Pack", halves, name="stack"))
        return sqrt(total * 2.0, name="global_norm")


@export("clip_by_global_norm")
def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Tensor | None]:
    """All tensors scaled down by one factor so that their common norm is at most `clip_norm`.

    Args:
        t_list: Tensors, `IndexedSlices`, or None, which stays None.
        clip_norm: The largest norm allowed.
        use_norm: The norm, where it is known already.
        name: Name of the scope.

    Returns:
        The scaled tensors, and the norm they had. All are NaN when the norm is not finite.

    Raises:
        TypeError: `t_list` is not a sequence.
    """
    items = _sequence(t_list)
    norm = global_norm(items, name) if use_norm is None else convert_to_tensor(use_norm)
    if norm is None:
        return list(items), None
    graph = norm.graph
    with graph.as_default(), graph.name_scope(name or "clip_by_global_norm") as scope:
        bound = convert_to_tensor(clip_norm, norm.dtype, "clip_norm")
        scale = bound * minimum(1.0 / norm, 1.0 / bound)
        # 0 when the norm is finite and NaN otherwise, so that the failure shows.
        scale = scale + (norm - norm)
        clipped: list[Any] = []
        for index, item in enumerate(items):
            if item is None:
                clipped.append(None)
                continue
            values = _values(item)
            with graph.colocate_with(values):
                scaled = identity(values * scale, f"{scope}_{index}")
            if isinstance(item, IndexedSlices):
                clipped.append(IndexedSlices(scaled, item.indices, item.dense_shape))
            else:
                clipped.append(scaled)
    return clipped, norm


def _sequence(t_list: Any) -> list[Any]:
    if isinstance(t_list, str) or not isinstance(t_list, Sequence):
        raise TypeError(f"t_list should be a sequence of tensors, got {t_list!r}")
    return list(t_list)


def _values(item: Any) -> Tensor:
    return item.values if isinstance(item, IndexedSlices) else convert_to_tensor(item)
