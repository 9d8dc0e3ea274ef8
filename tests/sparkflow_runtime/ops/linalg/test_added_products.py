"""Products that are scaled, added or applied to a variable, in machine code and without."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import FailedPreconditionError, InvalidArgumentError
from sparkflow_runtime.ops.registry import lookup
from sparkflow_runtime.resources.variable import Variable
from support.graphs import node
from support.plans import new_context, without_machine_code

WAYS = {"machine code": nullcontext, "numpy": without_machine_code}
TURNS = [(False, False), (True, False), (False, True), (True, True)]


def random(shape: tuple[int, ...], seed: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def kernel(op: str, turns: tuple[bool, bool], dtype: Any = dtypes.float32) -> Any:
    made = node("n", op, T=dtype, transpose_a=turns[0], transpose_b=turns[1])
    return lookup(op).bind(made, new_context()), lookup(op).bind_out(made, new_context())


def factors(turns: tuple[bool, bool], dtype: Any = np.float32) -> tuple[Any, Any, Any]:
    """Two matrices, and their product in float64."""
    a, b = random((30, 50), 1, dtype), random((50, 20), 2, dtype)
    product = a.astype(np.float64) @ b.astype(np.float64)
    return (a.T.copy() if turns[0] else a, b.T.copy() if turns[1] else b, product)


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_products_are_scaled_and_added(way: str, turns: tuple[bool, bool], dtype: Any) -> None:
    a, b, product = factors(turns, dtype.as_numpy_dtype)
    total = random((30, 20), 3, dtype.as_numpy_dtype)
    given = total.copy()
    scale = dtype.as_numpy_dtype(0.3)
    expected = {
        "_ScaledProduct": ((a, b, scale), product * 0.3),
        "_AddedProduct": ((total, a, b), total + product),
        "_AddedScaledProduct": ((total, a, b, scale), total + product * 0.3),
    }
    for op, (inputs, result) in expected.items():
        with WAYS[way]():
            compute, fill = kernel(op, turns, dtype)
        np.testing.assert_allclose(compute(*inputs), result, rtol=1e-4, atol=1e-4)
        out = np.full((30, 20), np.nan, dtype.as_numpy_dtype)
        fill(*inputs, out)
        np.testing.assert_allclose(out, result, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(total, given)  # it is not written to


@pytest.mark.parametrize("way", list(WAYS))
def test_the_sum_may_be_where_the_result_goes(way: str) -> None:
    a, b, product = factors((False, False))
    total = random((30, 20), 3)
    expected = total + product
    with WAYS[way]():
        _, fill = kernel("_AddedProduct", (False, False))
    fill(total, a, b, total)
    np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-4)


def test_one_row_is_left_to_numpy() -> None:
    total, a, b = random((1, 20), 1), random((1, 50), 2), random((50, 20), 3)
    compute, _ = kernel("_AddedProduct", (False, False))
    np.testing.assert_allclose(compute(total, a, b), total + a @ b, rtol=1e-4, atol=1e-4)


def variable(value: Any) -> Variable:
    made = Variable("w", dtypes.float32, (30, 20))
    if value is not None:
        made.array = value
    return made


def applied(held: Variable, rate: Any, a: Any, b: Any) -> Any:
    made = node("n", "_AppliedProduct", T=dtypes.float32, transpose_a=False, transpose_b=False)
    return lookup(made.op).bind(made, new_context())(held, rate, a, b)


def test_an_update_is_that_of_the_gradient_bit_for_bit() -> None:
    a, b, _ = factors((False, False))
    start = random((30, 20), 3)
    found, expected = variable(start.copy()), variable(start.copy())
    rate = np.float32(0.1)
    assert applied(found, rate, a, b) is found
    gradient = lookup("MatMul").bind(
        node("m", "MatMul", T=dtypes.float32, transpose_a=False, transpose_b=False), new_context()
    )(a, b)
    update = node("u", "ApplyGradientDescent", T=dtypes.float32, use_locking=False)
    lookup(update.op).bind(update, new_context())(expected, rate, gradient)
    np.testing.assert_array_equal(found.read(), expected.read())


def test_an_update_fails_as_the_usual_one_does() -> None:
    a, b, _ = factors((False, False))
    with pytest.raises(FailedPreconditionError, match="w"):
        applied(variable(None), np.float32(0.1), a, b)
    held = variable(random((30, 20), 3))
    before = held.read().copy()
    with pytest.raises(InvalidArgumentError, match=r"the gradient of shape \(30, 19\)"):
        applied(held, np.float32(0.1), a, b[:, :19].copy())
    np.testing.assert_array_equal(held.read(), before)
    assert held.lock.acquire(blocking=False)  # nobody holds it
