"""The graph that every worker trains with.

Built on the driver, once. Only protobuf messages leave it: no user code reaches an executor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sparkflow as tf
from sparkflow.spark.feed.inputs import TRAIN_DATA
from sparkflow.spark.graphs.inputs import draw_batch
from sparkflow.spark.graphs.model_fn import (
    ModelFn,
    ModelInputs,
    call_model_fn,
    session_initializers,
)
from sparkflow.spark.graphs.placement import variables_on_ps
from sparkflow.spark.job.layout import Layout
from sparkflow.train.replication import AsyncReplication, Replication
from sparkflow.train.sync import SyncReplication
from sparkflow_runtime.protos.graph_pb2 import GraphDef


@dataclass(frozen=True, slots=True)
class TrainingMode:
    """How the workers' gradients reach the variables.

    Attributes:
        sync_mode: `async`, `sync`, `ssp` or `allreduce`.
        staleness: Steps that a worker may be ahead of the slowest, with `ssp`.
        backup_workers: Contributions that a step does without, with `sync`.
        gradient_accumulation: Batches per update.
    """

    sync_mode: str = "async"
    staleness: int = 0
    backup_workers: int = 0
    gradient_accumulation: int = 1


@dataclass(frozen=True, slots=True)
class TrainingGraph:
    """What a replica runs.

    Attributes:
        graph_def: The graph; computation is on `/job:worker`, variables are on tasks of `/job:ps`.
        initializers: Operations that give all variables their first values.
        session_initializers: Operations that every session runs before its first step: they fill
            lookup tables, which each worker has for itself.
        loss: Tensor, [] float: the mean loss of the worker's batch.
        weight: Tensor, [] float32: the rows of the worker's batch.
        waited_s: Tensor, [] float32: how long the step waited for its batch.
        train_op: The operation of a step.
        variables: Names of the variables.
        strategy: How the replicas' gradients reach the variables.
    """

    graph_def: GraphDef
    initializers: tuple[str, ...]
    session_initializers: tuple[str, ...]
    loss: str
    weight: str
    waited_s: str
    train_op: str
    variables: tuple[str, ...]
    strategy: Replication

    def replica(self, index: int, count: int) -> GraphDef:
        """The graph as replica `index` of `count` runs it."""
        return self.strategy.specialised(self.graph_def, index, count)


def build_training_graph(
    model_fn: ModelFn, inputs: ModelInputs, layout: Layout, mode: TrainingMode
) -> TrainingGraph:
    """Calls `model_fn` in TRAIN mode and returns the graph it built.

    Args:
        model_fn: See `model_fn.ModelFn`.
        inputs: What it is called with.
        layout: Its parameter servers hold the variables, balanced by their sizes.
        mode: How the workers' gradients reach the variables.

    Raises:
        TypeError, ValueError: It returned something else than a spec with loss and train_op.
        Exception: What `model_fn` raises, unchanged.
    """
    graph = tf.Graph()
    with graph.as_default(), graph.device(variables_on_ps(layout.num_shards)):
        tf.set_random_seed(inputs.seed)
        drawn = draw_batch(inputs.row_format, TRAIN_DATA)
        strategy = _strategy(mode, graph, drawn.num_rows)
        with strategy.scope():
            spec: Any = call_model_fn(
                model_fn, drawn.batch, tf.estimator.ModeKeys.TRAIN, inputs.params
            )
        if mode.sync_mode == "sync" and not strategy.join_ops:
            raise ValueError(
                "With syncMode='sync' the train_op must come from an optimizer's minimize or "
                "apply_gradients; this one does not"
            )
        train_op = tf.group(spec.train_op, name="train_step")
        loss = tf.identity(tf.reshape(spec.loss, []), name="reported_loss")
        initializers = (tf.global_variables_initializer(), tf.local_variables_initializer())
        tables = session_initializers()
        names = tuple(variable.op.name for variable in tf.global_variables())
    return TrainingGraph(
        graph_def=graph.to_message(),
        initializers=tuple(op.name for op in initializers),
        session_initializers=tables,
        loss=loss.name,
        weight=drawn.num_rows.name,
        waited_s=drawn.waited_s.name,
        train_op=train_op.name,
        variables=names,
        strategy=strategy,
    )


def _strategy(mode: TrainingMode, graph: tf.Graph, num_rows: Any) -> Replication:
    if mode.sync_mode == "sync":
        return SyncReplication(graph, num_rows)
    return AsyncReplication(graph)
