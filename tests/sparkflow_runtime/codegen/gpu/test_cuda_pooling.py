"""Pooling in CUDA C, run on the CPU and compared with numpy's."""

import math

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.gpu import cuda_pooling
from sparkflow_runtime.codegen.gpu.cuda_pooling import Form, Geometry, PoolingProgram
from sparkflow_runtime.codegen.pooling.pooling_form import Task
from support import cuda_emulator
from support.cuda_emulator import CudaEmulator
from support.pooling import ROWS, Row, close, random_row

needs_compiler = pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    return CudaEmulator(tmp_path_factory.mktemp("cuda"))


def geometry_of(row):
    batch, *dims, channels = row.images
    windows = row.pooling.windows(row.images)
    last = row.data_format[-1] == "C"
    outer, inner = (batch, channels) if last else (batch * channels, 1)
    return Geometry(outer, tuple(dims), windows, inner)


def form_of(row, task, aligned=True):
    return Form.of(task, dtypes.as_dtype(row.dtype), geometry_of(row), aligned)


def check(emulator, row, seed, wide, aligned=True):
    for task, inputs, expected in row.calls(seed):
        result = np.full(expected.shape, 77, row.dtype)
        given = inputs[1:] if task is Task.AVERAGE_GRADIENT else inputs
        program = PoolingProgram(form_of(row, task, aligned))
        emulator.run(program, geometry_of(row).sizes, *given, result, wide=wide)
        if task is Task.MAXIMUM:
            np.testing.assert_array_equal(result, expected)
        else:
            close(result, expected)


def some_at_night():
    """Most of the rows run in daily tests: each of their functions takes a moment to compile."""
    for number, row in enumerate(ROWS):
        marks = [pytest.mark.nightly] if number % 3 == 2 else []
        yield pytest.param(number, row, id=str(row), marks=marks)


@needs_compiler
@pytest.mark.parametrize(("number", "row"), list(some_at_night()))
def test_pooling_and_gradients(number, row, emulator):
    check(emulator, row, number, wide=number % 4 == 1)


@needs_compiler
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(150))
def test_random_poolings(seed, emulator):
    rng = np.random.default_rng(seed)
    row = random_row(rng)
    if row is not None:
        check(emulator, row, seed, bool(rng.integers(2)), bool(rng.integers(4)))


@needs_compiler
def test_the_first_of_equal_maxima_gets_the_gradient(emulator):
    row = Row("NHWC", (1, 4, 4, 1), (3, 3), (1, 1), "SAME")
    images = np.full((1, 4, 4, 1), -np.inf, np.float32)
    images[0, 1:3, 1:3] = 5
    pooled, given = np.full_like(images, 5), np.ones_like(images)
    result = np.empty_like(images)
    program = PoolingProgram(form_of(row, Task.MAXIMUM_GRADIENT))
    emulator.run(program, geometry_of(row).sizes, images, pooled, given, result)
    expected = [[0, 0, 0, 0], [0, 9, 3, 0], [0, 3, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(result[0, :, :, 0], expected)


def test_windows_apart_take_one_launch_and_nothing_between():
    def plan(size, stride, channels=32):
        row = Row("NHWC", (2, 12, 12, channels), (size, size), (stride, stride))
        return PoolingProgram(form_of(row, Task.MAXIMUM_GRADIENT)).plan(geometry_of(row).sizes)

    assert [len(plan(*each).launches) for each in ((2, 2), (2, 3), (3, 2), (6, 6))] == [1, 1, 2, 2]
    assert plan(2, 2).left_bytes == ()
    assert plan(3, 2).left_bytes == (2 * 5 * 5 * 32,)  # positions of one byte each
    assert plan(2, 2).launches[0].grid == (math.ceil(2 * 6 * 6 * 32 / 4 / 256), 1)
    assert plan(2, 2, channels=3).launches[0].grid == (math.ceil(2 * 6 * 6 * 3 / 256), 1)


def test_code_does_not_depend_on_the_sizes_of_images():
    rows = [Row("NHWC", (n, 4 * n, 6 * n, 4 * n), (2, 2), (2, 2)) for n in (1, 2, 5)]
    for task in Task:
        assert len({form_of(row, task) for row in rows}) == 1


def test_packs_are_of_16_bytes_where_channels_and_arrays_allow():
    def pack(channels, dtype=np.float32, data_format="NHWC", aligned=True):
        row = Row(data_format, (2, 4, 4, channels), (2, 2), (2, 2), dtype=dtype)
        return form_of(row, Task.AVERAGE, aligned).pack

    assert [pack(n) for n in (32, 6, 5)] == [4, 2, 1]
    assert [pack(32, dtype) for dtype in (np.float16, np.float64)] == [8, 2]
    assert pack(32, data_format="NCHW") == pack(32, aligned=False) == 1


def test_many_elements_take_wide_positions():
    row = Row("NHWC", (1 << 16, 128, 128, 1), (2, 2), (2, 2))
    assert PoolingProgram(form_of(row, Task.MAXIMUM)).plan(geometry_of(row).sizes).wide
    row = Row("NHWC", (1 << 8, 128, 128, 1), (2, 2), (2, 2))
    assert not PoolingProgram(form_of(row, Task.MAXIMUM)).plan(geometry_of(row).sizes).wide


def test_divisions_by_a_product_and_a_shift_are_exact():
    rng = np.random.default_rng(0)
    sizes = {*range(1, 200), *(2**k + d for k in range(3, 31) for d in (-1, 0, 1))}
    sizes |= {int(x) for x in rng.integers(1, 1 << 31, 200)}
    for size in sizes:
        by = cuda_pooling._divisor(size)
        multiplier, shift = by & 0xFFFFFFFF, by >> 32
        most = (1 << 31) - 1
        places = {
            0,
            1,
            size - 1,
            size,
            size + 1,
            most,
            most // size * size,
            most // size * size - 1,
        }
        places |= {int(x) for x in rng.integers(0, 1 << 31, 50)}
        for place in places:
            if 0 <= place <= most:
                assert place * multiplier >> shift == place // size
