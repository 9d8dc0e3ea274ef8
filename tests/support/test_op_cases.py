"""Tests that the checks of the op test table find the errors that they are for."""

from dataclasses import replace as replaced

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InternalError
from sparkflow_runtime.ops import registry
from support import op_cases
from support.op_cases import FailureCase, OpCase, WrongShapeCase

X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.5]])


def replace(monkeypatch, op_type, **members):
    for name, value in members.items():
        monkeypatch.setattr(type(registry.lookup(op_type)), name, value)


def test_a_wrong_result_is_found():
    case = OpCase("Neg", [X], expected=lambda x: -x * (1 + 3e-6))
    with pytest.raises(AssertionError, match="Neg, output 0, float32"):
        op_cases.check_forward(case, dtypes.float32)
    op_cases.check_forward(case, dtypes.float16)


def test_a_result_of_the_wrong_shape_is_found():
    case = OpCase("Neg", [X], expected=lambda x: -x[0])
    with pytest.raises(AssertionError, match=r"shape \(2, 3\) != \(3,\)"):
        op_cases.check_forward(case, dtypes.float32)


def test_an_input_that_is_written_to_is_found(monkeypatch):
    replace(monkeypatch, "Neg", bind=lambda *_: lambda x: np.negative(x, out=x))
    with pytest.raises(ValueError, match="read-only"):
        op_cases.check_forward(OpCase("Neg", [X], expected=np.negative), dtypes.float32)


def test_a_kernel_that_assumes_contiguous_memory_is_found(monkeypatch):
    def negate_memory(x):
        memory = x.ravel(order="K")  # the elements in the order of memory
        return -memory.reshape(x.shape)

    replace(monkeypatch, "Neg", bind=lambda *_: negate_memory)
    case = OpCase("Neg", [X], expected=np.negative)
    op_cases.check_forward(case, dtypes.float32)
    with pytest.raises(AssertionError, match="Not equal"):
        op_cases.check_non_contiguous(case)


def test_a_shape_that_could_be_known_is_asked_for(monkeypatch):
    replace(monkeypatch, "Neg", infer=lambda *_: [None])
    case = OpCase("Neg", [X], expected=np.negative)
    with pytest.raises(AssertionError, match="yet the inferred shape is <unknown>"):
        op_cases.check_forward(case, dtypes.float32)


def test_a_wrong_inference_is_found(monkeypatch):
    replace(monkeypatch, "Neg", infer=lambda *_: [(7,)])
    with pytest.raises(InternalError, match=r"has shape \(2, 3\), inferred \(7,\)"):
        op_cases.check_forward(OpCase("Neg", [X], expected=np.negative), dtypes.float32)


@pytest.mark.parametrize(
    "gradient",
    [
        lambda op, g, node, dy: [dy],
        lambda op, g, node, dy: [None],
        lambda op, g, node, dy: [g.Sum(g.Neg(dy), np.array([0], np.int32))],
    ],
)
def test_a_wrong_gradient_is_found(monkeypatch, gradient):
    replace(monkeypatch, "Neg", gradient=gradient)
    with pytest.raises(AssertionError, match="Neg, input 0, shapes known"):
        op_cases.check_gradient(OpCase("Neg", [X], gradient=(0,)))


def test_a_gradient_that_is_wrong_only_without_static_shapes_is_found(monkeypatch):
    def gradient(op, g, node, dy):
        return [dy if g.shape(node.inputs[0]) is None else g.Neg(dy)]

    replace(monkeypatch, "Neg", gradient=gradient)
    with pytest.raises(AssertionError, match="Neg, input 0, shapes unknown"):
        op_cases.check_gradient(OpCase("Neg", [X], gradient=(0,)))


def test_a_wrong_second_gradient_is_found(monkeypatch):
    case = OpCase("Tanh", [X / 4], gradient=(0,))
    op_cases.check_second_order(case)
    replace(monkeypatch, "TanhGrad", gradient=lambda op, g, node, grad: [grad, grad])
    op_cases.check_gradient(case)
    with pytest.raises(AssertionError, match="Tanh, input 0, second order"):
        op_cases.check_second_order(case)


def test_wrong_shapes_must_be_refused_in_the_exact_words():
    good = "Shapes (2,) and (3,) are not compatible"
    op_cases.check_wrong_shapes(WrongShapeCase("ReluGrad", [(2,), (3,)], message=good))
    with pytest.raises(AssertionError, match="message is"):
        op_cases.check_wrong_shapes(WrongShapeCase("ReluGrad", [(2,), (3,)], message="Shapes"))
    with pytest.raises(AssertionError, match="ReluGrad accepted the shapes"):
        op_cases.check_wrong_shapes(WrongShapeCase("ReluGrad", [(2,), (2,)], message=good))


def test_failures_must_be_refused_in_the_exact_words():
    one, zero = np.array([1]), np.array([0])
    op_cases.check_failure(FailureCase("FloorDiv", [one, zero], message="Integer division by zero"))
    with pytest.raises(AssertionError, match="message is"):
        op_cases.check_failure(FailureCase("FloorDiv", [one, zero], message="Division"))
    with pytest.raises(AssertionError, match="FloorDiv did not fail"):
        op_cases.check_failure(FailureCase("FloorDiv", [one, one], message="Division"))


def test_rows_run_with_every_dtype_the_op_allows():
    case = OpCase("Erf", [X], expected=np.tanh)
    assert case.run_dtypes() == [
        dtypes.float32,
        dtypes.float64,
        dtypes.bfloat16,
        dtypes.float16,
    ]
    assert OpCase("Erf", [X], expected=X).run_dtypes() == [None]
    assert OpCase("LogicalNot", [X > 0], expected=np.invert).run_dtypes() == [None]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (dtypes.int32, [-2, 0, 3]),
        (dtypes.uint8, [2, 0, 3]),
        (dtypes.bool_, [True, False, True]),
        (dtypes.complex64, [-2.5 - 1.25j, 0, 3 + 1.5j]),
        (None, [-2.5, 0, 3]),
    ],
)
def test_cast_keeps_values_meaningful(dtype, expected):
    result = op_cases.cast(np.array([-2.5, 0, 3]), dtype)
    assert result.tolist() == expected
    assert dtype is None or result.dtype == dtype.numpy


def test_ids_tell_rows_apart():
    case = OpCase("AddN", [[X, X]], {"T": dtypes.float64})
    assert case.id == "AddN-[2x3,2x3]-T=float64"
    assert OpCase("Neg", [1.0]).id == "Neg-scalar"


def test_case_files_are_loaded_in_order_of_name(tmp_path):
    (tmp_path / "cases_b.py").write_text("CASES = [2]")
    (tmp_path / "cases_a.py").write_text("CASES = [1]")
    (tmp_path / "other.py").write_text("raise RuntimeError")
    assert [module.CASES for module in op_cases.load_cases(tmp_path)] == [[1], [2]]


def test_a_gradient_that_is_wrong_in_one_element_is_found(monkeypatch):
    x = np.array([1.0, -3.0, 2.0, 0.5, 4.0, -1.5])
    case = OpCase("Square", [x], expected=np.square, gradient=[0])
    op_cases.check_gradient(case)
    right = op_cases._gradients

    def wrong(*arguments):
        (gradient,) = right(*arguments)
        return [replaced(gradient, value=gradient.value * [1, 1, 1 + 1e-4, 1, 1, 1])]

    monkeypatch.setattr(op_cases, "_gradients", wrong)
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 6"):
        op_cases.check_gradient(case)
