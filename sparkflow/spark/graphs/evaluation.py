"""The evaluation graph of the workers: metrics over the validation rows.

It reads the variables of the training graph in place. Its own variables, those of the metrics, are
on parameter servers, where the contributions of all workers are added up: the values are those over
all rows, whatever the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import sparkflow as tf
from sparkflow.embedding.read_only import ObservedEmbedding
from sparkflow.embedding.variable import kinds
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.schema.row_format import EVAL_DATA
from sparkflow.spark.graphs.batch_tensors import draw_batch
from sparkflow.spark.graphs.devices import WORKER_DEVICE, variables_on_ps
from sparkflow.spark.graphs.model_fn import (
    ModelFn,
    ModelInputs,
    call_model_fn,
    session_initializers,
)
from sparkflow.spark.graphs.stages import stages_in_scope
from sparkflow.spark.graphs.training_graph import TrainingGraph
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos.graph_pb2 import GraphDef

LOSS: Final = "loss"
"""The name of the metric that every model has: the mean loss over the rows."""

_CONTAINER: Final = b"evaluation"


@dataclass(frozen=True, slots=True)
class EvaluationGraph:
    """The graph that workers run over the validation rows.

    The driver runs `reset` in one session, then `update` in each worker's session once per batch,
    then fetches `values` in one session.

    Attributes:
        graph_def: The graph; computation is on `/job:worker`.
        session_initializers: Operations that every session runs before its first step, to fill
            lookup tables.
        reset: The operation that resets the metrics.
        update: The operation that draws a batch and adds it to the metrics.
        num_rows: Tensor, [] float32: the number of rows of that batch.
        values: Tensors of the metrics by name, including `loss`.
        variables: Names of the model's variables.
        num_stages: The number of tasks among which a worker's copy of the model is divided.
    """

    graph_def: GraphDef
    session_initializers: tuple[str, ...]
    reset: str
    update: str
    num_rows: str
    values: Mapping[str, str]
    variables: tuple[str, ...]
    num_stages: int = 1

    def replica(self, index: int, count: int) -> GraphDef:
        """Returns the graph for worker `index` of `count`, which is the same for all."""
        del index, count
        return self.graph_def


def build_evaluation_graph(
    model_fn: ModelFn, inputs: ModelInputs, layout: ClusterLayout, training: TrainingGraph
) -> EvaluationGraph:
    """Calls `model_fn` in EVAL mode and returns the graph it built.

    Args:
        model_fn: See `model_fn.ModelFn`. A spec without `eval_metric_ops` yields only the loss.
        inputs: The arguments of `model_fn`.
        layout: The tasks; metrics are on parameter servers, or on the first worker if there are
            none.
        training: The graph whose variables are evaluated.

    Raises:
        TypeError, ValueError: It did not return a spec with a loss, a metric is called `loss`, or
            it creates variables that training does not.
        Exception: What `model_fn` raises, unchanged.
    """
    graph = tf.Graph()
    with graph.as_default(), graph.device(_beside(training, layout)):
        tf.set_random_seed(inputs.seed)
        drawn = draw_batch(inputs.row_format, EVAL_DATA)
        mode = tf.estimator.ModeKeys.EVAL
        with stages_in_scope(layout.num_stages), kinds.entered(ObservedEmbedding):
            spec: Any = call_model_fn(model_fn, drawn.batch, mode, inputs.params)
        metrics = dict(spec.eval_metric_ops or {})
        if LOSS in metrics:
            raise ValueError(
                f"model_fn returned a metric called {LOSS!r} in mode {mode!r}; this name is taken "
                "by the mean loss over all rows, give the metric another one"
            )
        _require_trained(graph, training)
        metrics[LOSS] = _mean_loss(spec.loss, drawn.num_rows)
        with graph.control_dependencies([_operation(update) for _, update in metrics.values()]):
            update = tf.no_op(name="update_metrics")
        values = {
            name: tf.identity(value, name="metric_values/value").name
            for name, (value, _) in metrics.items()
        }
        reset = tf.local_variables_initializer()
        tables = session_initializers()
        variables = tuple(each.op.name for each in tf.global_variables())
        local = {each.op.name for each in tf.local_variables()}
    return EvaluationGraph(
        graph_def=_apart(graph.to_message(), local),
        session_initializers=tables,
        reset=reset.name,
        update=update.name,
        num_rows=drawn.num_rows.name,
        values=values,
        variables=variables,
        num_stages=layout.num_stages,
    )


def _mean_loss(loss: Any, num_rows: Any) -> tuple[Any, Any]:
    """A metric: the mean over all rows, computed from the mean loss of each batch."""
    collections = [tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES]
    with tf.variable_scope("mean_loss"):
        total, count = (
            tf.get_variable(
                name,
                [],
                tf.float64,
                initializer=tf.zeros_initializer(),
                trainable=False,
                collections=collections,
            )
            for name in ("total", "count")
        )
    rows = tf.cast(num_rows, tf.float64)
    added = tf.cast(tf.reshape(loss, []), tf.float64) * rows
    update = tf.group(tf.assign_add(total, added), tf.assign_add(count, rows))
    return tf.math.div_no_nan(total, count), update


def _beside(training: TrainingGraph, layout: ClusterLayout) -> Callable[[Any], str]:
    """Returns a function for `tf.device` that keeps the variables of training in place."""
    trained = set(training.variables)  # not metrics with the same names
    known = {node.name: node.device for node in training.graph_def.node if node.name in trained}
    rest: Any = variables_on_ps(layout.num_shards) or _on_first_worker

    def device_of(op: Any) -> str:
        if registry.find(op.type).is_variable and op.name in known:
            return known[op.name]
        return str(rest(op))

    return device_of


def _on_first_worker(op: Any) -> str:
    """Without parameter servers: places metrics on one worker, all else on each worker."""
    return f"{WORKER_DEVICE}/task:0" if registry.find(op.type).is_variable else WORKER_DEVICE


def _require_trained(graph: tf.Graph, training: TrainingGraph) -> None:
    with graph.as_default():
        names = {each.op.name for each in tf.global_variables()}
    missing = sorted(names - set(training.variables))
    if missing:
        raise ValueError(
            f"model_fn makes the variables {', '.join(missing)} in mode EVAL but not in mode "
            "TRAIN; both modes must build the same network under the same names"
        )


def _apart(graph_def: GraphDef, local: set[str]) -> GraphDef:
    """Returns the graph with its metrics in a separate container.

    Training may have metrics with the same names, and variables of one name in one container are
    shared.
    """
    for node in graph_def.node:
        if registry.find(node.op).is_variable and node.name in local:
            node.attr["container"].s = _CONTAINER
    return graph_def


def _operation(update: Any) -> Any:
    return update.op if isinstance(update, tf.Tensor) else update
