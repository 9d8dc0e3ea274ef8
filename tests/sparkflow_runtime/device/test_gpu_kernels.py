"""Fused kernels on the stand-in for cupy, which runs their CUDA C on the CPU."""

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.gpu.cuda import CudaProgram
from sparkflow_runtime.codegen.ir.kernel import Instruction, Kernel, Operand
from sparkflow_runtime.device import gpu_kernels
from sparkflow_runtime.device.gpu_kernels import GpuKernel
from support import cuda_emulator
from support.cuda_emulator import CudaEmulator
from support.fake_cupy import FakeCupy

pytestmark = pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")

F32 = dtypes.float32
BOTH = (True, True)
CENTRED = Kernel(
    2,
    (Operand(F32, BOTH), Operand(F32, (True, False))),
    (
        Instruction("subtract", (0, 1), F32),
        Instruction("multiply", (2, 2), F32),
        Instruction("reduce_sum", (3,), F32, BOTH),
        Instruction("reduce_sum", (3,), F32, (True, False)),
    ),
    (2, 4, 5),
)
SIZES = (70, 40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cuda")


@pytest.fixture
def cupy(folder):
    emulator = CudaEmulator(folder)

    def launch(source, name, grid, block, arguments):
        numbers = [each if isinstance(each, np.int64) else each.data.ptr for each in arguments]
        emulator.launch(source, name, grid, block, numbers)

    made = FakeCupy(launch)
    with made.cuda.Stream(non_blocking=True):
        yield made


def arrays(cupy):
    rng = np.random.default_rng(0)
    x = cupy.asarray(rng.normal(size=SIZES).astype(np.float32))
    mean = cupy.asarray(rng.normal(size=SIZES[0]).astype(np.float32))
    return x, mean, *(cupy.empty(shape, np.float32) for shape in (SIZES, (), SIZES[1:]))


def test_launches_are_work_of_the_current_stream(cupy):
    run = GpuKernel(cupy, CudaProgram(CENTRED)).bind(SIZES)
    x, mean, centred, total, columns = arrays(cupy)
    assert run(x, mean, centred, total, columns) is True
    expected = x.memory - mean.memory[:, None]
    assert not np.array_equal(centred.memory, expected)  # still pending
    cupy.cuda.get_current_stream().synchronize()
    np.testing.assert_array_equal(centred.memory, expected)
    np.testing.assert_allclose(total.memory, (expected**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(columns.memory, (expected**2).sum(0), rtol=1e-5)


def test_runs_may_follow_each_other_without_waiting(cupy):
    """Scratch data of a run's launches is not used by other runs."""
    run = GpuKernel(cupy, CudaProgram(CENTRED)).bind(SIZES)
    first, second = arrays(cupy), arrays(cupy)
    second[0].memory[...] *= 3
    assert run(*first)
    assert run(*second)
    cupy.cuda.get_current_stream().synchronize()
    for x, mean, _, total, _ in (first, second):
        expected = x.memory - mean.memory[:, None]
        np.testing.assert_allclose(total.memory, (expected**2).sum(), rtol=1e-5)


def test_arrays_that_do_not_fit_are_refused_and_left_alone(cupy):
    run = GpuKernel(cupy, CudaProgram(CENTRED)).bind(SIZES)
    x, mean, *outputs = arrays(cupy)
    stream = cupy.cuda.get_current_stream()
    refused = [
        (x.memory, mean, *outputs),
        (x[:, ::-1], mean, *outputs),
        (x[:-1], mean, *outputs),
        (x, mean, *outputs[:-1]),
    ]
    for each in refused:
        assert run(*each) is False
    assert not stream._queue


def test_a_program_is_compiled_once_and_without_fast_maths(cupy):
    compiled = []
    raw_module = cupy.RawModule

    def counting(*, code, options):
        compiled.append(options)
        return raw_module(code=code, options=options)

    cupy.RawModule = counting
    kernel = GpuKernel(cupy, CudaProgram(CENTRED))
    assert compiled == []
    for _ in range(3):
        kernel.bind(SIZES)
    assert compiled == [("--std=c++17",)]
    kernel.bind((1 << 20, 1 << 20))  # 64-bit positions
    assert len(compiled) == 2


def test_an_empty_kernel_launches_nothing(cupy):
    kernel = Kernel(1, (Operand(F32, (True,)),), (Instruction("exp", (0,), F32),), (1,))
    run = GpuKernel(cupy, CudaProgram(kernel)).bind((0,))
    assert run(cupy.empty(0, np.float32), cupy.empty(0, np.float32))
    assert not cupy.cuda.get_current_stream()._queue


def test_what_is_bound_is_remembered_for_the_latest_sizes(cupy, monkeypatch):
    monkeypatch.setattr(gpu_kernels, "REMEMBERED", 2)
    kernel = GpuKernel(cupy, CudaProgram(CENTRED))
    first = kernel.bound(SIZES)
    assert kernel.bound(SIZES) is first
    x, mean, *outs = arrays(cupy)
    assert first(x, mean, *outs)
    for rows in (1, 2):
        kernel.bound((rows, 3))
    assert kernel.bound(SIZES) is not first
