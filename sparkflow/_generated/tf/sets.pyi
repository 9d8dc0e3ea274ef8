"""`tf.sets`: sets of numbers in the rows of tensors.

Made by `scripts/generate_api.py`.
"""

from sparkflow.ops.sparse.sets import (
    set_difference as difference,
    set_difference,
    set_intersection as intersection,
    set_intersection,
    set_size,
    set_size as size,
    set_union,
    set_union as union,
)

__all__ = [
    "difference",
    "intersection",
    "set_difference",
    "set_intersection",
    "set_size",
    "set_union",
    "size",
    "union",
]
