"""Pooling nodes on a GPU: on the stand-in, which runs their CUDA C on the CPU, and a real one."""

from types import SimpleNamespace

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.pooling.pooling_form import Task
from sparkflow_runtime.device.gpu import Gpu
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources.container import Resources
from support import cuda_emulator, fake_cupy
from support.pooling import ROWS, Row, close

needs_compiler = pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")
FLAT = {
    Task.MAXIMUM: "MaxPool",
    Task.MAXIMUM_GRADIENT: "MaxPoolGrad",
    Task.AVERAGE: "AvgPool",
    Task.AVERAGE_GRADIENT: "AvgPoolGrad",
}
SOLID = {task: name.replace("Pool", "Pool3D") for task, name in FLAT.items()}
STRIDED = Row("NHWC", (2, 6, 7, 4), (3, 2), (2, 2), "SAME")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cuda")


@pytest.fixture
def cupy(folder):
    return fake_cupy.emulated(folder)


def node_of(row, task):
    name = (SOLID if len(row.images) == 5 else FLAT)[task]
    attrs = {key: attr.default for key, attr in registry.lookup(name).attrs.items()}
    attrs.update({key: row.attrs[key] for key in row.attrs if key in attrs})
    attrs.update({key: dtypes.as_dtype(row.dtype) for key in ("T", "TInput") if key in attrs})
    return SimpleNamespace(name="n", op=name, attrs=attrs)


def bound(node, gpu):
    """Returns the kernel that creates arrays and the one that fills them."""
    context = KernelContext(gpu.cupy, "GPU", "/device:GPU:0", Resources(), Resources(), gpu=gpu)
    op = registry.lookup(node.op)
    return op.bind(node, context), op.bind_out_gpu(node, gpu)


def on_card(cupy, task, inputs):
    """Moves inputs to the GPU; sizes stay on the host."""
    return [
        each if task is Task.AVERAGE_GRADIENT and number == 0 else cupy.asarray(each)
        for number, each in enumerate(inputs)
    ]


def check(cupy, row):
    gpu = Gpu(cupy, 0)
    for task, inputs, expected in row.calls(ROWS.index(row) if row in ROWS else 0):
        make, fill = bound(node_of(row, task), gpu)
        with gpu.new_stream().running():
            given = on_card(cupy, task, inputs)
            made = cupy.asnumpy(make(*given))
            out = cupy.full(expected.shape, 77, row.dtype)
            fill(*given, out)
            filled = cupy.asnumpy(out)
        assert made.dtype == filled.dtype == expected.dtype
        close(made, expected)
        np.testing.assert_array_equal(filled, made)


@needs_compiler
@pytest.mark.parametrize("row", [STRIDED, ROWS[1], ROWS[-4]], ids=str)
def test_on_the_stand_in(row, cupy):
    check(cupy, row)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "row", [*ROWS, Row("NHWC", (64, 56, 56, 64), (3, 3), (2, 2), "SAME")], ids=str
)
def test_on_a_card(row):
    check(pytest.importorskip("cupy"), row)


@needs_compiler
def test_a_step_launches_kernels_and_does_nothing_else(cupy, monkeypatch):
    """Nothing is copied from the host; only positions of maxima are stored between two launches."""
    gpu = Gpu(cupy, 0)
    take = cupy.asarray

    def take_only_what_is_there(value, dtype=None):
        assert isinstance(value, cupy.ndarray)
        return take(value, dtype)

    for task, inputs, expected in STRIDED.calls():
        _, fill = bound(node_of(STRIDED, task), gpu)
        given, out = on_card(cupy, task, inputs), cupy.empty(expected.shape, np.float32)
        before = len(cupy.allocations)
        with monkeypatch.context() as patch, cupy.cuda.Stream(non_blocking=True) as stream:
            patch.setattr(cupy, "asarray", take_only_what_is_there, raising=False)
            fill(*given, out)
            launches = len(stream._queue)
            stream.synchronize()
        gathers = task is Task.MAXIMUM_GRADIENT
        assert launches == (2 if gathers else 1)
        assert len(cupy.allocations) - before == gathers
        close(out.memory, expected)


@needs_compiler
def test_arrays_that_begin_anywhere_or_have_gaps(cupy):
    gpu = Gpu(cupy, 0)
    (_, (images,), expected), *_ = STRIDED.calls()
    _, fill = bound(node_of(STRIDED, Task.MAXIMUM), gpu)
    inside = cupy.empty(images.size + 1, np.float32)[1:].reshape(images.shape)
    wide = cupy.empty((*images.shape[:-1], 8), np.float32)[..., ::2]
    for given in (inside, wide):
        given.memory[...] = images
        out = cupy.empty(expected.shape, np.float32)
        with cupy.cuda.Stream(non_blocking=True) as stream:
            fill(given, out)
            stream.synchronize()
        np.testing.assert_array_equal(out.memory, expected)


@needs_compiler
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_windows_of_channels(data_format, cupy):
    gpu = Gpu(cupy, 0)
    images = np.random.default_rng(0).integers(-9, 9, (2, 3, 6, 6)).astype(np.float32)
    axis = 3 if data_format == "NHWC" else 1
    window = [3 if number == axis else 1 for number in range(4)]
    attrs = {"ksize": window, "strides": window, "padding": "VALID", "explicit_paddings": []}
    kernels = {}
    for name in ("MaxPool", "MaxPoolGrad"):
        given = {**attrs, "data_format": data_format, "T": dtypes.float32}
        kernels[name], fill = bound(SimpleNamespace(name="n", op=name, attrs=given), gpu)
        assert fill is None
    if data_format == "NCHW":
        images = np.ascontiguousarray(images.transpose(0, 2, 1, 3))
    parts = np.split(images, images.shape[axis] // 3, axis)
    expected = np.concatenate([part.max(axis, keepdims=True) for part in parts], axis)
    with gpu.new_stream().running():
        card = cupy.asarray(images)
        pooled = kernels["MaxPool"](card)
        gradient = cupy.asnumpy(kernels["MaxPoolGrad"](card, pooled, pooled))
        pooled = cupy.asnumpy(pooled)
    np.testing.assert_array_equal(pooled, expected)
    assert (gradient != 0).sum() == (expected != 0).sum()
    np.testing.assert_array_equal(gradient[gradient != 0], images[gradient != 0])


def test_what_does_not_belong_together_is_refused(cupy):
    gpu = Gpu(cupy, 0)
    _, (_, (images, pooled, gradient), expected), *_ = STRIDED.calls()
    _, fill = bound(node_of(STRIDED, Task.MAXIMUM_GRADIENT), gpu)
    given = [cupy.asarray(each) for each in (images, pooled, gradient[:1])]
    with pytest.raises(InvalidArgumentError, match="grad must have shape"):
        fill(*given, cupy.empty(expected.shape, np.float32))


@pytest.mark.parametrize("dtype", [np.int32, dtypes.bfloat16.numpy])
def test_other_dtypes_are_left_to_cupy(dtype, cupy):
    row = Row("NHWC", (2, 6, 7, 4), (3, 2), (2, 2), "SAME", dtype)
    assert bound(node_of(row, Task.MAXIMUM), Gpu(cupy, 0))[1] is None
