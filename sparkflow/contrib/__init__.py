"""`tf.contrib`: what TensorFlow 1 kept apart."""

from sparkflow.contrib import opt

__all__ = ["opt"]
