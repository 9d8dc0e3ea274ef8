"""Other names that TensorFlow has for the same functions."""

from sparkflow.ops.arrays import reverse as reverse_v2, stack as pack, unstack as unpack
from sparkflow.ops.control import tuple_of as tuple
from sparkflow.ops.elementwise import multiply as mul, negative as neg, subtract as sub

__all__ = ["mul", "neg", "pack", "reverse_v2", "sub", "tuple", "unpack"]
