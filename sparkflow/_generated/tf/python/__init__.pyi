"""`from sparkflow.python.client import timeline`, as TensorFlow has it.

Made by `scripts/generate_api.py`.
"""

from sparkflow._generated.tf.python import client

__all__ = [
    "client",
]
