"""`tf.sets`: sets of numbers in the rows of tensors.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow.ops.sparse.sets": (
            "set_difference:difference set_difference set_intersection:intersection "
            "set_intersection set_size set_size:size set_union set_union:union"
        ),
    },
)
