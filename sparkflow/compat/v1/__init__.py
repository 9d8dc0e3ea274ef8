"""`import sparkflow.compat.v1 as tf` gives sparkflow itself: it has TensorFlow 1's interface."""

import sys

import sparkflow

# The import system hands out what stands here after a module's code has run.
sys.modules[__name__] = sparkflow
