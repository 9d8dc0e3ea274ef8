"""Ops that are formulas of others: what is derived from `define`, and what a class defines itself.

The rows of `cases_*.py` test sparkflow's own like every other op.
"""

import tracemalloc
from typing import Any, ClassVar

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.fusion.grow import grow_clusters
from sparkflow_runtime.compiler.known import find_known
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.node import Endpoint
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.composition import Composed, chain_rule
from sparkflow_runtime.ops.op import Inference
from sparkflow_runtime.ops.signature import bool_attr, float_attr, int_attr, type_attr
from support.eager import EagerBuilder
from support.graphs import node
from support.plans import arg, fetch, new_context, planned

T = {"T": type_attr(frozenset({dtypes.float32, dtypes.float64, dtypes.bfloat16}))}
X = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]], np.float32)


class Distance(Composed):
    """Σ |x - y|^2 · scale over the last axis, and x - y."""

    inputs = "x: T, y: T"
    outputs = "sum: T, difference: T"
    attrs: ClassVar = {**T, "scale": float_attr(2.0), "unused": int_attr(0)}
    fuse_over = 0

    def define(self, g: Any, x: Any, y: Any, *, scale: float) -> Any:
        difference = g.Sub(x, y)
        return g.Sum(g.Mul(g.Square(difference), scale), np.array([-1], np.int32)), difference


class Total(Composed):
    """A sum over all axes, which are computed from the rank."""

    inputs = "x: T"
    outputs = "y: T"
    attrs: ClassVar = {**T, "keep_dims": bool_attr(False)}
    fuse_over = 0

    def define(self, g: Any, x: Any, *, keep_dims: bool) -> Any:
        axes = g.Range(np.int32(0), g.Rank(x), np.int32(1))
        return g.Sum(g.Mul(x, x), axes, keep_dims=keep_dims)


class Turned(Composed):
    """Lists, several outputs of a step, and a step that kernels do not support."""

    inputs = "parts: N * T"
    outputs = "y: T"
    attrs: ClassVar = {**T, "N": int_attr(minimum=1)}

    def define(self, g: Any, parts: list[Any]) -> Any:
        first, *rest = g.Unpack(g.Pack(parts, axis=1), num=2, axis=0)
        return g.Pack([*rest, first])


class Refused(Composed):
    inputs = "x: T"
    outputs = "y: T"
    attrs: ClassVar = {**T, "n": int_attr(0)}

    def define(self, g: Any, x: Any, *, n: int) -> Any:
        if n < 0:
            raise InvalidArgumentError(message=f"n must not be negative, but is {n}")
        return g.Mul(x, float(n))


@pytest.fixture(autouse=True)
def registered() -> None:
    for kind in (Distance, Total, Turned, Refused):
        registry.add_own(kind())


def test_kernel_runs_the_steps() -> None:
    g = EagerBuilder()
    total, difference = g.Distance(g.tensor(X), g.tensor(X * 0.5), scale=3.0)
    np.testing.assert_allclose(total.value, (3 * (X * 0.5) ** 2).sum(1), rtol=1e-6)
    np.testing.assert_array_equal(difference.value, X * 0.5)
    np.testing.assert_allclose(g.Total(g.tensor(X)).value, (X * X).sum(), rtol=1e-6)


def test_lists_and_several_outputs_of_a_step() -> None:
    g = EagerBuilder()
    result = g.Turned([g.tensor(X[0, :2]), g.tensor(X[1, :2])])
    np.testing.assert_array_equal(result.value, np.stack([X[0, :2], X[1, :2]], 1)[::-1])


def test_shapes_follow_as_far_as_the_inputs_tell() -> None:
    def inferred(op_type: str, *given: Any, **attrs: Any) -> Any:
        op = registry.lookup(op_type)
        complete = op.signature.complete_attrs([dtypes.float32] * len(given), attrs)
        return list(op.infer(Inference(given, [dtypes.float32] * len(given), complete)))

    assert inferred("Distance", (2, 3), (2, 3)) == [(2,), (2, 3)]
    assert inferred("Distance", (None, 3), (1, 3)) == [(None,), (None, 3)]
    assert inferred("Distance", None, (3,)) == [None, None]
    assert inferred("Total", (2, None)) == [()]
    assert inferred("Total", None) == [None]
    assert inferred("Total", (2, 3), keep_dims=True) == [(1, 1)]
    with pytest.raises(InvalidArgumentError, match="must be equal, but are 3 and 4"):
        inferred("Distance", (2, 3), (2, 4))


