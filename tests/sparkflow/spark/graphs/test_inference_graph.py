"""The graph for `transform`, as it is built."""

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.embedding.read_only import LAST_KEY
from sparkflow.export import InferenceModel
from sparkflow.spark.data.schema.row_format import Input, RowFormat
from sparkflow.spark.graphs.inference_graph import build_inference_graph
from sparkflow.spark.graphs.model_fn import ModelInputs

INPUTS = ModelInputs(
    RowFormat((Input("features", "dense", "int64", ()),), None, None, False), {}, 0
)


def _growing(features: Any, mode: str) -> Any:
    table = tf.get_embedding_variable("clicks", 2, partitioner=tf.fixed_size_partitioner(2))
    found = {"prediction": tf.reduce_sum(tf.nn.embedding_lookup(table, features), 1)}
    return tf.estimator.EstimatorSpec(mode, predictions=found)


def test_tables_that_grow_are_fixed_in_it() -> None:
    inference = build_inference_graph(_growing, INPUTS)
    assert inference.variables == ("clicks/keys", "clicks/rows")
    values = {
        "clicks/keys": np.array([-9, 4, LAST_KEY]),
        "clicks/rows": np.array([[1, 2], [3, 4], [0, 0]], np.float32),
    }
    model = InferenceModel.build(inference.graph_def, values, inference.signature)
    found = model.predict(np.array([4, 5, -9, LAST_KEY]))
    assert found["prediction"].tolist() == [7.0, 0.0, 3.0, 0.0]
    model.close()


@pytest.mark.parametrize(("name", "shape"), [("probability", (2,)), ("share", ())])
def test_only_what_spark_ml_has_as_vectors_gets_a_complement(name: str, shape: Any) -> None:
    def model_fn(features: Any, mode: str) -> Any:
        given = {name: tf.sigmoid(tf.cast(features, tf.float32))}
        return tf.estimator.EstimatorSpec(mode, predictions=given)

    (output,) = build_inference_graph(model_fn, INPUTS).signature.outputs
    assert (output.name, output.shape, output.dtype) == (name, shape, "float32")


def _with_a_local_variable(features: Any) -> Any:
    local = [tf.GraphKeys.LOCAL_VARIABLES]
    factor = tf.get_variable("factor", initializer=2.0, trainable=False, collections=local)
    return tf.cast(features, tf.float32) * factor


def _with_a_mutable_table(features: Any) -> Any:
    return tf.contrib.lookup.MutableHashTable(tf.int64, tf.int64, -1, name="t").lookup(features)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (_with_a_local_variable, r"variables factor, .*GLOBAL_VARIABLES"),
        (_with_a_mutable_table, r"mutable tables t, whose rows are not kept"),
    ],
)
def test_what_training_does_not_keep_is_refused_before_it(build: Any, message: str) -> None:
    def model_fn(features: Any, mode: str) -> Any:
        return tf.estimator.EstimatorSpec(mode, predictions=build(features))

    with pytest.raises(ValueError, match=message):
        build_inference_graph(model_fn, INPUTS)
