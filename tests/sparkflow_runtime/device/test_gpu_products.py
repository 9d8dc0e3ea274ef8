from types import SimpleNamespace

import numpy as np
import pytest

from sparkflow_runtime.device.gpu_blas import CupyBlas
from sparkflow_runtime.device.gpu_products import GpuProducts, Precision, precision, set_precision
from sparkflow_runtime.errors import InvalidArgumentError
from support.fake_cublas import FakeCublas
from support.fake_cupy import FakeCupy


def products(wanted=Precision.TF32):
    cupy, cublas = FakeCupy(), FakeCublas()
    return cupy, cublas, GpuProducts(cupy, wanted, CupyBlas(cupy, cublas))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 7, 2), (6, 1, 1)])
def test_products_of_rows_first_matrices(sizes, transpose_a, transpose_b, dtype):
    rows, inner, columns = sizes
    rng = np.random.default_rng(0)
    cupy, _, gpu = products()
    a = cupy.asarray(rng.normal(size=(inner, rows) if transpose_a else (rows, inner)).astype(dtype))
    b_shape = (columns, inner) if transpose_b else (inner, columns)
    b = cupy.asarray(rng.normal(size=b_shape).astype(dtype))
    out = cupy.asarray(np.full((rows, columns), np.nan, dtype))
    gpu.multiply(a, b, out, transpose_a, transpose_b)
    cupy.cuda.get_current_stream().synchronize()
    left, right = a.memory, b.memory
    expected = (left.T if transpose_a else left) @ (right.T if transpose_b else right)
    close = 1e-2 if dtype is np.float16 else 1e-5
    np.testing.assert_allclose(out.memory, expected, rtol=close, atol=close)


@pytest.mark.parametrize("counts", [(4, 4), (1, 4), (4, 1)])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_of_stacks(counts, transpose_a, transpose_b):
    rng = np.random.default_rng(0)
    cupy, cublas, gpu = products()
    a = rng.normal(size=(counts[0], *((5, 3) if transpose_a else (3, 5)))).astype(np.float32)
    b = rng.normal(size=(counts[1], *((2, 5) if transpose_b else (5, 2)))).astype(np.float32)
    out = cupy.empty((4, 3, 2), np.float32)
    gpu.multiply(cupy.asarray(a), cupy.asarray(b), out, transpose_a, transpose_b)
    left, right = (
        x.swapaxes(1, 2) if turned else x for x, turned in ((a, transpose_a), (b, transpose_b))
    )
    np.testing.assert_allclose(cupy.asnumpy(out), left @ right, rtol=1e-5, atol=1e-6)
    assert cublas.counts == [4]


@pytest.mark.parametrize(
    ("wanted", "single"),
    [(Precision.FLOAT32, 68), (Precision.TF32, 77), (Precision.BFLOAT16, 75)],
)
def test_the_precision_is_that_of_float32_only(wanted, single):
    cupy, cublas, gpu = products(wanted)
    for dtype in (np.float32, np.float64):
        a = cupy.asarray(np.ones((2, 2), dtype))
        gpu.multiply(a, a, cupy.empty((2, 2), dtype))
    assert cublas.compute_types == [single, 70]


def test_products_of_nothing():
    cupy, cublas, gpu = products()
    out = cupy.asarray(np.ones((2, 3)))
    gpu.multiply(cupy.empty((2, 0), float), cupy.empty((0, 3), float), out)
    cupy.cuda.get_current_stream().synchronize()
    np.testing.assert_array_equal(out.memory, np.zeros((2, 3)))
    gpu.multiply(cupy.empty((0, 2), float), cupy.empty((2, 3), float), cupy.empty((0, 3), float))
    assert cublas.compute_types == []


def test_shapes_that_do_not_fit():
    cupy, _, gpu = products()
    a, b, out = (cupy.empty(shape, float) for shape in ((2, 3), (2, 3), (2, 2)))
    gpu.multiply(a, b, out, False, True)
    with pytest.raises(InvalidArgumentError, match=r"\(2, 3\) and \(2, 3\)"):
        gpu.multiply(a, b, out)
    a, b, out = (cupy.empty(shape, float) for shape in ((4, 2, 3), (3, 3, 2), (4, 2, 2)))
    with pytest.raises(InvalidArgumentError, match=r"\(4, 2, 3\) and \(3, 3, 2\)"):
        gpu.multiply(a, b, out)


def test_the_policy_is_set_for_cupys_own_products():
    calls = []
    routines = SimpleNamespace(
        COMPUTE_TYPE_FP32="fp32",
        COMPUTE_TYPE_TF32="tf32",
        COMPUTE_TYPE_BF16="bf16",
        set_compute_type=lambda dtype, kind: calls.append((dtype, kind)),
    )
    for each in Precision:
        set_precision(each, routines)
    assert calls == [(np.float32, "fp32"), (np.float32, "tf32"), (np.float32, "bf16")]


def test_precisions_have_names():
    assert precision("tf32") is Precision.TF32
    with pytest.raises(InvalidArgumentError, match=r"'half'; choose one of 'float32', 'tf32'"):
        precision("half")