def test_gradients_follow_and_theirs() -> None:
    g = EagerBuilder()
    x, y = g.tensor(X.astype(np.float64)), g.tensor(np.full((2, 3), 0.5))
    total, difference = g.Distance(x, y)
    weights = g.tensor(np.array([1.0, 10.0]))
    dx, dy = g.gradients([total], [x, y], [weights])
    expected = 4 * (x.value - 0.5) * weights.value[:, None]
    np.testing.assert_allclose(dx.value, expected)
    np.testing.assert_allclose(dy.value, -expected)
    (again,) = g.gradients([dx], [x], [g.tensor(np.ones((2, 3)))])
    np.testing.assert_allclose(again.value, np.broadcast_to(4 * weights.value[:, None], (2, 3)))
    both, _ = g.gradients([total, difference], [x, y], [weights, g.tensor(np.ones((2, 3)))])
    np.testing.assert_allclose(both.value, expected + 1)


def test_nothing_flows_where_nothing_arrives() -> None:
    g = EagerBuilder()
    x = g.tensor(X)
    found = chain_rule(g, lambda g, x, y: (g.Mul(x, x), g.Neg(y)), [x, x], [None, None])
    assert found == [None, None]
    image = g.tensor(np.ones((1, 1, 1, 3), np.float32))
    with pytest.raises(LookupError, match="LRNGrad has no gradient"):
        chain_rule(g, lambda g, x: g.LRNGrad(x, x, x), [image], [image])


def test_numbers_that_numpy_does_not_compute_with_are_widened() -> None:
    g = EagerBuilder()
    narrow = g.tensor(X, dtypes.bfloat16)
    result = g.Total(narrow)
    assert result.dtype is dtypes.bfloat16
    np.testing.assert_allclose(float(result.value), (X * X).sum(), rtol=0.01)


def test_a_definition_may_refuse_attributes() -> None:
    op = registry.lookup("Refused")
    wrong = node("y", "Refused", "x", T=dtypes.float32, n=-1)
    assert not op.is_fusable(wrong)
    with pytest.raises(InvalidArgumentError, match="must not be negative, but is -1"):
        op.bind(wrong, new_context())


def test_a_formula_is_written_out_once_per_combination_of_attributes() -> None:
    op = registry.lookup("Refused")
    assert isinstance(op, Composed)
    first = op.recipe({"T": dtypes.float32, "n": 2})
    assert op.recipe({"T": dtypes.float32, "n": 2}) is first
    assert op.recipe({"T": dtypes.float32, "n": 3}) is not first


@pytest.mark.skipif(not native.available(), reason="needs the code generator")
@pytest.mark.parametrize("op_type", ["Distance", "Total"])
def test_steps_share_a_kernel_with_their_neighbours(op_type: str) -> None:
    count = 2 if op_type == "Distance" else 1
    nodes = [
        arg("x", 0, T=dtypes.float32),
        node("half", "Mul", "x", "x", T=dtypes.float32),
        node("made", op_type, *["half", "x"][:count], T=dtypes.float32),
        fetch("made", T=dtypes.float32),
    ]
    known = find_known(nodes, {Endpoint("x", 0): X.shape})
    (cluster,) = grow_clusters(nodes, known, ())
    assert [each.name for each in cluster.nodes] == ["half", "made"]
    plan, _ = planned(nodes, X)
    half = X * X
    expected = (2 * (half - X) ** 2).sum(1) if op_type == "Distance" else (half * half).sum()
    (result,) = plan(None, X)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("op_type", "inputs"),
    [
        ("LeakyRelu", [X]),
        ("LeakyReluGrad", [X, X]),
        ("FakeQuantWithMinMaxArgs", [X]),
        ("FakeQuantWithMinMaxVars", [X, np.float32(-1), np.float32(2)]),
        ("FakeQuantWithMinMaxVarsPerChannel", [X, -np.ones(3, np.float32), np.ones(3, np.float32)]),
        ("EuclideanNorm", [X, np.array([1], np.int32)]),
    ],
)
def test_what_consists_of_arithmetic_is_fusable(op_type: str, inputs: list[Any]) -> None:
    op = registry.lookup(op_type)
    kinds = [dtypes.as_dtype(np.asarray(each).dtype) for each in inputs]
    attrs = op.signature.complete_attrs(kinds, {})
    assert op.is_fusable(node("y", op_type, **attrs))


def test_numbers_of_the_formula_alone_are_computed_once() -> None:
    op = registry.lookup("FakeQuantWithMinMaxArgs")
    assert isinstance(op, Composed)
    steps = op.recipe({"min": -1.0, "max": 3.0, "num_bits": 8, "narrow_range": False}).steps
    assert len(steps) < 10  # of 20, if the ends are inputs


def test_memory_of_a_step_is_free_when_its_last_reader_has_run() -> None:
    op = registry.lookup("LeakyRelu")
    run = op.bind(node("y", "LeakyRelu", "x", T=dtypes.float32), new_context())
    large = np.ones((1024, 1024), np.float32)
    run(large)
    tracemalloc.start()
    try:
        run(large)
        assert tracemalloc.get_traced_memory()[1] < 3.5 * large.nbytes  # for four steps
    finally:
        tracemalloc.stop()
