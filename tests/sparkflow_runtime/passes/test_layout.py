from collections import Counter

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.passes.layout import channels_last
from sparkflow_runtime.resources.container import Resources
from support.graphs import const, node
from support.interpreter import interpret

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
NUMBERS = np.random.default_rng(0)
FIRST = {"data_format": "NCHW", "padding": "SAME"}
STEPS = {**FIRST, "strides": [1, 1, 2, 1]}
POOL = {**FIRST, "ksize": [1, 1, 2, 3], "strides": [1, 1, 2, 2]}


def network(device: str = CPU) -> Graph:
    """Convolution, bias, relu and pooling of images [batch, 3, 8, 6], with all gradients."""
    filters = const("filters", NUMBERS.normal(size=(3, 3, 3, 4)))
    nodes = [
        node("x", "_Arg", T=dtypes.float32, index=0, shape=(None, 3, 8, 6)),
        *[filters, const("bias", [1, 2, 3, 4]), const("half", 0.5)],
        node("conv", "Conv2D", "x", "filters", **STEPS, _source="model.py:7"),
        node("biased", "BiasAdd", "conv", "bias", data_format="NCHW"),
        node("relu", "Relu", "biased"),
        node("pool", "MaxPool", "relu", **POOL),
        node("mean", "AvgPool", "pool", **POOL),
        node("scaled", "Mul", "mean", "half"),
        node("meansize", "Shape", "pool"),
        node("d_pool", "AvgPoolGrad", "meansize", "scaled", **POOL),
        node("d_relu", "MaxPoolGrad", "relu", "pool", "d_pool", **POOL),
        node("d_biased", "ReluGrad", "d_relu", "relu"),
        node("d_bias", "BiasAddGrad", "d_biased", data_format="NCHW"),
        const("fsize", [3, 3, 3, 4], dtypes.int32),
        const("xsize", [2, 3, 8, 6], dtypes.int32),
        node("d_filters", "Conv2DBackpropFilter", "x", "fsize", "d_biased", **STEPS),
        node("d_x", "Conv2DBackpropInput", "xsize", "filters", "d_biased", **STEPS),
        node("after", "NoOp", after=["relu"]),
        *(
            node(f"end{i}", "_Retval", name, T=dtypes.float32, index=i)
            for i, name in enumerate(["scaled", "d_bias", "d_filters", "d_x", "pool"])
        ),
    ]
    return Graph(Node(n.name, n.op, n.inputs, n.control_inputs, device, n.attrs) for n in nodes)


def run(graph: Graph) -> list[np.ndarray]:
    x = np.random.default_rng(1).normal(size=(2, 3, 8, 6)).astype(np.float32)
    context = KernelContext(np, "CPU", CPU, Resources(), Resources())
    results = interpret(graph.sorted(), context, [x])
    return [results[index] for index in range(len(results))]


def test_a_network_runs_with_channels_last_and_gives_the_same() -> None:
    graph = network()
    result = channels_last(graph, infer_types(graph), keep=["after"])
    infer_types(result)
    for after, before in zip(run(result), run(graph), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5, strict=True)
    formats = {n.attrs["data_format"] for n in result if "data_format" in n.attrs}
    assert formats == {"NHWC"}
    # The image is converted once; two images and the image gradient are fetched.
    counts = Counter(each.op for each in result)
    assert counts["Transpose"] == 4
    assert result["conv/channels_last"].source == "model.py:7"
    assert result["conv/channels_last"].attrs["strides"] == [1, 2, 1, 1]
    assert result["after"].control_inputs == ("relu/channels_last",)
    assert channels_last(result, infer_types(result)) is result


def test_explicit_paddings_are_put_in_order() -> None:
    paddings = {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 0, 0, 1, 2, 3, 0]}
    nodes = [
        node("x", "_Arg", T=dtypes.float32, index=0, shape=(2, 3, 8, 6), device=CPU),
        const("f", NUMBERS.normal(size=(3, 3, 3, 4)), device=CPU),
        node("y", "Conv2D", "x", "f", **{**STEPS, **paddings}, device=CPU),
        node("end", "_Retval", "y", T=dtypes.float32, index=0, device=CPU),
    ]
    graph = Graph(nodes)
    result = channels_last(graph, infer_types(graph))
    made = result["y/channels_last"]
    assert made.attrs["explicit_paddings"] == [0, 0, 1, 2, 3, 0, 0, 0]
    np.testing.assert_allclose(run(result)[0], run(graph)[0], rtol=1e-5, atol=1e-5)


def test_batches_are_normalised_with_channels_last() -> None:
    vectors = [const(name, [1, 2, 3], device=CPU) for name in ("scale", "offset")]
    nothing = [const(name, [], device=CPU) for name in ("mean", "variance")]
    nodes = [
        node("x", "_Arg", T=dtypes.float32, index=0, shape=(2, 3, 8, 6), device=CPU),
        *[*vectors, *nothing, const("f", NUMBERS.normal(size=(1, 1, 3, 3)), device=CPU)],
        node("c", "Conv2D", "x", "f", **STEPS, device=CPU),
        node(
            *("y", "FusedBatchNorm", "c", "scale", "offset", "mean", "variance"),
            data_format="NCHW",
            device=CPU,
        ),
        node("end0", "_Retval", "y", T=dtypes.float32, index=0, device=CPU),
        node("end1", "_Retval", "y:1", T=dtypes.float32, index=1, device=CPU),
    ]
    graph = Graph(nodes)
    result = channels_last(graph, infer_types(graph))
    assert Counter(each.op for each in result)["Transpose"] == 2
    for after, before in zip(run(result), run(graph), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5, strict=True)


def test_variables_are_read_where_they_were() -> None:
    graph = network()
    shape = {"dtype": dtypes.float32, "shape": (2, 4, 2, 3), "container": "", "shared_name": ""}
    reading = [
        Node("v", "VariableV2", (), (), CPU, shape),
        node("sum", "AddV2", "v", "pool", after=["d_x"], device=CPU),
        node("end9", "_Retval", "sum", T=dtypes.float32, index=9, device=CPU),
    ]
    graph = Graph([*graph, *reading])
    result = channels_last(graph, infer_types(graph))
    assert result["sum"].inputs[0].node == "v"
    assert result["sum"].op == "AddV2"


def test_on_a_gpu_nothing_changes() -> None:
    graph = network(GPU)
    assert channels_last(graph, infer_types(graph)) is graph
