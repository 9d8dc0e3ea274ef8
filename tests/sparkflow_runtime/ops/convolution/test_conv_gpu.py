"""Convolution nodes on a GPU: the calls of cuDNN, on a stand-in that convolves by definition."""

import numpy as np
import pytest

from sparkflow_runtime.device import gpu as gpus
from sparkflow_runtime.device.gpu import Gpu
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.convolution import conv_gpu
from sparkflow_runtime.ops.windows import Layout
from support.fake_cupy import FakeCupy


class Cudnn:
    """Convolutions by definition; requires contiguous arrays."""

    def __init__(self):
        self.kinds = []

    def run(self, wanted, first, second, out):
        if wanted.strides == (3, 3):
            return False
        self.kinds.append(wanted.kind)
        sizes = {"image": wanted.image, "filters": wanted.filters, "result": wanted.result}
        names = {
            "forward": ("image", "filters", "result"),
            "input_gradient": ("result", "filters", "image"),
            "filter_gradient": ("image", "result", "filters"),
        }[wanted.kind]
        arrays = {}
        for name, array in zip(names, (first, second, out), strict=True):
            assert array.flags.c_contiguous
            order = (0, 2, 3, 1) if wanted.channels_last else (0, 1, 2, 3)
            assert array.shape == tuple(sizes[name][i] for i in order)
            back = (0, 3, 1, 2) if wanted.channels_last else (0, 1, 2, 3)
            arrays[name] = array.memory.transpose(back)
        target = arrays[names[2]]
        out.owner.streams[-1].synchronize()
        target[...] = 0
        top, left = wanted.before
        for n, k, i, j in np.ndindex(*wanted.result):
            for c, y, x in np.ndindex(*wanted.filters[1:]):
                row = i * wanted.strides[0] + y * wanted.dilations[0] - top
                column = j * wanted.strides[1] + x * wanted.dilations[1] - left
                if not (0 <= row < wanted.image[2] and 0 <= column < wanted.image[3]):
                    continue
                places = {
                    "image": (n, c, row, column),
                    "filters": (k, c, y, x),
                    "result": (n, k, i, j),
                }
                one, other = (arrays[name][places[name]] for name in names[:2])
                target[places[names[2]]] += one * other
        return True


def layout_of(data_format, strides, padding):
    last = data_format == "NHWC"
    return Layout.of(
        {
            "data_format": data_format,
            "strides": [1, *strides, 1] if last else [1, 1, *strides],
            "dilations": [1, 1, 1, 1],
            "padding": padding,
            "explicit_paddings": [],
        }
    )


def run(member, data_format, strides, padding, monkeypatch):
    """Returns the result on the stand-in and by numpy, and the calls of cuDNN."""
    rng = np.random.default_rng(0)
    cupy, cudnn = FakeCupy(), Cudnn()
    monkeypatch.setattr(gpus, "front_end", lambda: cudnn)
    monkeypatch.setattr(gpus, "GpuConvolutions", lambda cupy, cudnn: cudnn)
    op = registry.lookup(("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")[member])
    layout = layout_of(data_format, strides, padding)
    images = rng.normal(size=(2, 5, 6, 3) if data_format == "NHWC" else (2, 3, 5, 6))
    filters = rng.normal(size=(3, 3, 3, 4))
    forward = registry.lookup("Conv2D")

    def numpys(op, *inputs):
        result = op.run(np, layout, *inputs)
        is_image = data_format == "NCHW" and not op.of_filter
        return result.transpose(0, 3, 1, 2) if is_image else result

    dy = rng.normal(size=numpys(forward, images, filters).shape)
    inputs = [
        (images, filters),
        (np.array(images.shape, np.int32), filters, dy),
        (images, np.array(filters.shape, np.int32), dy),
    ][member]
    expected = numpys(op, *inputs)
    card = [cupy.asarray(each) if each.dtype == float else each for each in inputs]
    kernel = conv_gpu.bind(
        Gpu(cupy, 0),
        member,
        data_format,
        lambda *given: op.geometry(layout, *given),
        lambda *given: "plain",
    )
    result = kernel(*card)
    if isinstance(result, str):
        return result, expected, cudnn
    return cupy.asnumpy(result), expected, cudnn


@pytest.mark.parametrize("strides", [(1, 1), (2, 1)])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("member", [0, 1, 2])
def test_convolutions_and_gradients(member, data_format, strides, monkeypatch):
    result, expected, cudnn = run(member, data_format, strides, "VALID", monkeypatch)
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)
    assert cudnn.kinds == [("forward", "input_gradient", "filter_gradient")[member]]


@pytest.mark.parametrize("member", [0, 1, 2])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
def test_zeros_around(strides, member, monkeypatch):
    """On every side, and one more column at the end."""
    result, expected, cudnn = run(member, "NHWC", strides, "SAME", monkeypatch)
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)
    assert len(cudnn.kinds) == 1


def test_what_no_engine_takes_runs_as_before(monkeypatch):
    assert run(0, "NHWC", (3, 3), "VALID", monkeypatch)[0] == "plain"


def test_without_cudnn_everything_runs_as_before(monkeypatch):
    monkeypatch.setattr(gpus, "front_end", lambda: None)

    def plain():
        raise AssertionError

    bound = conv_gpu.bind(Gpu(FakeCupy(), 0), 0, "NHWC", lambda: None, plain)
    assert bound is plain
