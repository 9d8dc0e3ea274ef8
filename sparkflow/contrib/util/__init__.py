"""`tf.contrib.util`: constant tensors as messages and arrays."""

from sparkflow.graph.constant_value import constant_value
from sparkflow.ops.conversions import make_ndarray, make_tensor_proto

__all__ = ["constant_value", "make_ndarray", "make_tensor_proto"]
