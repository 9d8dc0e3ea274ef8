"""A wide & deep model of strings with weights that are easy to compute, and rows for it."""

from typing import Any

import numpy as np

import sparkflow as tf
from sparkflow.export import InferenceModel, Input, Output, Signature

ROWS: dict[str, Any] = {
    "age": np.float32([31.0, 64.0, 5.5]),
    "bag": np.float32([[0, 2, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0.5]]),
    "carrier": ["UA", "Ünited", "AA"],
    "words": [["spark", "flow"], [], ["tensor", "spark", ""]],
}


def text_model() -> InferenceModel:
    """Numbers, a sparse vector, a string and lists of strings; two classes."""
    inputs = (
        Input("age", "dense", "float32", (), ("age:0",)),
        Input("bag", "sparse", "float32", (4,), ("bag/i:0", "bag/v:0", "bag/s:0")),
        Input("carrier", "dense", "string", (), ("carrier:0",)),
        Input("words", "ragged", "string", (), ("words/i:0", "words/v:0", "words/s:0")),
    )
    column = tf.feature_column
    with tf.Graph().as_default() as graph:
        age = tf.placeholder(tf.float32, [None], name="age")
        carrier = tf.placeholder(tf.string, [None], name="carrier")
        bag, words = (
            tf.SparseTensor(
                tf.placeholder(tf.int64, [None, 2], name=f"{name}/i"),
                tf.placeholder(dtype, [None], name=f"{name}/v"),
                tf.placeholder(tf.int64, [2], name=f"{name}/s"),
            )
            for name, dtype in (("bag", tf.float32), ("words", tf.string))
        )
        features = {"age": tf.expand_dims(age, 1), "carrier": carrier, "words": words}
        carriers = column.categorical_column_with_hash_bucket("carrier", 7)
        tags = column.categorical_column_with_hash_bucket("words", 13)
        cross = column.crossed_column(["carrier", "words"], 11)
        deep = column.input_layer(
            features,
            [
                column.numeric_column("age"),
                column.embedding_column(tags, 3),
                column.indicator_column(carriers),
            ],
        )
        weights = tf.get_variable("bag/weights", [4, 1])
        logits = tf.layers.dense(tf.layers.dense(deep, 4, tf.nn.relu), 1)
        logits += column.linear_model(features, [carriers, cross])
        logits += tf.sparse_tensor_dense_matmul(bag, weights)
        p = tf.sigmoid(tf.squeeze(logits, [1]))
        probability = tf.stack([1.0 - p, p], axis=1, name="probability")
        prediction = tf.cast(p > 0.5, tf.int64, name="prediction")
        tf.string_join([carrier, "!"], name="shout")
        values = {
            each.op.name: (
                0.3 * np.sin(1.0 + np.arange(int(np.prod(each.shape.as_list()))))
            ).reshape(each.shape.as_list())
            for each in tf.global_variables()
        }
        initializers = tuple(
            each.name for each in tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
        )
    outputs = (
        Output("prediction", prediction.name, "int64", ()),
        Output("probability", probability.name, "float32", (2,)),
        Output("shout", "shout:0", "string", ()),
    )
    named = {name: value.astype(np.float32) for name, value in values.items()}
    signature = Signature(inputs, outputs, True, initializers)
    return InferenceModel.build(graph.as_graph_def(), named, signature)
