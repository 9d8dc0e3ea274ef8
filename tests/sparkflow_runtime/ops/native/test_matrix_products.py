import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.dtypes import DType, bfloat16, complex64, float32, float64, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.native import matrix_products
from sparkflow_runtime.ops.native.matrix_products import bind_product, bind_product_out


def turned(x):
    return x.swapaxes(-1, -2)


def whole_numbers(shape, dtype: DType):
    values = np.random.default_rng(len(shape)).integers(-5, 6, shape)
    return values.astype(dtype.as_numpy_dtype)


@pytest.fixture(params=[True, False], ids=["machine code", "numpy"])
def any_kernel(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(native, "available", lambda: False)
    elif not native.available():
        pytest.skip("makes machine code")


CASES = [
    ((5, 7), (7, 6)),
    ((1, 7), (7, 6)),
    ((5, 7), (7, 1)),
    ((5, 0), (0, 6)),
    ((0, 4), (4, 6)),
    ((2, 3, 4, 5), (2, 3, 5, 6)),
    ((3, 4, 5), (5, 6)),
    ((2, 1, 4, 5), (3, 5, 6)),
    ((0, 4, 5), (0, 5, 6)),
]


@pytest.mark.usefixtures("any_kernel")
@pytest.mark.parametrize("dtype", [float32, float64, int32, complex64], ids=str)
@pytest.mark.parametrize(("left", "right"), CASES)
@pytest.mark.parametrize("turn_left", [None, turned])
@pytest.mark.parametrize("turn_right", [None, turned])
def test_products(dtype, left, right, turn_left, turn_right):
    x, y = whole_numbers(left, dtype), whole_numbers(right, dtype)
    expected = x @ y
    x = turned(x) if turn_left else x
    y = np.ascontiguousarray(turned(y)) if turn_right else y
    found = bind_product(np, dtype, turn_left, turn_right)(x, y)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    out = np.full_like(expected, 7)
    bind_product_out(dtype, turn_left, turn_right)(x, y, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.usefixtures("any_kernel")
@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        ((2, 3), (4, 5), r"In\[0\]: \[2,3\], In\[1\]: \[4,5\]"),
        ((2, 2, 3), (3, 3, 5), r"In\[0\]: \[2,2,3\], In\[1\]: \[3,3,5\]"),
    ],
)
def test_sizes_that_do_not_fit(left, right, text):
    x, y = np.zeros(left, np.float32), np.zeros(right, np.float32)
    with pytest.raises(InvalidArgumentError, match=text):
        bind_product(np, float32, None, None)(x, y)
    out = np.zeros((*left[:-1], right[-1]), np.float32)
    with pytest.raises(InvalidArgumentError, match=text):
        bind_product_out(float32, None, None)(x, y, out)


def test_sizes_are_told_as_they_are_multiplied():
    x, y = np.zeros((3, 2), np.float32), np.zeros((5, 4), np.float32)
    with pytest.raises(InvalidArgumentError, match=r"In\[0\]: \[2,3\], In\[1\]: \[4,5\]"):
        bind_product(np, float32, turned, turned)(x, y)


@pytest.mark.skipif(not native.available(), reason="makes machine code")
@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)  # float32 is what bfloat16 becomes
def test_real_products_are_in_machine_code(monkeypatch, dtype):
    def refuse(*args, **kwargs):
        raise AssertionError("numpy multiplied")

    x, y = np.ones((4, 5), np.float32), np.ones((6, 5), np.float32)
    product, fill = bind_product(np, dtype, None, turned), bind_product_out(dtype, None, turned)
    out = np.empty((4, 6), np.float32)
    monkeypatch.setattr(matrix_products.np, "matmul", refuse)
    monkeypatch.setattr(matrix_products.np, "dot", refuse)
    fill(x, y, out)
    assert (out == 5).all()
    assert (product(x, y) == 5).all()


@pytest.mark.parametrize("turns", [(None, None), (turned, None), (None, turned)])
@pytest.mark.parametrize("which", ["left", "right", "both"])
def test_stacks_whose_rows_are_not_in_order(turns, which):
    generator = np.random.default_rng(0)

    def stack(rows, columns, moved):
        if not moved:
            return generator.standard_normal((60, rows, columns)).astype(np.float32)
        return generator.standard_normal((rows, columns, 60)).astype(np.float32).transpose(2, 0, 1)

    left = stack(*((9, 8) if turns[0] else (8, 9)), which != "right")
    right = stack(*((7, 9) if turns[1] else (9, 7)), which != "left")
    first, second = (t(x) if t else x for t, x in zip(turns, (left, right), strict=True))
    expected = first @ second
    np.testing.assert_allclose(
        bind_product(np, float32, *turns)(left, right), expected, rtol=1e-4, atol=1e-4
    )
    out = np.empty(expected.shape, np.float32)
    bind_product_out(float32, *turns)(left, right, out)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.int64, dtypes.int16, dtypes.uint8])
@pytest.mark.parametrize("most", [100, 1 << 30])
def test_integers_are_multiplied_exactly_and_wrap_around(dtype, most):
    generator = np.random.default_rng(9)
    for shapes in (((40, 50), (50, 60)), ((3, 40, 50), (50, 60)), ((0, 5), (5, 3)), ((2, 2),) * 2):
        a, b = (generator.integers(0, most, each).astype(dtype.as_numpy_dtype) for each in shapes)
        a = a - most // 2 if dtype.as_numpy_dtype is np.int32 else a
        expected = np.matmul(a, b)
        found = bind_product(np, dtype, None, None)(a, b)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
        out = np.empty_like(expected)
        bind_product_out(dtype, None, None)(a, b, out)
        np.testing.assert_array_equal(out, expected)
