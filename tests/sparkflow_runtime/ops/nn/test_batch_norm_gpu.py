"""Batch normalisation on a GPU gives the same as on a CPU; on the stand-in and on a GPU."""

from types import SimpleNamespace

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.device.gpu import Gpu
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.nn import batch_norm_gpu
from support import cuda_emulator, fake_cupy

FORMATS = {"NHWC": (3, 5, 4, 6), "NCHW": (3, 6, 5, 4), "NDHWC": (2, 3, 2, 3, 5)}
CASES = [
    (data_format, is_training, average, dtype)
    for data_format in FORMATS
    for is_training, average in ((True, 1.0), (True, 0.9), (False, 1.0))
    for dtype in (dtypes.float32, dtypes.float64)
]


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    return fake_cupy.emulated(tmp_path_factory.mktemp("cuda"))


def node(op, data_format, is_training, average, dtype):
    attrs = {
        "T": dtype,
        "epsilon": 1e-3,
        "exponential_avg_factor": average,
        "data_format": data_format,
        "is_training": is_training,
    }
    return SimpleNamespace(name="n", op=op, attrs=attrs)


def both(cupy, op, case, shape, gradient):
    """The outputs on a GPU and on a CPU."""
    rng = np.random.default_rng(0)
    dtype = case[3].numpy
    channels = shape[-1] if case[0].endswith("C") else shape[1]
    images = [(rng.normal(size=shape) * 2 + 3).astype(dtype) for _ in range(1 + gradient)]
    vectors = [rng.uniform(0.5, 2, channels).astype(dtype) for _ in range(3 if gradient else 4)]
    shapes = [shape] + [(channels,)] * (2 if gradient else 4) + [(0,)] * (2 if gradient else 0)
    found = [cupy.asarray(np.full(each, np.nan, dtype)) for each in shapes]
    expected = [np.full(each, np.nan, dtype) for each in shapes]
    with cupy.cuda.Stream(non_blocking=True):
        kernel = op.bind_out_gpu(node(op.op_type, *case), Gpu(cupy, 0))
        kernel(*map(cupy.asarray, (*images, *vectors)), *found)
        found = [cupy.asnumpy(each) for each in found]
    context = SimpleNamespace(xp=np)
    with np.errstate(all="ignore"):
        op.bind_out(node(op.op_type, *case), context)(*images, *vectors, *expected)
    return found, expected


def check(cupy, case, shape, gradient):
    op = registry.lookup("FusedBatchNormGrad" if gradient else "FusedBatchNorm")
    rtol = 2e-4 if case[3] is dtypes.float32 else 1e-10
    for one, other in zip(*both(cupy, op, case, shape, gradient), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


def float64_at_night():
    for case in CASES:
        is_daily = case[3] is dtypes.float32 and case[0] != "NDHWC"
        yield pytest.param(case, marks=[] if is_daily else [pytest.mark.nightly], id=str(case))


@pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("case", list(float64_at_night()))
def test_a_gpus_numbers_are_a_cpus(stand_in, case, gradient):
    check(stand_in, case, FORMATS[case[0]], gradient)


@pytest.mark.parametrize("gradient", [False, True])
def test_no_images_are_left_to_the_other_kernel(gradient):
    check(fake_cupy.FakeCupy(), ("NHWC", True, 1.0, dtypes.float32), (0, 5, 4, 6), gradient)


@pytest.mark.parametrize("bind", [batch_norm_gpu.bind, batch_norm_gpu.bind_gradient])
def test_what_the_kernels_do_not_take_is_left_to_the_other_one(stand_in, bind):
    """For example vectors of a different length: never results of earlier contents."""
    attrs = node("", "NHWC", True, 1.0, dtypes.float32).attrs
    left = []
    kernel = bind(Gpu(stand_in, 0), dtypes.float32, attrs, lambda *arrays: left.append(arrays))
    images = [stand_in.zeros((2, 2, 2, 3), np.float32) for _ in range(2)]
    vectors = [stand_in.zeros(5, np.float32) for _ in range(4)]
    given = [*images[:1], *vectors] if bind is batch_norm_gpu.bind else [*images, *vectors[:3]]
    kernel(*given, images[0], *vectors)
    assert len(left) == 1


def test_statistics_of_another_type_are_left_to_the_other_kernel():
    given = node("FusedBatchNormV3", "NHWC", True, 1.0, dtypes.float16)
    given.attrs["U"] = dtypes.float32
    gpu = Gpu(fake_cupy.FakeCupy(), 0)
    for op in ("FusedBatchNormV3", "FusedBatchNormGradV3"):
        assert registry.lookup(op).bind_out_gpu(given, gpu) is None


@pytest.mark.gpu
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_cards_numbers_are_a_cpus(case, gradient):
    import cupy

    check(cupy, case, FORMATS[case[0]], gradient)
    check(cupy, case, tuple(7 * size for size in FORMATS[case[0]]), gradient)
