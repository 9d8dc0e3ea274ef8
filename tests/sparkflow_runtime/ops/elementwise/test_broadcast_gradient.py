"""Which nodes undo broadcasting, depending on what is known of the shapes."""

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime.ops.elementwise.broadcast_gradient import repeated_axes, sum_to_operands
from support.eager import EagerBuilder


class Recorder(EagerBuilder):
    """Records the op types that were run."""

    def __init__(self):
        super().__init__()
        self.ran = []

    def run(self, op, inputs, attrs, name=None):
        self.ran.append(op.op_type)
        return super().run(op, inputs, attrs, name)


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ((2, 3), (2, 3), (0, ())),
        ((2, 3), (3,), (0, ())),
        ((3,), (2, 3), (1, ())),
        ((), (2, 3), (2, ())),
        ((2, 1), (2, 3), (0, (1,))),
        ((1, 3), (5, 2, 3), (1, (0,))),
        ((1, 1), (1, 1), (0, ())),
        ((1,), (None,), (0, (0,))),
        ((None, 3), (3,), (0, ())),
        ((3,), (None, 3), (1, ())),
        ((None, 3), (1, 3), (0, ())),
        ((None, 3), (5, 3), None),
        ((None,), (None,), None),
        ((2, 3), (None, 3), (0, ())),
        (None, (3,), None),
        ((3,), None, None),
    ],
)
def test_repeated_axes(own, other, expected):
    assert repeated_axes(own, other) == expected


DYNAMIC = ["Shape", "Shape", "BroadcastGradientArgs", "Sum", "Reshape"]


@pytest.mark.parametrize(
    ("x_static", "y_shape", "y_static", "ran"),
    [
        ((4, 3), (4, 3), (4, 3), []),
        ((None, 3), (3,), (3,), ["Sum"]),
        ((4, 3), (4, 1), (4, 1), ["Sum"]),
        ((None, 3), (1, 3), (1, 3), ["Sum"]),
        ((4, 3), (4, 3), (None, 3), DYNAMIC),
        ((None, 3), (4, 3), (None, 3), [*DYNAMIC, "Sum", "Reshape"]),
        (None, (), (), [*DYNAMIC, "Sum", "Reshape"]),
        (None, (1, 3), None, [*DYNAMIC, "Sum", "Reshape"]),
    ],
)
def test_nodes_added(x_static, y_shape, y_static, ran):
    g = Recorder()
    x = g.tensor(np.ones((4, 3)), static_shape=x_static)
    y = g.tensor(np.ones(y_shape), static_shape=y_static)
    gradient = g.tensor(np.ones((4, 3)))
    dx, dy = sum_to_operands(g, x, y, gradient, gradient)
    assert sorted(g.ran) == sorted(ran)
    assert dx.value.shape == (4, 3)
    assert dy.value.shape == y_shape
    assert dy.value.sum() == 12


def test_the_same_tensor_twice_needs_no_node():
    g = Recorder()
    x = g.tensor(np.ones(3), static_shape=None)
    gradient = g.tensor(np.ones(3))
    assert sum_to_operands(g, x, x, gradient, gradient) == (gradient, gradient)
    assert g.ran == []


def test_no_gradient_stays_none():
    g = Recorder()
    x, y = g.tensor(np.ones(3), static_shape=None), g.tensor(np.ones((2, 3)))
    dx, dy = sum_to_operands(g, x, y, None, g.tensor(np.ones((2, 3))))
    assert dx is None
    assert dy.value.shape == (2, 3)
