"""The gradient of maximum pooling: masked and summed before it is spread over the images."""

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.passes.simplify import pooling, simplify, sweep
from sparkflow_runtime.resources.container import Resources
from support.graphs import node
from support.interpreter import interpret

SHAPES = {"NHWC": (2, 7, 6, 3), "NCHW": (2, 3, 7, 6)}


def in_order(data_format: str, height: int, width: int, channels: int = 1) -> list[int]:
    along = [height, width]
    return [1, *along, channels] if data_format == "NHWC" else [1, channels, *along]


def network(
    data_format: str = "NHWC",
    size: tuple[int, int] = (2, 2),
    stride: tuple[int, int] = (2, 2),
    padding: str = "SAME",
    *extra: Node,
    **changes: Any,
) -> Graph:
    """A relu whose results are pooled, with the gradients of its input and of a bias."""
    shape = SHAPES[data_format]
    geometry = {
        "ksize": in_order(data_format, *size),
        "strides": in_order(data_format, *stride),
        "padding": padding,
        "data_format": data_format,
    }
    back = geometry | changes
    nodes = [
        node("x0", "_Arg", T=dtypes.float32, index=0, shape=shape),
        node("x1", "_Arg", T=dtypes.float32, index=1, shape=()),
        node("relu", "Relu", "x0"),
        node("pooled", "MaxPool", "relu", **geometry),
        node("scaled", "Mul", "pooled", "x1"),
        node("gradient", "Sin", "scaled"),  # any number per window
        node("wait", "NoOp", after=("scaled",)),
        node("spread", "MaxPoolGrad", "relu", "pooled", "gradient", after=("wait",), **back),
        node("masked", "ReluGrad", "spread", "relu"),
        node("bias", "BiasAddGrad", "masked", data_format=data_format),
        *extra,
        node("end0", "_Retval", "masked", T=dtypes.float32, index=0),
        node("end1", "_Retval", "bias", T=dtypes.float32, index=1),
    ]
    return Graph(nodes)


def run(graph: Graph, values: list[Any]) -> list[Any]:
    context = KernelContext(np, "CPU", "here", Resources(), Resources())
    found = interpret(graph.sorted(), context, values)
    return [found[index] for index in sorted(found)]


def images(data_format: str) -> np.ndarray[Any, Any]:
    """With ties, windows without a positive number, and infinite ones."""
    rng = np.random.default_rng(0)
    made = rng.integers(-3, 4, SHAPES[data_format]).astype(np.float32)
    made.flat[:12] = -1
    made.flat[20], made.flat[40] = np.inf, -np.inf
    return made


@pytest.mark.parametrize("data_format", SHAPES)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(
    ("size", "stride"), [((2, 2), (2, 2)), ((3, 3), (2, 2)), ((3, 2), (1, 1)), ((1, 2), (2, 3))]
)
def test_fewer_elements_are_masked_and_summed_and_the_values_stay(
    data_format, padding, size, stride
):
    graph = network(data_format, size, stride, padding)
    result = simplify(graph, types=infer_types(graph))
    infer_types(result)
    assert [result["masked"].op, *(e.node for e in result["masked"].inputs)] == [
        "MaxPoolGrad",
        "relu",
        "pooled",
        "masked/of_maxima",
    ]
    assert "spread" not in result
    assert [e.node for e in result["bias"].inputs] == ["masked/of_maxima"]
    for name in ("masked", "bias"):  # control dependencies are kept
        assert set(result[name].control_inputs) >= {"wait"}
    values = [images(data_format), np.float32(0.7)]
    before, after = run(graph, values), run(result, values)
    np.testing.assert_array_equal(after[0], before[0])
    np.testing.assert_allclose(after[1], before[1], rtol=1e-5, atol=1e-5)


def test_what_others_read_is_not_made_twice():
    graph = network("NHWC", (2, 2), (2, 2), "SAME", node("z", "Neg", "spread"))
    result = simplify(graph, types=infer_types(graph), keep={"z"})
    assert result["masked"].op == "ReluGrad"
    assert "spread" in result


def test_another_pooling_than_that_of_the_maxima_is_left():
    graph = network(ksize=[1, 3, 3, 1])
    result = simplify(graph, types=infer_types(graph))
    assert result["masked"].op == "ReluGrad"
    assert [e.node for e in result["bias"].inputs] == ["masked"]


def test_a_sum_per_channel_is_not_one_of_windows_over_channels():
    pooling = {"ksize": [1, 1, 1, 3], "strides": [1, 1, 1, 3], "padding": "VALID"}
    graph = Graph(
        [
            node("x0", "_Arg", T=dtypes.float32, index=0, shape=(2, 4, 4, 3)),
            node("pooled", "MaxPool", "x0", **pooling),
            node("spread", "MaxPoolGrad", "x0", "pooled", "pooled", **pooling),
            node("bias", "BiasAddGrad", "spread"),
            node("end", "_Retval", "bias", T=dtypes.float32, index=0),
        ]
    )
    result = simplify(graph, types=infer_types(graph))
    assert [e.node for e in result["bias"].inputs] == ["spread"]


def test_the_ops_of_the_rules_are_those_that_import_them() -> None:
    assert pooling.RULES.keys() == sweep._OF_WAYS_BACK
