"""`tf.contrib.tensorboard.plugins`."""

from sparkflow.contrib.tensorboard.plugins import projector

__all__ = ["projector"]
