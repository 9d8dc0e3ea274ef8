"""`tf.bitwise`: operations on the bits of integers.

Made by `scripts/generate_api.py`.
"""

from sparkflow._generated.ops.elementwise.bitwise import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    invert,
    left_shift,
    right_shift,
)

__all__ = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
]
