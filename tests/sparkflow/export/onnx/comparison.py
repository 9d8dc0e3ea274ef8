"""Runs a model in onnxruntime and in sparkflow; for the tests in this folder."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export import InferenceModel, Input, Output, Signature
from sparkflow.export.onnx.convert import to_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Build = Callable[..., Any]


def model_of(shape: tuple[int, ...], dtype: str, build: Build) -> InferenceModel:
    """The model of one input, `in`, and of outputs `out0` and so on: what `build` makes of it."""
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(1)
        x = tf.placeholder(dtype, [None, *shape], name="x")
        made = build(x)
        made = made if isinstance(made, list | tuple) else [made]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            variables = tf.global_variables()
            values = session.run(variables)
    inputs = (Input("in", "dense", dtype, shape, ("x:0",)),)
    outputs = tuple(
        Output(
            f"out{index}", each.name, each.dtype.base_dtype.name, tuple(each.shape.as_list()[1:])
        )
        for index, each in enumerate(made)
    )
    found = {variable.op.name: value for variable, value in zip(variables, values, strict=True)}
    return InferenceModel.build(graph.as_graph_def(), found, Signature(inputs, outputs))


def run(made: Any, feeds: dict[str, Any]) -> dict[str, Any]:
    """What onnxruntime computes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def compare(
    build: Build, x: Any, shape: tuple[int, ...] | None = None, rtol: float = 0, atol: float = 0
) -> None:
    """Requires that onnxruntime computes what sparkflow does; without tolerances exactly that."""
    x = np.asarray(x)
    model = model_of(x.shape[1:] if shape is None else shape, x.dtype.name, build)
    expected = model.predict(x)
    found = run(to_onnx(model), {"in": x})
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        np.testing.assert_allclose(found[name], value, rtol=rtol, atol=atol, err_msg=name)
    model.close()
