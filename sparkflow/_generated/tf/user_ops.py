"""`tf.user_ops`: TensorFlow's example of an own op; see `tf.register_op` for yours.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow.ops.user_ops": "my_fact",
    },
)
