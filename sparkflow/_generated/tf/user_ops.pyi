"""`tf.user_ops`: TensorFlow's example of an own op; see `tf.register_op` for yours.

Made by `scripts/generate_api.py`.
"""

from sparkflow.ops.user_ops import my_fact

__all__ = [
    "my_fact",
]
