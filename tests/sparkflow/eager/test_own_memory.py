"""Values of user-defined eager ops never change, whatever memory they share."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime import dtypes
from sparkflow_runtime.ops.op import Op

pytestmark = pytest.mark.usefixtures("eager")


class EagerReversed(Op):
    inputs = "x: float32"
    outputs = "y: float32"
    kernels = {"CPU": None}  # noqa: RUF012

    def infer(self, node):
        return [node.shapes[0]]

    def compute(self, xp, x):
        return x[::-1]


def test_a_variable_that_changes_leaves_what_was_made_of_it():
    tf.constant(0)
    own = tf.register_op(EagerReversed)
    v = tf.Variable(np.arange(4, dtype=np.float32))
    seen, of_value = own(v), own(v.read_value())
    returned = tf.py_func(lambda value: value, [v], dtypes.float32)
    v.assign_add(np.ones(4, np.float32))
    assert seen.numpy().tolist() == of_value.numpy().tolist() == [3, 2, 1, 0]
    assert returned.numpy().tolist() == [0, 1, 2, 3]
    assert own(v).numpy().tolist() == [4, 3, 2, 1]
