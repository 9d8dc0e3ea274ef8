import numpy as np
import pytest

from sparkflow_runtime.codegen.gpu.cuda_transposition import ELEMENTS, TranspositionProgram
from support import cuda_emulator
from support.cuda_emulator import CudaEmulator

SIZES = [(1, 64, 32), (3, 33, 70), (2, 5, 100), (1, 200, 1), (2, 0, 3), (0, 3, 3)]


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    return CudaEmulator(tmp_path_factory.mktemp("cuda"))


@pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")
@pytest.mark.parametrize("size_bytes", ELEMENTS)
def test_transposed_matrices(size_bytes, emulator):
    program, wide = TranspositionProgram(size_bytes), size_bytes in (2, 4)
    for sizes in SIZES:
        bits = np.random.default_rng(0).integers(0, 256, (*sizes, size_bytes)).astype(np.uint8)
        given = bits.view(f"u{size_bytes}").reshape(sizes)
        result = np.zeros((sizes[0], sizes[2], sizes[1]), given.dtype)
        emulator.run(program, sizes, given, result, wide=wide)
        np.testing.assert_array_equal(result, given.transpose(0, 2, 1))


def test_large_arrays_take_wide_positions():
    assert TranspositionProgram(4).plan((1 << 10, 1 << 10, 1 << 10)).wide
    assert not TranspositionProgram(4).plan((1 << 8, 1 << 10, 1 << 10)).wide


def test_a_block_has_a_tile():
    (launch,) = TranspositionProgram(4).plan((3, 33, 70)).launches
    assert launch.grid == (3 * 2 * 3, 1)
    assert launch.block == (32, 8)
