"""What only a real GPU can test: results of generated kernels and of libraries, and overlap."""

import numpy as np
import pytest

from sparkflow_runtime.codegen.cpu.loops import UnsupportedKernel
from sparkflow_runtime.codegen.gpu.cuda import CudaProgram
from sparkflow_runtime.device import gpu_convolution
from sparkflow_runtime.device.gpu import Gpu
from sparkflow_runtime.device.gpu_graph import SteadyPlan
from sparkflow_runtime.device.gpu_kernels import GpuKernel
from sparkflow_runtime.device.gpu_products import GpuProducts, Precision
from support import kernel_interpreter
from support.random_kernels import random_array, random_kernel, random_sizes

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture
def gpu(cupy):
    return Gpu(cupy, 0)


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_are_as_interpreted(cupy, gpu, seed):
    rng = np.random.default_rng(seed)
    kernel = random_kernel(rng)
    compiled = GpuKernel(cupy, CudaProgram(kernel))
    with gpu.new_stream().running():
        for _ in range(3):
            sizes = random_sizes(rng, kernel.rank)
            try:
                run = compiled.bind(sizes)
            except UnsupportedKernel:
                assert 0 in sizes
                continue
            given = [
                random_array(
                    rng, each.dtype, [s for s, flag in zip(sizes, each.axes, strict=True) if flag]
                )
                for each in kernel.inputs
            ]
            expected = kernel_interpreter.run(kernel, sizes, *given)
            results = [cupy.full(each.shape, 77, each.dtype) for each in expected]
            assert run(*map(cupy.asarray, given), *results)
            for got, wanted in zip(results, expected, strict=True):
                close = {"rtol": 1e-4, "atol": 1e-4} if wanted.dtype.kind == "f" else {"rtol": 0}
                np.testing.assert_allclose(cupy.asnumpy(got), wanted, **close)


@pytest.mark.parametrize(
    ("precision", "tolerance"),
    [(Precision.FLOAT32, 1e-5), (Precision.TF32, 5e-3), (Precision.BFLOAT16, 4e-2)],
)
def test_products_are_as_exact_as_they_are_asked_to_be(cupy, precision, tolerance):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(129, 257)).astype(np.float32)
    b = rng.normal(size=(65, 257)).astype(np.float32)
    out = cupy.empty((129, 65), np.float32)
    GpuProducts(cupy, precision).multiply(cupy.asarray(a), cupy.asarray(b), out, False, True)
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    scale = np.abs(a) @ np.abs(b.T)
    assert np.max(np.abs(cupy.asnumpy(out) - exact) / scale) < tolerance


@pytest.mark.parametrize("after", [1, 2])
@pytest.mark.parametrize("kind", ["forward", "input_gradient", "filter_gradient"])
def test_convolutions_of_cudnn(cupy, kind, after):
    """With as many rows and columns of zeros on both sides, and with one more at the end."""
    front_end = gpu_convolution.front_end()
    if front_end is None:
        pytest.skip("cuDNN's front end is not installed (pip install nvidia-cudnn-frontend)")
    rng = np.random.default_rng(0)
    image = rng.normal(size=(2, 6, 7, 4)).astype(np.float16)  # NHWC
    filters = rng.normal(size=(8, 3, 3, 4)).astype(np.float16)  # KRSC
    around = ((0, 0), (1, after), (1, after), (0, 0))
    padded = np.pad(image, around).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    wide = filters.astype(np.float32)
    result = np.einsum("nhwcij,kijc->nhwk", windows, wide)
    loss = rng.normal(size=result.shape).astype(np.float16)
    height, width = result.shape[1:3]
    if kind == "forward":
        first, second, expected = image, filters, result
    elif kind == "input_gradient":
        first, second = loss, filters
        spread = np.zeros_like(padded)
        for i in range(3):
            for j in range(3):
                there = slice(i, i + height), slice(j, j + width)
                spread[(slice(None), *there)] += loss.astype(np.float32) @ wide[:, i, j]
        expected = spread[:, 1:7, 1:8]
    else:
        first, second = image, loss
        expected = np.einsum("nhwcij,nhwk->kijc", windows, loss.astype(np.float32))
    wanted = gpu_convolution.Convolution(
        kind,
        (2, 4, 6, 7),
        (8, 4, 3, 3),
        (2, 8, height, width),
        channels_last=True,
        strides=(1, 1),
        dilations=(1, 1),
        before=(1, 1),
        after=(after, after),
        dtype="float16",
    )
    out = cupy.empty(expected.shape, np.float16)
    convolutions = gpu_convolution.GpuConvolutions(cupy, front_end)
    assert convolutions.run(wanted, cupy.asarray(first), cupy.asarray(second), out)
    np.testing.assert_allclose(cupy.asnumpy(out), expected, rtol=2e-2, atol=2e-1)


def test_streams_overlap(cupy, gpu):
    """Two kernels of one block each that wait for each other end only if both run at once."""
    code = """
    extern "C" __global__ void meet(volatile int* mine, volatile int* other, int* met) {
        *mine = 1;
        __threadfence();
        for (long long i = 0; i < 100000000LL; ++i)
            if (*other) { *met = 1; return; }
    }"""
    meet = cupy.RawKernel(code, "meet")
    flags, met = cupy.zeros(2, np.int32), cupy.zeros(2, np.int32)
    cupy.cuda.Device(0).synchronize()
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    with first:
        meet((1,), (1,), (flags[0:1], flags[1:2], met[0:1]))
    with second:
        meet((1,), (1,), (flags[1:2], flags[0:1], met[1:2]))
    first.synchronize()
    second.synchronize()
    assert cupy.asnumpy(met).tolist() == [1, 1]


def test_the_host_goes_on_while_a_feed_is_copied(cupy, gpu):
    stream = gpu.new_stream()
    host = np.ones(1 << 24, np.float32)
    with stream.running() as current:
        gpu.staging.copy(host, current)  # creates the buffer
        current.synchronize()
        array = gpu.staging.copy(host, current)
        host[...] = 2  # the buffer keeps its contents
        current.synchronize()
        assert float(array.min()) == float(array.max()) == 1


def test_a_recording_replays_on_the_card(cupy, gpu):
    weights = type("Variable", (), {"array": cupy.zeros(1000, np.float32)})()

    def step(_, x):
        cupy.add(weights.array, x, out=weights.array)
        return [weights.array * 2]

    stream = gpu.new_stream()
    plan = SteadyPlan(cupy, step, lambda: [weights])
    total = 0
    for value in range(1, 12):
        total += value
        with stream.running() as current:
            (result,) = plan.run(current, gpu.staging, [np.full(1000, value, np.float32)])
        np.testing.assert_array_equal(result, np.full(1000, 2 * total))
    assert plan.refusal == ""
    assert plan.replays > 0


def test_memory_in_use_is_the_pools(cupy, gpu):
    with gpu.new_stream().running(), gpu.memory.watched() as use:
        array = cupy.empty(1 << 20, np.uint8)
        cupy.empty(1 << 20, np.uint8)
        assert gpu.memory.used_bytes() >= array.nbytes
    assert use.peak_bytes >= 2 << 20
    assert use.live_bytes < use.peak_bytes
