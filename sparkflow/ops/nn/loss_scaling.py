"""`tf.nn.compute_average_loss` and `scale_regularization_loss`: losses of one replica."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op, convert_to_tensor, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.reduction.reduction import reduce_sum


@export("nn.compute_average_loss")
def compute_average_loss(
    per_example_loss: Any,
    sample_weight: Any = None,
    global_batch_size: Any = None,
    max_global_batch_size: Any = None,
) -> Tensor:
    """The sum of the losses of examples by the number of examples.

    Args:
        per_example_loss: [batch, ...] floating point.
        sample_weight: What the losses are multiplied by, broadcast; nothing when None.
        global_batch_size: What the sum is divided by; the first dimension of the losses when None.
        max_global_batch_size: Accepted.
    """
    losses = convert_to_tensor(per_example_loss)
    if sample_weight is not None:
        losses = losses * cast(sample_weight, losses.dtype)
    if global_batch_size is None:
        global_batch_size = apply_op("Shape", losses)[0]
    return output_of("DivNoNan", reduce_sum(losses), cast(global_batch_size, losses.dtype))


@export("nn.scale_regularization_loss")
def scale_regularization_loss(regularization_loss: Any) -> Tensor:
    """The sum of a regularization loss: there is one replica of a graph."""
    return reduce_sum(regularization_loss)
