import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.optimizers import gpu_update
from support import cuda_emulator, fake_cupy

ATTRS = {"use_locking": False, "update_slots": True, "multiply_linear_by_lr": False}


def bound(cupy, name, dtype=dtypes.float32):
    return gpu_update.bind(cupy, registry.lookup(name), dtype, ATTRS)


@pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")
def test_an_update_is_one_launch_in_place(tmp_path):
    cupy = fake_cupy.emulated(tmp_path)
    update = bound(cupy, "ApplyAdagrad")
    rng = np.random.default_rng(0)
    given = [rng.random((3, 70)).astype(np.float32) + 1 for _ in range(3)]
    variable, slot, gradient = map(cupy.asarray, given)
    rate = cupy.asarray(np.float32(0.5))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        assert update([variable, slot], [None, None, rate, gradient])
        assert len(stream._queue) == 1
        stream.synchronize()
    expected = given[1] + given[2] ** 2
    np.testing.assert_allclose(slot.memory, expected, rtol=1e-6)
    np.testing.assert_allclose(
        variable.memory, given[0] - given[2] / np.sqrt(expected) * 0.5, rtol=1e-5
    )
    assert not update([variable, slot], [None, None, rate, gradient[:2]])


@pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")
@pytest.mark.parametrize("slots_only", [False, True])
def test_rows_without_a_gradient_are_one_launch(tmp_path, slots_only):
    cupy = fake_cupy.emulated(tmp_path)
    op = registry.lookup("SparseApplyAdam")
    attrs = {"use_nesterov": False}
    decay = gpu_update.bind_decay(cupy, op, dtypes.float32, attrs, slots_only)
    rng = np.random.default_rng(0)
    w, m, v = (rng.random((3, 70)).astype(np.float32) + 1 for _ in range(3))
    given = [cupy.asarray(each) for each in (w, m, v)]
    numbers = (0.5, 0.25, 0.125, 0.75, 0.875, 0.5)
    scalars = [cupy.asarray(np.float32(each)) for each in numbers]
    indices = cupy.asarray(np.array([1]))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        assert decay(given, indices, [*given, *scalars, None, indices])
        stream.synchronize()
    others = [0, 2]
    after = [m[others] * 0.75, v[others] * 0.875]
    step = 0.125 * np.sqrt(0.75) / 0.5 * after[0] / (np.sqrt(after[1]) + 0.5)
    after = [w[others] - (0 if slots_only else step), *after]
    for found, start, expected in zip(given, (w, m, v), after, strict=True):
        np.testing.assert_allclose(found.memory[others], expected, rtol=1e-5)
        np.testing.assert_array_equal(found.memory[1], start[1])


@pytest.mark.parametrize("name", ["ApplyFtrl", "SparseApplyAdagrad"])
def test_what_it_does_not_do(name):
    assert bound(fake_cupy.FakeCupy(), name) is None


def test_dtypes_it_does_not_do():
    assert bound(fake_cupy.FakeCupy(), "ApplyGradientDescent", dtypes.float16) is None
