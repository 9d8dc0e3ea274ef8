"""The graph that `transform` runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import sparkflow as tf
from sparkflow.embedding.read_only import FixedEmbedding
from sparkflow.embedding.variable import kinds
from sparkflow.export import Input, Output, Signature
from sparkflow.export.freeze import prune_graph, variable_names
from sparkflow.spark.graphs.batch_tensors import feed_features
from sparkflow.spark.graphs.model_fn import ModelFn, ModelInputs, call_model_fn
from sparkflow.spark.graphs.training_graph import TrainingGraph
from sparkflow_runtime import shapes
from sparkflow_runtime.ops.state.lookup_table import is_mutable_table
from sparkflow_runtime.protos.graph_pb2 import GraphDef


@dataclass(frozen=True, slots=True)
class InferenceGraph:
    """The graph that `transform` runs, with its signature.

    Attributes:
        graph_def: The graph.
        signature: Its inputs and outputs.
        variables: Names of its variables.
    """

    graph_def: GraphDef
    signature: Signature
    variables: tuple[str, ...]


def build_inference_graph(model_fn: ModelFn, inputs: ModelInputs) -> InferenceGraph:
    """Calls `model_fn` in PREDICT mode and returns the graph it built.

    Growing tables are frozen in it: their ids and rows are variables.

    Raises:
        TypeError, ValueError: It did not return a spec with predictions that have one row per row
            of the features.
        Exception: What `model_fn` raises, unchanged.
    """
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(inputs.seed)
        batch, fed = feed_features(inputs.row_format)
        mode = tf.estimator.ModeKeys.PREDICT
        with kinds.entered(FixedEmbedding):
            spec: Any = call_model_fn(model_fn, batch, mode, inputs.params)
        predictions = spec.predictions  # EstimatorSpec ensures that there are some
        if not isinstance(predictions, Mapping):
            predictions = {"prediction": predictions}
        outputs = tuple(_output(*each) for each in map(_of_two, predictions.items()))
        names = tuple(variable.op.name for variable in tf.global_variables())
        tables = tuple(
            each.op.name if isinstance(each, tf.Tensor) else each.name
            for each in tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
        )
    inputs_fed = tuple(
        Input(each.input.name, each.input.kind, each.input.dtype, each.input.shape, each.tensors)
        for each in fed
    )
    signature = Signature(inputs_fed, outputs, inputs.row_format.named, tables)
    message = graph.to_message()
    _require_kept(message, signature, names)
    return InferenceGraph(message, signature, names)


def _require_kept(message: GraphDef, signature: Signature, kept: Collection[str]) -> None:
    """Checks that training keeps the value of everything that predictions read.

    Raises:
        ValueError: It does not.
    """
    needed = prune_graph(message, [*signature.fetches, *signature.initializers])
    lost = [name for name in variable_names(needed) if name not in kept]
    if lost:
        raise ValueError(
            f"Predictions read the variables {', '.join(lost)}, whose values are not kept, because "
            "they are not in the collection tf.GraphKeys.GLOBAL_VARIABLES. Create them in it, with "
            "trainable=False if they are not trained"
        )
    tables = [each.name for each in needed.node if is_mutable_table(each.op)]
    if tables:
        raise ValueError(
            f"Predictions read the mutable tables {', '.join(tables)}, whose rows are not kept. "
            "Use tf.get_embedding_variable, or a table of constants"
        )


def require_same_variables(training: TrainingGraph, inference: InferenceGraph) -> None:
    """Checks that training creates every variable that inference reads.

    Raises:
        ValueError: A variable is missing in training.
    """
    missing = sorted(set(inference.variables) - {*training.variables, *training.state.names})
    if missing:
        raise ValueError(
            f"model_fn makes the variables {', '.join(missing)} in mode PREDICT but not in mode "
            "TRAIN; both modes must build the same network under the same names"
        )


def _of_two(prediction: tuple[Any, Any]) -> tuple[Any, Any]:
    """Returns a prediction; for two classes with one number per row, that of both, as in Spark ML.

    This is part of the graph, so that every form of the model returns the same.
    """
    name, tensor = prediction
    complement = _COMPLEMENTS.get(name) if isinstance(name, str) else None
    if complement is None or not isinstance(tensor, tf.Tensor) or not tensor.dtype.is_floating:
        return prediction
    shape = tensor.shape.as_list() if tensor.shape.ndims is not None else None
    if shape not in ([None], [None, 1]):
        return prediction
    flat = tf.reshape(tensor, [-1])
    return name, tf.stack([complement(flat), flat], axis=1, name=f"{name}_of_two")


_COMPLEMENTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "probability": lambda p: 1.0 - p,
    "rawPrediction": lambda r: -r,
}


def _output(name: Any, tensor: Any) -> Output:
    if not isinstance(name, str) or not isinstance(tensor, tf.Tensor):
        raise TypeError(f"Predictions must be tensors by name, got {name!r}: {tensor!r}")
    shape = tensor.shape.as_list() if tensor.shape.ndims is not None else None
    if shape is None or not shape or shape[0] is not None:
        static = None if shape is None else tuple(shape)
        raise ValueError(
            f"The prediction {name!r} has shape {shapes.text(static)}; it must have one row per "
            "row of the features: (?,), (?, n) and so on"
        )
    return Output(name, tensor.name, tensor.dtype.base_dtype.name, tuple(shape[1:]))
