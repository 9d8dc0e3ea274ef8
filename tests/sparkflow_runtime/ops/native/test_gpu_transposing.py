import numpy as np
import pytest

from sparkflow_runtime.ops.native.gpu_transposing import GpuTransposer
from support import cuda_emulator, fake_cupy

pytestmark = pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")
ROWS = [
    # shape, order, whether there is a kernel
    ((5, 5, 16, 40), (3, 0, 1, 2), True),
    ((40, 5, 5, 16), (1, 2, 3, 0), True),
    ((3, 9, 10, 12), (0, 3, 1, 2), True),
    ((3, 9, 10, 3), (0, 3, 1, 2), False),
    ((2, 9, 3, 12), (0, 2, 1, 3), False),
    ((9, 10), (0, 1), False),
    ((0, 9, 10), (0, 2, 1), True),
]


def check(cupy, shape, axes, dtype, launches):
    x = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
    transposer = GpuTransposer(cupy)
    out = cupy.empty(x.transpose(axes).shape, dtype)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        given = cupy.asarray(x) + cupy.zeros((), dtype)  # still pending
        transposer.fill(given, axes, out)
        made = transposer.transposed(given, axes)
        assert len(transposer._kernels) == launches
        stream.synchronize()
    for each in (out, made):
        assert each.flags.c_contiguous
        np.testing.assert_array_equal(cupy.asnumpy(each), x.transpose(axes))


@pytest.mark.parametrize(("shape", "axes", "is_tiled"), ROWS)
def test_on_the_stand_in(shape, axes, is_tiled, tmp_path):
    check(fake_cupy.emulated(tmp_path), shape, axes, np.float32, is_tiled)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("shape", "axes", "is_tiled"), [*ROWS, ((64, 784, 96), (0, 2, 1), True)])
def test_on_a_card(shape, axes, is_tiled, dtype):
    check(pytest.importorskip("cupy"), shape, axes, dtype, is_tiled)


def test_elements_without_a_kernel_and_arrays_with_gaps(tmp_path):
    cupy = fake_cupy.emulated(tmp_path)
    check(cupy, (9, 10), (1, 0), np.complex128, 0)
    x = np.random.default_rng(0).normal(size=(20, 30))
    out = cupy.empty((15, 10), x.dtype)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        GpuTransposer(cupy).fill(cupy.asarray(x)[::2, ::2], (1, 0), out)
        stream.synchronize()
    np.testing.assert_array_equal(out.memory, x[::2, ::2].T)
