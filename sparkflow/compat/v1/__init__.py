"""`import sparkflow.compat.v1 as tf` imports sparkflow itself: its interface is TensorFlow 1's."""

import sys

import sparkflow

# The import system hands out what stands here after a module's code has run.
sys.modules[__name__] = sparkflow
