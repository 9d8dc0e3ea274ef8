"""Converted graphs in onnxruntime, compared with our own results."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export import InferenceModel, Input, Output, Signature
from sparkflow.export.onnx.convert import check, to_onnx
from sparkflow_runtime.errors import UnimplementedError
from tests.sparkflow.export.onnx.comparison import Build, model_of, onnx, run


def _layer_norm(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
    return (x - mean) * tf.rsqrt(variance + 1e-5)


def _dense_network(x: Any) -> Any:
    hidden = tf.layers.dense(x, 5, activation=tf.nn.relu)
    hidden = tf.layers.batch_normalization(tf.layers.dropout(hidden), training=False)
    logits = tf.layers.dense(hidden, 3)
    return [tf.nn.softmax(logits), tf.argmax(logits, 1), logits]


def _cnn(x: Any) -> Any:
    x = tf.layers.conv2d(x, 4, 3, padding="same", activation=tf.nn.relu)
    x = tf.layers.max_pooling2d(x, 2, 2)
    x = tf.layers.batch_normalization(x, training=False)
    x = tf.layers.conv2d(x, 6, 3, strides=2)
    return tf.layers.dense(tf.layers.flatten(x), 2)


def _wide_and_deep(x: Any) -> Any:
    table = tf.get_variable("table", [7, 3])
    deep = tf.layers.dense(tf.reshape(tf.nn.embedding_lookup(table, x), [-1, 6]), 2)
    wide = tf.layers.dense(tf.reshape(tf.one_hot(x, 7), [-1, 14]), 2)
    return tf.concat([deep, wide, tf.cast(x, tf.float32)], 1)


IMAGE, ROW = (7, 6, 3), (4,)
NETWORKS: dict[str, tuple[tuple[int, ...], str, Build]] = {
    "dense": (ROW, "float32", _dense_network),
    "cnn": (IMAGE, "float32", _cnn),
    "wide and deep": ((2,), "int64", _wide_and_deep),
    "layer norm": (ROW, "float32", _layer_norm),
    "conv same": (IMAGE, "float32", lambda x: tf.layers.conv2d(x, 2, [3, 2], 2, "same")),
    "conv dilated": (IMAGE, "float32", lambda x: tf.layers.conv2d(x, 2, 2, dilation_rate=2)),
    "conv explicit": (
        IMAGE,
        "float32",
        lambda x: tf.nn.conv2d(
            x, tf.ones([2, 2, 3, 1]), [1, 1, 1, 1], [[0, 0], [1, 0], [2, 1], [0, 0]]
        ),
    ),
    "conv1d": ((6, 2), "float32", lambda x: tf.layers.conv1d(x, 3, 2)),
    "conv3d": ((4, 4, 4, 1), "float32", lambda x: tf.layers.conv3d(x, 2, 3, padding="same")),
    "depthwise": (
        IMAGE,
        "float32",
        lambda x: tf.nn.depthwise_conv2d(x, tf.get_variable("f", [3, 3, 3, 2]), [1] * 4, "SAME"),
    ),
    "separable": (IMAGE, "float32", lambda x: tf.layers.separable_conv2d(x, 4, 3)),
    "transposed": (IMAGE, "float32", lambda x: tf.layers.conv2d_transpose(x, 2, 3, 2, "same")),
    "transposed valid": (IMAGE, "float32", lambda x: tf.layers.conv2d_transpose(x, 2, 2, 3)),
    "average": (IMAGE, "float32", lambda x: tf.layers.average_pooling2d(x, 3, 2, "same")),
    "max same": (IMAGE, "float32", lambda x: tf.layers.max_pooling2d(x, 3, 2, "same")),
    "global pool": (IMAGE, "float32", lambda x: tf.reduce_mean(x, [1, 2])),
    "fused norm": (
        IMAGE,
        "float32",
        lambda x: tf.nn.fused_batch_norm(
            x, *map(tf.constant, ([1.0, 2, 3], [0.1, 0.2, 0.3], [1.0, 2, 3], [4.0, 5, 6])),
            is_training=False,
        )[0],
    ),
    "lrn": (IMAGE, "float32", lambda x: tf.nn.lrn(x, 2, 1.0, 0.1, 0.6)),
    "resize": (
        IMAGE,
        "float32",
        lambda x: [
            tf.image.resize_bilinear(x, [5, 9]),
            tf.image.resize_bilinear(x, [14, 12], align_corners=True),
            tf.image.resize_nearest_neighbor(x, [14, 12]),
        ],
    ),
    "blocks": (
        (4, 4, 4),
        "float32",
        lambda x: [tf.depth_to_space(x, 2), tf.space_to_depth(x, 2)],
    ),
    "activations": (
        ROW,
        "float32",
        lambda x: [
            f(x)
            for f in (
                tf.nn.relu6, tf.nn.elu, tf.nn.selu, tf.nn.softplus, tf.nn.softsign, tf.tanh,
                tf.sigmoid, tf.nn.leaky_relu, tf.nn.log_softmax, tf.erf, tf.nn.swish,
            )
        ],
    ),
    "maths": (
        ROW,
        "float32",
        lambda x: [
            f(tf.abs(x) + 0.5)
            for f in (
                tf.sqrt, tf.rsqrt, tf.log, tf.log1p, tf.expm1, tf.exp, tf.square, tf.reciprocal,
                tf.floor, tf.ceil, tf.round, tf.sign, tf.sin, tf.cos, tf.atan, tf.negative,
            )
        ],
    ),
    "pairs": (
        ROW,
        "float32",
        lambda x: [
            f(x, tf.constant([0.5, -0.5, 2.0, -2.0]))
            for f in (
                tf.add, tf.subtract, tf.multiply, tf.divide, tf.maximum, tf.minimum, tf.floordiv,
                tf.floormod, tf.squared_difference, tf.less, tf.greater_equal, tf.equal,
                tf.not_equal,
            )
        ],
    ),
    "whole numbers": (
        ROW,
        "int64",
        lambda x: [
            f(x - 3, tf.constant([2, -2, 3, -3], tf.int64))
            for f in (tf.floordiv, tf.floormod, tf.truncatediv, tf.truncatemod, tf.maximum)
        ],
    ),
    "logic": (
        ROW,
        "float32",
        lambda x: [
            tf.logical_and(x > 0, x < 1),
            tf.logical_or(x > 1, tf.logical_not(x > 0)),
            tf.where(x > 0, x, -x),
            tf.where(x[:, 0] > 0, x, -x),
            tf.reduce_any(x > 1, 1),
            tf.reduce_all(x > -1, 1),
        ],
    ),
    "reductions": (
        (3, 4),
        "float32",
        lambda x: [
            tf.reduce_sum(x, 1),
            tf.reduce_mean(x, [1, 2]),
            tf.reduce_max(x, -1, keepdims=True),
            tf.reduce_min(x, [1]),
            tf.reduce_prod(x, 2),
            tf.reduce_logsumexp(x, 1),
            tf.norm(x, axis=1),
            tf.argmin(x, 2, output_type=tf.int32),
            tf.cumsum(x, 1, exclusive=True, reverse=True),
        ],
    ),
    "slices": (
        (3, 4),
        "float32",
        lambda x: [
            x[:, 1],
            x[:, ::-1, 1:3],
            x[..., -1],
            x[:, tf.newaxis, 0, ::2],
            x[:, -2:, :-1],
            tf.slice(x, [0, 1, 1], [-1, 2, -1]),
            tf.reverse(x, [1]),
            x[: tf.shape(x)[0]],
        ],
    ),
    "joins": (
        (3, 4),
        "float32",
        lambda x: [
            *tf.split(x, 2, axis=2),
            *tf.split(x, [1, 3], axis=2),
            *tf.unstack(x, axis=1),
            tf.stack([x, x], axis=1),
            tf.concat([x, x], -1),
            tf.expand_dims(x, -1),
            tf.squeeze(x[:, :1], [1]),
            tf.transpose(x, [0, 2, 1]),
            tf.tile(x, [1, 2, 1]),
            tf.pad(x, [[0, 0], [1, 2], [0, 1]]),
            tf.pad(x, [[0, 0], [1, 1], [0, 1]], "REFLECT"),
            tf.zeros_like(x),
            tf.ones_like(x),
            tf.fill([tf.shape(x)[0], 2], 3.0),
            tf.gather(x, [2, 0], axis=1),
            tf.gather_nd(x, tf.zeros([tf.shape(x)[0], 1], tf.int32)),
            tf.reshape(x, [tf.shape(x)[0], 12]),
            *tf.nn.top_k(x, 2),
        ],
    ),
    "products": (
        (3, 4),
        "float32",
        lambda x: [
            tf.matmul(x, x, transpose_b=True),
            tf.matmul(x, x, adjoint_a=True),
            tf.einsum("bij,bkj->bik", x, x),
            tf.tensordot(x, tf.ones([4, 2]), 1),
            tf.nn.l2_normalize(x, -1),
            tf.clip_by_value(x, -0.5, 0.5),
            tf.clip_by_norm(x, 1.0, [2]),
            tf.add_n([x, x, x]),
        ],
    ),
    "one hot": ((), "int64", lambda x: [tf.one_hot(x - 2, 3), tf.one_hot(x, 3, 5.0, -1.0, axis=0)]),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_onnxruntime_computes_the_same(name: str) -> None:
    shape, dtype, build = NETWORKS[name]
    model = model_of(shape, dtype, build)
    made = to_onnx(model)
    generator = np.random.default_rng(0)
    for rows in (3, 1):  # the batch size is not fixed
        size = (rows, *shape)
        x = (
            generator.integers(0, 7, size)
            if dtype == "int64"
            else generator.normal(size=size).astype(np.float32)
        )
        expected = model.predict(x)
        found = run(made, {"in": x})
        assert list(found) == list(expected)
        for key, value in expected.items():
            assert found[key].dtype == value.dtype, key
            np.testing.assert_allclose(
                found[key], value, rtol=2e-5, atol=2e-6, err_msg=f"{name}: {key}"
            )
    model.close()


def test_the_file_names_inputs_outputs_and_the_batch(tmp_path: Path) -> None:
    model = model_of(ROW, "float32", _dense_network)
    model.to_onnx(tmp_path / "model.onnx")
    made = onnx.load(tmp_path / "model.onnx")
    (given,) = made.graph.input
    assert given.name == "in"
    assert [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim] == ["batch", 4]
    assert [each.name for each in made.graph.output] == ["out0", "out1", "out2"]
    assert made.producer_name == "sparkflow"


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (
            lambda x: tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), [0, x])[1],
            r"The node '.*' \(op .*While\) cannot be converted to ONNX: control flow",
        ),
        (
            lambda x: x + tf.random_uniform([4]),
            r"The node '.*' \(op RandomUniform\) .*: random numbers cannot be converted",
        ),
        (
            lambda x: tf.pad(x, [[0, 0], [1, 1]], "SYMMETRIC", name="p"),
            r"The node 'p' \(op MirrorPad\) .*: padding of the mode SYMMETRIC",
        ),
        (
            lambda x: tf.matrix_inverse(x[:, :1, None], name="m"),
            r"The node 'm' \(op MatrixInverse\) .*: there is no conversion of this op",
        ),
        (
            lambda x: tf.transpose(x, tf.cast(tf.unique(x[0])[1][:2], tf.int32), name="t"),
            r"The node 't' \(op Transpose\) .*: its input 1 \(.*\) must be a constant",
        ),
    ],
)
def test_what_cannot_be_converted_is_named(build: Build, text: str) -> None:
    with pytest.raises(UnimplementedError, match=text):
        to_onnx(model_of(ROW, "float32", build))


def test_what_the_checker_finds_is_an_error_of_ours() -> None:
    made = to_onnx(model_of(ROW, "float32", lambda x: x + 1))
    made.graph.node[0].op_type = "Not"
    with pytest.raises(UnimplementedError, match=r"its checker says names the node: .*add.*"):
        check(onnx, made)


def test_lookup_tables_are_named() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.string, [None], name="x")
        table = tf.contrib.lookup.index_table_from_tensor(["a"])
        y = table.lookup(x, name="find")
    signature = Signature(
        (Input("in", "dense", "string", (), ("x:0",)),), (Output("out", y.name, "int64", ()),)
    )
    model = InferenceModel.build(graph.as_graph_def(), {}, signature)
    with pytest.raises(UnimplementedError, match=r"\(op LookupTableFindV2\) .*lookup tables"):
        to_onnx(model)


def test_sparse_inputs() -> None:
    names = ("i:0", "v:0", "s:0")
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(1)
        bag = tf.SparseTensor(
            tf.placeholder(tf.int64, [None, 2], name="i"),
            tf.placeholder(tf.int64, [None], name="v"),
            tf.placeholder(tf.int64, [2], name="s"),
        )
        weights = tf.SparseTensor(bag.indices, tf.to_float(bag.values), bag.dense_shape)
        table = tf.constant(np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32))
        made = [
            tf.nn.embedding_lookup_sparse(table, bag, None, combiner=combiner)
            for combiner in ("sum", "mean", "sqrtn")
        ]
        made += [
            tf.sparse_tensor_dense_matmul(weights, table),
            tf.sparse_tensor_to_dense(bag),
            tf.sparse_reduce_sum(weights, 1),
            tf.segment_mean(tf.gather(table, bag.values), bag.indices[:, 0]),
        ]
    inputs = (Input("bag", "sparse", "int64", (5,), names),)
    outputs = tuple(
        Output(
            f"out{index}",
            each.name,
            each.dtype.base_dtype.name,
            () if "ReduceSum" in each.op.type else (None,),
        )
        for index, each in enumerate(made)
    )
    model = InferenceModel.build(graph.as_graph_def(), {}, Signature(inputs, outputs))
    converted = to_onnx(model)
    indices = np.array([[0, 1], [0, 4], [2, 0]])
    feeds = {"indices": indices, "values": np.array([3, 4, 3]), "dense_shape": np.array([3, 5])}
    expected = model.predict(tf.SparseTensorValue(*feeds.values()))
    found = run(converted, {f"bag/{name}": value for name, value in feeds.items()})
    assert list(found) == list(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, err_msg=key)
    model.close()
