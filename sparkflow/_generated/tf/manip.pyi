"""`tf.manip`: older names of functions that rearrange tensors.

Made by `scripts/generate_api.py`.
"""

from sparkflow._generated.ops.arrays import gather_nd, reshape, reverse, tile
from sparkflow._generated.ops.blocks import batch_to_space_nd, space_to_batch_nd
from sparkflow._generated.ops.reordering import roll
from sparkflow._generated.ops.scattering import scatter_nd

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
