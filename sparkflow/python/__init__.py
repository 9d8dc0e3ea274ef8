"""Modules under the paths that TensorFlow 1 programs import from `tensorflow.python`."""
