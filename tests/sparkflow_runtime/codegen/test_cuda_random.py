"""Random kernels as CUDA C on the CPU, compared with the interpreter of kernels."""

import numpy as np
import pytest

from sparkflow_runtime.codegen.cpu.loops import UnsupportedKernel
from sparkflow_runtime.codegen.gpu.cuda import CudaProgram
from support import cuda_emulator, kernel_interpreter
from support.cuda_emulator import CudaEmulator
from support.random_kernels import random_array, random_kernel, random_sizes

pytestmark = pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")


def check(kernel, sizes, rng, emulator):
    program = CudaProgram(kernel)
    try:
        program.plan(sizes)
    except UnsupportedKernel:
        assert 0 in sizes
        return
    given = [
        random_array(rng, each.dtype, [s for s, flag in zip(sizes, each.axes, strict=True) if flag])
        for each in kernel.inputs
    ]
    expected = kernel_interpreter.run(kernel, sizes, *given)
    results = [np.frombuffer(b"\xaa" * each.nbytes, each.dtype).copy() for each in expected]
    emulator.run(program, sizes, *given, *results)
    for got, wanted in zip(results, expected, strict=True):
        close = {"rtol": 1e-4, "atol": 1e-4} if wanted.dtype.kind == "f" else {"rtol": 0}
        np.testing.assert_allclose(got.reshape(wanted.shape), wanted, **close)


@pytest.mark.parametrize("seed", range(300, 310))
def test_random_kernels(seed, tmp_path):
    rng = np.random.default_rng(seed)
    kernel = random_kernel(rng)
    emulator = CudaEmulator(tmp_path)
    for _ in range(3):
        check(kernel, random_sizes(rng, kernel.rank), rng, emulator)
