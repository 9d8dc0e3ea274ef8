"""`tf.bitwise`: operations on the bits of integers.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow._generated.ops.elementwise.bitwise": "bitwise_and bitwise_or bitwise_xor invert left_shift right_shift",
    },
)
