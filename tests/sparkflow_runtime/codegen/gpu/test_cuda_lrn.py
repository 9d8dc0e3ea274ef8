import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.gpu.cuda_lrn import LrnProgram
from sparkflow_runtime.ops import registry
from support import cuda_emulator
from support.cuda_emulator import CudaEmulator

NUMBERS = {"bias": 1.5, "alpha": 0.25, "beta": 0.75}


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    return CudaEmulator(tmp_path_factory.mktemp("cuda"))


@pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")
@pytest.mark.parametrize(
    ("dtype", "radius", "channels", "wide"),
    [
        (np.float32, 2, 7, False),
        (np.float32, 5, 3, True),
        (np.float64, 9, 40, False),
        (np.float16, 1, 8, False),
    ],
)
def test_normalisation_and_gradient(dtype, radius, channels, wide, emulator):
    rng = np.random.default_rng(0)
    images, given = rng.normal(size=(2, 2, 3, 5, channels)).astype(dtype)
    sizes, kind = (images.size, channels), dtypes.as_dtype(dtype)
    attrs = {"depth_radius": radius, **NUMBERS}
    tolerance = {"rtol": 4e-3 if dtype == np.float16 else 2e-6, "atol": 1e-3 * np.finfo(dtype).eps}
    expected = registry.lookup("LRN").compute(np, images, **attrs)
    result = np.full_like(images, 77)
    emulator.run(LrnProgram(kind, False, radius, **NUMBERS), sizes, images, result, wide=wide)
    np.testing.assert_allclose(result, expected, **tolerance)
    arrays = (given, images, expected)
    gradient = registry.lookup("LRNGrad").compute(np, *arrays, **attrs)
    result[...] = 77
    emulator.run(LrnProgram(kind, True, radius, **NUMBERS), sizes, *arrays, result, wide=wide)
    np.testing.assert_allclose(
        result, gradient, rtol=tolerance["rtol"], atol=2e-3 if dtype == np.float16 else 1e-6
    )


def test_launches():
    plan = LrnProgram(dtypes.float16, True, 5, **NUMBERS).plan((600, 6))
    assert [launch.grid for launch in plan.launches] == [(3, 1), (3, 1)]
    assert plan.left_bytes == (2400,)  # shares are not rounded
    assert LrnProgram(dtypes.float32, False, 5, **NUMBERS).plan((0, 6)).launches == ()
    assert LrnProgram(dtypes.float32, False, 5, **NUMBERS).plan((1 << 30, 6)).wide
