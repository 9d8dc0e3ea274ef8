"""Functions that are those of the innermost values, in the same rows."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.nn import activation
from sparkflow.ops.reduction import clip
from sparkflow.ops.shape import arrays, constants
from sparkflow.ragged.functions import map_flat_values
from sparkflow.ragged.registered import of_ragged


@of_ragged
def clip_by_value(t: Any, *args: Any, **kwargs: Any) -> Any:
    """See `tf.clip_by_value`."""
    return map_flat_values(clip.clip_by_value, t, *args, **kwargs)


@of_ragged
def dropout(x: Any, *args: Any, **kwargs: Any) -> Any:
    """See `tf.nn.dropout`."""
    return map_flat_values(activation.dropout, x, *args, **kwargs)


@of_ragged
def one_hot(indices: Any, *args: Any, **kwargs: Any) -> Any:
    """See `tf.one_hot`."""
    return map_flat_values(arrays.one_hot, indices, *args, **kwargs)


@of_ragged
def ones_like(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """See `tf.ones_like`."""
    return map_flat_values(constants.ones_like, tensor, *args, **kwargs)


@of_ragged
def zeros_like(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """See `tf.zeros_like`."""
    return map_flat_values(constants.zeros_like, tensor, *args, **kwargs)


@of_ragged
def add_n(inputs: Any, name: str | None = None) -> Any:
    """See `tf.add_n`."""
    total = inputs[0]
    for each in inputs[1:]:
        total = total + each
    return total


@of_ragged
def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of dimensions, a scalar int32."""
    return convert_to_tensor(input.ragged_rank + input.flat_values.shape.ndims, name=name)
