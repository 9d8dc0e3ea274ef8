import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.node import Endpoint
from support.graphs import const, graph_def, node, placeholder, variable


def test_nodes_have_all_attributes_and_float32_unless_told() -> None:
    product = node("m", "MatMul", "a", "b:1", after=["c"], device="/cpu:0", transpose_b=True)
    assert product.inputs == (Endpoint("a", 0), Endpoint("b", 1))
    assert (product.control_inputs, product.device) == (("c",), "/cpu:0")
    assert product.attrs["T"] is dtypes.float32
    assert (product.attrs["transpose_a"], product.attrs["transpose_b"]) == (False, True)
    assert node("n", "Neg", "a", T=dtypes.int8).attrs["T"] is dtypes.int8


def test_common_nodes() -> None:
    assert const("c", 1, dtypes.int64).attrs["value"].dtype == np.int64
    assert placeholder("x", (None, 2)).attrs["shape"] == (None, 2)
    assert variable("v", (2,), shared_name="s").attrs["shared_name"] == "s"
    assert [proto.name for proto in graph_def(const("a", 1), const("b", 1)).node] == ["a", "b"]
