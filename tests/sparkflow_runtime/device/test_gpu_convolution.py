"""The requests to cuDNN's front end, which is a stand-in that records them."""

from types import SimpleNamespace

import numpy as np
import pytest

from sparkflow_runtime.device.gpu_convolution import Convolution, GpuConvolutions
from support.fake_cupy import FakeCupy


class NotSupported(Exception):
    pass


class Tensor:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def _set(self, name, value):
        setattr(self, name, value)
        return self

    def set_output(self, flag):
        return self._set("output", flag)

    def set_data_type(self, kind):
        return self._set("data_type", kind)

    def set_dim(self, dim):
        return self._set("dim", dim)

    def set_stride(self, stride):
        return self._set("stride", stride)


class Graph:
    def __init__(self, front_end, **types):
        self.front_end = front_end
        self.types = types
        self.calls = []

    def tensor(self, **attributes):
        return Tensor(**attributes)

    def _convolution(self, kind, arguments):
        self.calls.append((kind, arguments))
        return Tensor(name="made")

    def conv_fprop(self, **arguments):
        return self._convolution("fprop", arguments)

    def conv_dgrad(self, **arguments):
        return self._convolution("dgrad", arguments)

    def conv_wgrad(self, **arguments):
        return self._convolution("wgrad", arguments)

    def build(self, heuristics):
        assert heuristics == ["A", "FALLBACK"]
        if self.front_end.refuses:
            raise NotSupported

    def get_workspace_size(self):
        return 128

    def execute(self, pointers, workspace, handle):
        assert handle == "handle"
        assert isinstance(workspace, int)
        self.executed = pointers


class FrontEnd:
    cudnnGraphNotSupportedError = NotSupported
    data_type = SimpleNamespace(FLOAT="float", HALF="half", DOUBLE="double")
    heur_mode = SimpleNamespace(A="A", FALLBACK="FALLBACK")

    def __init__(self):
        self.graphs = []
        self.streams = []
        self.refuses = False

    def create_handle(self):
        return "handle"

    def set_stream(self, handle, stream):
        self.streams.append(stream)

    def pygraph(self, *, handle, **types):
        self.graphs.append(Graph(self, **types))
        return self.graphs[-1]


def convolution(kind, **changes):
    given = {
        "image": (2, 3, 8, 9),
        "filters": (5, 3, 3, 3),
        "result": (2, 5, 8, 9),
        "channels_last": True,
        "strides": (1, 1),
        "dilations": (1, 1),
        "before": (1, 1),
        "after": (1, 2),
        "dtype": "float32",
    }
    return Convolution(kind=kind, **(given | changes))


@pytest.mark.parametrize(
    ("kind", "call", "names", "made"),
    [
        ("forward", "fprop", ("image", "weight"), (2, 5, 8, 9)),
        ("input_gradient", "dgrad", ("loss", "filter"), (2, 3, 8, 9)),
        ("filter_gradient", "wgrad", ("image", "loss"), (5, 3, 3, 3)),
    ],
)
def test_a_convolution_is_built_once_and_executed_on_the_current_stream(kind, call, names, made):
    cupy, front_end = FakeCupy(), FrontEnd()
    gpu = GpuConvolutions(cupy, front_end)
    arrays = [cupy.empty(4, np.float32) for _ in range(3)]
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(2):
            assert gpu.run(convolution(kind), *arrays)
    (graph,) = front_end.graphs
    ((called, arguments),) = graph.calls
    assert called == call
    assert arguments["pre_padding"] == [1, 1]
    assert arguments["post_padding"] == [1, 2]
    assert front_end.streams == [stream.ptr] * 2
    given = [arguments[name] for name in names]
    tensors = list(graph.executed)
    assert tensors[:2] == given
    assert tensors[2].dim == list(made)
    assert tensors[2].output is True
    assert list(graph.executed.values()) == [array.data.ptr for array in arrays]
    for tensor in tensors:  # channels last, whatever the sizes
        assert tensor.stride[1] == 1
        assert tensor.stride[3] == tensor.dim[1]


def test_channels_first_lie_as_they_are_counted():
    cupy, front_end = FakeCupy(), FrontEnd()
    gpu = GpuConvolutions(cupy, front_end)
    arrays = [cupy.empty(4, np.float32) for _ in range(3)]
    gpu.run(convolution("forward", channels_last=False), *arrays)
    image = front_end.graphs[0].calls[0][1]["image"]
    assert image.stride == [216, 72, 9, 1]


def test_what_cudnn_does_not_take_is_left_to_others():
    cupy, front_end = FakeCupy(), FrontEnd()
    front_end.refuses = True
    gpu = GpuConvolutions(cupy, front_end)
    arrays = [cupy.empty(4, np.float32) for _ in range(3)]
    for _ in range(2):
        assert not gpu.run(convolution("forward"), *arrays)
    assert len(front_end.graphs) == 1  # it is not requested again
    assert not gpu.run(convolution("forward", dtype="int32"), *arrays)
    assert not gpu.run(convolution("forward", image=(0, 3, 8, 9)), *arrays)
    assert len(front_end.graphs) == 1


def test_every_bit_of_float32_is_not_what_its_engines_give():
    cupy, front_end = FakeCupy(), FrontEnd()
    gpu = GpuConvolutions(cupy, front_end, tf32=False)
    arrays = [cupy.empty(4, np.float32) for _ in range(3)]
    assert not gpu.run(convolution("forward"), *arrays)
    assert gpu.run(convolution("forward", dtype="float64"), *arrays)
    assert front_end.graphs[0].types["compute_data_type"] == "double"
