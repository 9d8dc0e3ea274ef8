"""`tf.manip`: older names of functions that rearrange tensors.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow._generated.ops.indexing.reordering": "roll",
        "sparkflow._generated.ops.indexing.scattering": "scatter_nd",
        "sparkflow._generated.ops.shape.arrays": "gather_nd reshape reverse tile",
        "sparkflow._generated.ops.shape.blocks": "batch_to_space_nd space_to_batch_nd",
    },
)
