"""Which cuBLAS is used, and that each stream has its own handle and memory in it."""

import gc
import logging
import sys

import numpy as np
import pytest

from sparkflow_runtime.device import gpu_blas
from sparkflow_runtime.device.gpu_blas import WORKSPACE_BYTES, CupyBlas, NvmathBlas, blas
from sparkflow_runtime.device.gpu_products import GpuProducts
from support.fake_cublas import FakeCublas, FakeNvmath
from support.fake_cupy import FakeCupy


def products(cupy, library):
    """Returns a function that multiplies two matrices, and the expected result."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(4, 5))
    gpu = GpuProducts(cupy, library=library)
    card = cupy.asarray(a), cupy.asarray(b)

    def multiply():
        out = cupy.empty((3, 5), np.float64)
        gpu.multiply(*card, out)
        return out

    return multiply, a @ b


def test_products_are_recorded():
    cupy = FakeCupy()
    multiply, expected = products(cupy, NvmathBlas(cupy, FakeNvmath(cupy)))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        multiply()
        stream.begin_capture()
        out = multiply()
        graph = stream.end_capture()
        graph.launch(stream)
        np.testing.assert_allclose(cupy.asnumpy(out), expected)


def test_cupys_own_are_not():
    cupy = FakeCupy()
    multiply, expected = products(cupy, CupyBlas(cupy, FakeCublas()))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        np.testing.assert_allclose(cupy.asnumpy(multiply()), expected)
        stream.begin_capture()
        with pytest.raises(NotImplementedError, match="stream capture"):
            multiply()
        stream.end_capture()


def test_a_stream_has_a_handle_and_memory_until_it_goes():
    cupy = FakeCupy()
    cublas = FakeNvmath(cupy)
    multiply, _ = products(cupy, NvmathBlas(cupy, cublas))
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    for stream in [*streams, *streams]:
        with stream:
            multiply()
    wanted = {(stream.ptr, WORKSPACE_BYTES) for stream in streams}
    assert set(cublas.handles.values()) == wanted
    assert len(cublas.handles) == len(streams)
    for stream in streams:
        stream.synchronize()
    del stream, streams
    gc.collect()
    assert not cublas.handles


class NoLibrary:
    """nvmath-python if CUDA's libraries are not found."""

    def create(self):
        raise RuntimeError("libcublas.so.13 is not there")

    def destroy(self, handle):
        raise AssertionError


@pytest.mark.parametrize(
    ("module", "why"), [(None, "is not installed"), (NoLibrary(), "libcublas.so.13 is not there")]
)
def test_it_is_said_where_products_cannot_be_recorded(monkeypatch, caplog, module, why):
    monkeypatch.setitem(sys.modules, "nvmath.bindings.cublas", module)
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs.cublas", FakeCublas())
    with caplog.at_level(logging.WARNING, gpu_blas.__name__):
        assert isinstance(blas(FakeCupy()), CupyBlas)
    (record,) = caplog.records
    assert why in record.getMessage()
    assert "not captured as CUDA graphs" in record.getMessage()
