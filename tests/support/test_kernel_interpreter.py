import numpy as np
import pytest

from sparkflow_runtime.codegen.ir.builder import KernelBuilder
from sparkflow_runtime.dtypes import bool_, float32, int32, int64
from support.kernel_interpreter import run


def test_values_are_broadcast_along_what_they_do_not_have():
    builder = KernelBuilder(3)
    x = builder.input(float32, (True, False, True))
    y = builder.input(float32, (False, True, False))
    builder.output(x * y)
    builder.output(x)
    builder.output(builder.constant(2, float32))
    arrays = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(4, dtype=np.float32)
    product, same, two = run(builder.build(), [2, 4, 3], *arrays)
    np.testing.assert_array_equal(product, arrays[0][:, None] * arrays[1][None, :, None])
    np.testing.assert_array_equal(same, arrays[0])
    assert two.shape == ()


def test_index_counts_along_its_dimension():
    builder = KernelBuilder(2)
    label = builder.input(int64, (True, False))
    builder.output(builder.cast(builder.index(1).equal(label), float32))
    (found,) = run(builder.build(), [2, 3], np.array([2, 0]))
    np.testing.assert_array_equal(found, [[0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize(
    ("name", "function"),
    [("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min)],
)
def test_reductions(name, function):
    builder = KernelBuilder(3)
    x = builder.input(float32, (True, True, True))
    for over in ((False, True, True), (True, False, False), (True, True, True)):
        builder.output(builder.reduce(f"reduce_{name}", x, over))
    array = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    array[0, 1, 2] = np.nan
    found = run(builder.build(), [2, 3, 4], array)
    for each, axes in zip(found, [(1, 2), (0,), (0, 1, 2)], strict=True):
        np.testing.assert_allclose(each, function(array, axis=axes), rtol=1e-6)


def test_reductions_of_nothing():
    builder = KernelBuilder(1)
    x, i = builder.input(float32, (True,)), builder.input(int32, (True,))
    for name in ("sum", "prod", "max", "min"):
        for value in (x, i):
            builder.output(builder.reduce(f"reduce_{name}", value, (True,)))
    found = run(builder.build(), [0], np.zeros(0, np.float32), np.zeros(0, np.int32))
    assert [each.item() for each in found] == [0, 0, 1, 1, -np.inf, -(2**31), np.inf, 2**31 - 1]


def test_what_does_not_vary_counts_as_often():
    builder = KernelBuilder(1)
    x = builder.input(float32, (False,))
    builder.output(builder.reduce("reduce_sum", x, (True,)))
    (found,) = run(builder.build(), [7], np.array(3, np.float32))
    assert found == 21


def test_integers_wrap_and_choice_keeps_dtypes():
    builder = KernelBuilder(1)
    x, c = builder.input(int32, (True,)), builder.input(bool_, (True,))
    builder.output(x * x)
    builder.output(builder.call("where", c, x, 5))
    values = np.array([2**20, -3], np.int32), np.array([True, False])
    square, chosen = run(builder.build(), [2], *values)
    np.testing.assert_array_equal(square, [0, 9])
    np.testing.assert_array_equal(chosen, [2**20, 5])
    assert chosen.dtype == np.int32


def test_arrays_that_do_not_fit_are_refused():
    builder = KernelBuilder(2)
    builder.output(-builder.input(float32, (True, True)))
    kernel = builder.build()
    with pytest.raises(ValueError, match=r"float32 of shape \(2, 3\), got float32 \(3, 2\)"):
        run(kernel, [2, 3], np.zeros((3, 2), np.float32))
    with pytest.raises(ValueError, match="got float64"):
        run(kernel, [2, 3], np.zeros((2, 3)))
    with pytest.raises(ValueError, match="1 arrays and 2 sizes, got 0 and 2"):
        run(kernel, [2, 3])
