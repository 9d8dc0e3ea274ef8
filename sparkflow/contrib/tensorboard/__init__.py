"""`tf.contrib.tensorboard`."""

from sparkflow.contrib.tensorboard import plugins

__all__ = ["plugins"]
