"""`tf.manip`: older names of functions that rearrange tensors."""

from sparkflow.ops.arrays import gather_nd, reshape, reverse, tile
from sparkflow.ops.blocks import batch_to_space_nd, space_to_batch_nd
from sparkflow.ops.reordering import roll
from sparkflow.ops.scattering import scatter_nd

__all__ = [
    "batch_to_space_nd",
    "gather_nd",
    "reshape",
    "reverse",
    "roll",
    "scatter_nd",
    "space_to_batch_nd",
    "tile",
]
