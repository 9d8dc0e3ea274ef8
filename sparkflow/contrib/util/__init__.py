"""`tf.contrib.util`: constant tensors as messages and arrays."""

from sparkflow.ops.conversions import make_ndarray, make_tensor_proto
from sparkflow.ops.shape.constants import get_static_value as constant_value

__all__ = ["constant_value", "make_ndarray", "make_tensor_proto"]
