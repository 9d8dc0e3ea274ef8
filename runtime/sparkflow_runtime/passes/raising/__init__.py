"""Conversion of TensorFlow's original (V1) control flow to functions."""
