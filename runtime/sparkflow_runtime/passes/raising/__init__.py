"""Frames of TensorFlow's first control flow become functions."""
