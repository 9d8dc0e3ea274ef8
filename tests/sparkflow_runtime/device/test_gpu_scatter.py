"""Values combined into elements of a GPU array: on the stand-in, whose kernels run on the CPU."""

import shutil
import subprocess

import numpy as np
import pytest

from sparkflow_runtime.device import gpu_scatter
from sparkflow_runtime.device.gpu_scatter import combine_at
from support import cuda_emulator, fake_cupy

NVCC = shutil.which("nvcc")
SWAPPED = [
    ("maximum", "f4 f8 i4 i8 u4 u8 f2 i1 u2"),
    ("minimum", "f4 f8 i4 i8 u4 u8 f2 i1 u2"),
    ("multiply", "f4 f8 i4 i8 u4 u8 f2 i1 u2"),
    ("divide", "f4 f8 f2"),
]
ADDED = [("add", "f2 f4 f8 i4 i8 u4 u8 i1 u2 c8 c16"), ("subtract", "f2 f4 f8 i4 i8 u4 i1 u2 c8")]
CASES = [(how, dtype) for how, dtypes in SWAPPED + ADDED for dtype in dtypes.split()]
DAILY = {"maximum": "f4 f8 i4 i1", "minimum": "u8", "multiply": "f4 f2", "divide": "f8"}
"""Nightly tests compile the other kernels."""


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    return fake_cupy.emulated(tmp_path_factory.mktemp("cuda"))


def numbers(rng, dtype, size):
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, size, dtype, endpoint=True)
    found = rng.normal(size=size) + (1j * rng.normal(size=size) if kind == "c" else 0)
    return found.astype(dtype)


def check(cupy, how, dtype):
    rng = np.random.default_rng(1)
    places = rng.integers(0, 20, 30)
    for values in (numbers(rng, dtype, 30), numbers(rng, dtype, ())):
        whole = numbers(rng, dtype, 40)
        if np.dtype(dtype).kind == "f":
            whole[3], whole[4], values.reshape(-1)[0] = np.nan, -np.inf, np.nan
        on_card = cupy.asarray(whole)
        combine_at(cupy, how, on_card, cupy.asarray(places), cupy.asarray(values))
        with np.errstate(all="ignore"):
            getattr(np, how).at(whole, places, values)
        close = np.dtype(dtype).itemsize * {"f": 1, "c": 0.5}.get(np.dtype(dtype).kind, 0)
        rtol = {0: 0, 2: 5e-3, 4: 1e-5, 8: 1e-13}[int(close)]
        np.testing.assert_allclose(cupy.asnumpy(on_card), whole, rtol=rtol, atol=rtol)


def some_at_night():
    for how, dtype in CASES:
        is_daily = how in dict(ADDED) or dtype in DAILY[how].split()
        yield pytest.param(how, dtype, marks=[] if is_daily else [pytest.mark.nightly])


@pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")
@pytest.mark.parametrize(("how", "dtype"), list(some_at_night()))
def test_values_are_combined_as_by_numpy(stand_in, how, dtype):
    check(stand_in, how, dtype)


@pytest.mark.gpu
@pytest.mark.parametrize(("how", "dtype"), CASES)
def test_values_are_combined_as_by_numpy_on_a_card(how, dtype):
    import cupy

    check(cupy, how, dtype)


@pytest.mark.gpu
def test_no_value_is_lost_where_many_come_at_once():
    import cupy

    values = np.random.default_rng(0).permutation(1 << 20)
    for dtype in (np.int32, np.float64):
        whole = cupy.zeros(3, dtype)
        places = cupy.asarray(np.arange(1 << 20) % 3)
        combine_at(cupy, "maximum", whole, places, cupy.asarray(values.astype(dtype)))
        expected = [values[i::3].max() for i in range(3)]
        assert cupy.asnumpy(whole).tolist() == expected


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
def test_nvcc_takes_the_sources(tmp_path):
    """In one file, each in its own namespace."""
    kernels = [(how, dtype) for how, dtypes in SWAPPED for dtype in dtypes.split()]
    texts = []
    for number, (how, dtype) in enumerate(kernels):
        if np.dtype(dtype).itemsize >= 4:
            text = gpu_scatter.source(how, np.dtype(dtype)).replace("combine(", f"combine{number}(")
            texts.append(f"namespace kernel{number} {{{text}}}")
    (tmp_path / "kernels.cu").write_text("\n".join(texts))
    command = [NVCC, "-cubin", "-arch=sm_90", "-Werror=all-warnings", "kernels.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
