from typing import ClassVar

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InternalError, InvalidArgumentError, UnimplementedError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.ops.signature import type_attr
from support.eager import EagerBuilder, EagerSlices


@pytest.fixture
def g():
    return EagerBuilder()


class Broken(Op):
    """Breaks its promises as `fault` says."""

    inputs = "x: T"
    outputs = "y: T"
    attrs: ClassVar = {"T": type_attr()}
    kernels: ClassVar = {"CPU": frozenset({dtypes.float32, dtypes.string})}

    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def infer(self, node):
        return [node.shapes[0]] * (2 if self.fault == "inference" else 1)

    def compute(self, xp, x):
        return {
            "dtype": lambda: x.astype(np.float64),
            "shape": lambda: x[:1],
            "number": lambda: 1.0,
            "inference": lambda: x,
            "outputs": lambda: (x, x),
        }[self.fault]()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("dtype", "Output 0 of Broken has dtype float64, promised float32"),
        ("shape", "Output 0 of Broken has shape (1,), inferred (2,)"),
        ("number", "Output 0 of Broken is a float, not an array"),
        ("inference", "Broken has 1 outputs, inferred 2 shapes and computed 1 values"),
        ("outputs", "Broken has 1 outputs, inferred 1 shapes and computed 2 values"),
    ],
)
def test_kernels_that_break_promises_are_found(g, fault, message):
    with pytest.raises(InternalError) as error:
        g.run(Broken(fault), [np.ones(2, np.float32)], {})
    assert error.value.message == message


def test_missing_kernels_are_refused(g):
    with pytest.raises(UnimplementedError, match="No kernel of Broken for device CPU with int32"):
        g.run(Broken("dtype"), [np.ones(2, np.int32)], {})


def test_attributes_are_completed_and_checked(g):
    a = g.tensor(np.ones((2, 2)))
    product = g.MatMul(a, a)
    assert product.op.attr("transpose_a") is False
    assert product.op.attr("T") is dtypes.float64
    assert product.name == "MatMul_1:0"
    with pytest.raises(InvalidArgumentError, match="MatMul has no attribute 'transposed'"):
        g.MatMul(a, a, transposed=True)


def test_numbers_take_the_dtype_of_tensors_beside_them(g):
    x = g.tensor(np.ones(2, np.float16))
    assert g.Mul(2, x).dtype is dtypes.float16
    assert g.Mul(2, 3).dtype is dtypes.int32
    assert g.Mul(2.0, 3.0).dtype is dtypes.float32
    assert g.AddN([x, [1, 2]]).dtype is dtypes.float16


def test_only_constants_have_values_before_they_run(g):
    assert g.value(g.const([1, 2])).tolist() == [1, 2]
    assert g.value(g.tensor([1, 2])) is None
    assert g.value(g.Neg(g.const([1, 2]))) is None


def test_static_shapes_may_know_less(g):
    assert g.shape(g.tensor(np.ones((2, 3)))) == (2, 3)
    assert g.shape(g.tensor(np.ones((2, 3)), static_shape=(None, 3))) == (None, 3)
    assert g.shape(g.tensor(np.ones((2, 3)), static_shape=None)) is None


def test_outputs_come_one_by_one_as_a_tuple_or_not_at_all(g):
    x = g.tensor(np.arange(4.0))
    assert g.Neg(x).value.tolist() == [0, -1, -2, -3]
    first, second = g.Split(0, x, num_split=2)
    assert (first.value.tolist(), second.value.tolist()) == ([0, 1], [2, 3])
    assert g.NoOp().op == "NoOp"


def test_unknown_ops_are_no_attributes(g):
    with pytest.raises(AttributeError, match="no op type 'NoSuchOp' is registered"):
        _ = g.NoSuchOp


def test_variables_are_read_where_values_are_asked_for(g):
    reference = g.variable(np.array([1.0, 2.0]))
    g.AssignAdd(reference, np.array([1.0, 1.0]))
    assert g.Neg(reference).value.tolist() == [-2, -3]
    with pytest.raises(InvalidArgumentError, match="must be a variable"):
        g.AssignAdd(g.tensor(np.ones(2)), np.ones(2))


def test_gradients_follow_every_path(g):
    x = g.tensor(np.array([2.0, 3.0]))
    unused = g.tensor(np.ones(2))
    y = g.Mul(g.Square(x), x)  # x cubed
    dx, nothing = g.gradients([y], [x, unused], [g.tensor(np.array([1.0, 10.0]))])
    np.testing.assert_allclose(dx.value, [12, 270])
    assert nothing is None


def test_gradients_stop_at_what_they_are_taken_of(g):
    x = g.tensor(np.array([2.0]))
    middle = g.Square(x)
    y = g.Square(middle)
    (dmiddle,) = g.gradients([y], [middle], [g.tensor(np.ones(1))])
    assert dmiddle.value.tolist() == [8]


def test_sparse_gradients_are_added_up(g):
    table = g.tensor(np.arange(8.0).reshape(4, 2))
    rows = g.GatherV2(table, np.array([1, 3, 1], np.int32), np.array(0, np.int32))
    ones = g.tensor(np.ones((3, 2)))
    (sparse,) = g.gradients([rows], [table], [ones])
    assert isinstance(sparse, EagerSlices)
    assert sparse.to_dense((4, 2)).tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]
    (both,) = g.gradients([rows, g.Neg(table)], [table], [ones, g.tensor(np.ones((4, 2)))])
    assert both.value.tolist() == [[-1, -1], [1, 1], [-1, -1], [0, 0]]


def test_missing_gradients_are_named(g):
    x = g.tensor(np.ones(2))
    y = g.SoftsignGrad(x, x)
    with pytest.raises(InvalidArgumentError, match="SoftsignGrad has no gradient"):
        g.gradients([y], [x], [g.tensor(np.ones(2))])


def test_gradients_of_the_wrong_number_are_found(g, monkeypatch):
    monkeypatch.setattr(type(registry.lookup("Neg")), "gradient", lambda *_: (None, None))
    x = g.tensor(np.ones(2))
    with pytest.raises(InternalError, match="gradient of Neg returned 2 tensors for 1 inputs"):
        g.gradients([g.Neg(x)], [x], [g.tensor(np.ones(2))])
