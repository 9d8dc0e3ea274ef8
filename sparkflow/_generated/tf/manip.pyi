"""`tf.manip`: older names of functions that rearrange tensors.

Made by `scripts/generate_api.py`.
"""

from sparkflow._generated.ops.indexing.reordering import roll
from sparkflow._generated.ops.indexing.scattering import scatter_nd
from sparkflow._generated.ops.shape.arrays import gather_nd, reshape, reverse, tile
from sparkflow._generated.ops.shape.blocks import batch_to_space_nd, space_to_batch_nd

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
