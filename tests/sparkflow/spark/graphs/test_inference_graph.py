"""The graph that `transform` runs, as it is built."""

from typing import Any

import pytest

import sparkflow as tf
from sparkflow.spark.data.schema.row_format import Input, RowFormat
from sparkflow.spark.graphs.inference_graph import build_inference_graph
from sparkflow.spark.graphs.model_fn import ModelInputs
from sparkflow_runtime.errors import UnimplementedError

INPUTS = ModelInputs(
    RowFormat((Input("features", "dense", "int64", ()),), None, None, False), {}, 0
)


def _growing(features: Any, mode: str) -> Any:
    table = tf.get_embedding_variable("clicks", 2, partitioner=tf.fixed_size_partitioner(2))
    found = {"prediction": tf.reduce_sum(tf.nn.embedding_lookup(table, features), 1)}
    return tf.estimator.EstimatorSpec(mode, predictions=found)


def test_tables_that_grow_are_refused_before_training() -> None:
    with pytest.raises(UnimplementedError, match=r"tables that grow .*: clicks\. Models"):
        build_inference_graph(_growing, INPUTS)


@pytest.mark.parametrize(("name", "shape"), [("probability", (2,)), ("share", ())])
def test_only_what_spark_ml_has_as_vectors_gets_a_complement(name: str, shape: Any) -> None:
    def model_fn(features: Any, mode: str) -> Any:
        given = {name: tf.sigmoid(tf.cast(features, tf.float32))}
        return tf.estimator.EstimatorSpec(mode, predictions=given)

    (output,) = build_inference_graph(model_fn, INPUTS).signature.outputs
    assert (output.name, output.shape, output.dtype) == (name, shape, "float32")
