"""Gradients where an op is not differentiable: the results of TensorFlow 2.21."""

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from support.eager import EagerBuilder

NAN, INF = np.nan, np.inf
FIRST = np.array([0], np.int32)
TWOS = np.array([2.0, 2.0, 2.0])


def gradient(build, x):
    """Returns the gradient of the sum of `build(g, x)` with respect to x."""
    g = EagerBuilder()
    tensor = g.tensor(np.array(x, np.float64))
    y = build(g, tensor)
    (dx,) = g.gradients([y], [tensor], [g.OnesLike(y)])
    return None if dx is None else dx.value


@pytest.mark.parametrize(
    ("build", "x", "expected"),
    [
        # Reductions share the gradient among ties; of two operands the first one gets it.
        (lambda g, x: g.Max(x, FIRST), [1, 3, 3, 2], [0, 0.5, 0.5, 0]),
        (lambda g, x: g.Min(x, FIRST), [1, 1, 3, 2], [0.5, 0.5, 0, 0]),
        (lambda g, x: g.Maximum(x, TWOS), [1, 2, 3], [0, 1, 1]),
        (lambda g, x: g.Maximum(TWOS, x), [1, 2, 3], [0, 0, 1]),
        (lambda g, x: g.Minimum(x, TWOS), [1, 2, 3], [1, 1, 0]),
        (lambda g, x: g.Minimum(TWOS, x), [1, 2, 3], [1, 0, 0]),
        (lambda g, x: g.Relu(x), [0, 1, -1], [0, 1, 0]),
        (lambda g, x: g.Relu6(x), [0, 6, 3, 7], [0, 0, 1, 0]),
        (lambda g, x: g.Abs(x), [0, -1], [0, -1]),
        (lambda g, x: g.Sign(x), [3, -1], [0, 0]),
        (lambda g, x: g.Sqrt(x), [0, 4], [INF, 0.25]),
        (lambda g, x: g.EuclideanNorm(x, FIRST), [0, 0], [NAN, NAN]),
        # Products with zeros: the product of the others, not y / x.
        (lambda g, x: g.Prod(x, FIRST), [0, 3, 2], [6, 0, 0]),
        (lambda g, x: g.Prod(x, FIRST), [0, 3, 0, 2], [0, 0, 0, 0]),
        # Powers: 0 for exponents whose logarithm does not exist.
        (lambda g, x: g.Pow(x, np.array([2.0, 2, 0])), [0, -2, 2], [0, -4, 0]),
        (lambda g, y: g.Pow(np.array([0, -2.0, 2]), y), [2, 2, 3], [0, 0, 8 * np.log(2)]),
        (lambda g, x: g.FloorMod(x, np.array([2.0, 3])), [3, -4], [1, 1]),
        (lambda g, y: g.FloorMod(np.array([3.0, -4]), y), [2, 3], [-1, 2]),
        (lambda g, y: g.Atan2(y, np.array([0.0, 1])), [0, 1], [NAN, 0.5]),
        (lambda g, x: g.DivNoNan(np.array([1.0, 1]), x), [0, 2], [0, -0.25]),
    ],
)
def test_as_in_tensorflow(build, x, expected):
    np.testing.assert_allclose(gradient(build, x), expected)


@pytest.mark.parametrize("op", ["Floor", "Ceil", "Round", "Rint", "IsNan", "LogicalNot"])
def test_none_flows_through_steps(op):
    build = {"LogicalNot": lambda g, x: g.LogicalNot(g.Greater(x, 0.0))}.get(
        op, lambda g, x: getattr(g, op)(x)
    )
    assert gradient(build, [0.5, 1.5]) is None


@pytest.mark.parametrize("op", ["FloorDiv", "TruncateDiv", "Mod", "TruncateMod", "Less", "Equal"])
def test_none_flows_through_steps_of_two(op):
    assert gradient(lambda g, x: getattr(g, op)(x, TWOS[:2]), [0.5, 1.5]) is None
