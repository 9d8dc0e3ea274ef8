"""Local response normalisation on a GPU: on the stand-in, and on a real GPU."""

from types import SimpleNamespace

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.device.gpu import Gpu
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources.container import Resources
from support import cuda_emulator, fake_cupy

needs_compiler = pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")
ATTRS = {"depth_radius": 2, "bias": 1.5, "alpha": 0.25, "beta": 0.75}


def bound(gpu, name, dtype):
    node = SimpleNamespace(name="n", op=name, attrs={**ATTRS, "T": dtypes.as_dtype(dtype)})
    context = KernelContext(gpu.cupy, "GPU", "/device:GPU:0", Resources(), Resources(), gpu=gpu)
    return registry.lookup(name).bind(node, context), registry.lookup(name).bind_out_gpu(node, gpu)


def check(cupy, dtype, shape=(2, 3, 5, 7)):
    gpu = Gpu(cupy, 0)
    rng = np.random.default_rng(0)
    images, given = rng.normal(size=(2, *shape)).astype(dtype)
    made = registry.lookup("LRN").compute(np, images, **ATTRS)
    rough = 4e-3 if dtype == np.float16 else 1e-5
    for name, inputs in (("LRN", [images]), ("LRNGrad", [given, images, made])):
        expected = registry.lookup(name).compute(np, *inputs, **ATTRS)
        make, fill = bound(gpu, name, dtype)
        with gpu.new_stream().running():
            card = [cupy.asarray(each) for each in inputs]
            out = cupy.empty(images.shape, dtype)
            fill(*card, out)
            results = [cupy.asnumpy(each) for each in (make(*card), out)]
        for each in results:
            np.testing.assert_allclose(each, expected, rtol=rough, atol=rough)


@needs_compiler
def test_on_the_stand_in(tmp_path):
    check(fake_cupy.emulated(tmp_path), np.float32)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_on_a_card(dtype):
    check(pytest.importorskip("cupy"), dtype, (8, 24, 24, 64))


@needs_compiler
def test_a_step_launches_one_kernel_and_going_back_two(tmp_path):
    cupy = fake_cupy.emulated(tmp_path)
    images, out = (cupy.zeros((2, 3, 5, 7), np.float32) for _ in range(2))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        bound(Gpu(cupy, 0), "LRN", np.float32)[1](images, out)
        assert len(stream._queue) == 1
        bound(Gpu(cupy, 0), "LRNGrad", np.float32)[1](images, images, images, out)
        assert len(stream._queue) == 3
        stream.synchronize()


def test_other_dtypes_are_left_to_cupy():
    gpu = Gpu(fake_cupy.FakeCupy(), 0)
    assert bound(gpu, "LRN", dtypes.bfloat16.numpy)[1] is None
