"""The training graph of every worker.

It is built once, on the driver. Only protobuf messages leave the driver: no user code reaches an
executor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sparkflow as tf
from sparkflow.estimator.broadcasts import warn_of_broadcasts
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.schema.row_format import TRAIN_DATA
from sparkflow.spark.graphs.batch_tensors import draw_batch
from sparkflow.spark.graphs.commits import Commit, Commits, add_commits, as_replica
from sparkflow.spark.graphs.devices import variables_on_ps
from sparkflow.spark.graphs.growing import growing_tables
from sparkflow.spark.graphs.model_fn import (
    ModelFn,
    ModelInputs,
    call_model_fn,
    session_initializers,
)
from sparkflow.spark.graphs.own_updates import require_replicated
from sparkflow.spark.graphs.pipeline import PER_STAGE, Pipeline
from sparkflow.spark.graphs.replication import replica_graph, strategy_for
from sparkflow.spark.graphs.stages import stages_in_scope
from sparkflow.spark.graphs.state import StateNodes, add_state_nodes
from sparkflow.spark.params.config import FitConfig
from sparkflow.train.optimizers.strategy import Replication
from sparkflow_runtime.protos.graph_pb2 import GraphDef


@dataclass(frozen=True, slots=True)
class TrainingGraph:
    """The training graph that replicas run, with the names of its parts.

    Attributes:
        graph_def: The graph; computation is on `/job:worker`, variables are on tasks of `/job:ps`.
        initializers: Operations that set all variables to their initial values.
        local_initializers: Those of them that every session runs, for its own variables.
        session_initializers: Operations that every session runs before its first step, to fill
            lookup tables, which each worker has separately.
        loss: Tensor, [] float: the mean loss of the worker's batch.
        loss_name: The tensor that `model_fn` returned as loss, for error texts.
        weight: Tensor, [] float32: the number of rows of the worker's batch.
        waited_s: Tensor, [] float32: the seconds that the step waited for its batch.
        num_stages: The number of tasks among which a replica is divided.
        train_op: The operation of a step.
        variables: Names of the variables.
        trainable: Names of those that an optimizer may update, including the rows of growing
            tables.
        strategy: How the replicas' gradients reach the variables.
        config: The parameters that it was built for.
        join_ops: Operations that every session runs together before its first step.
        leave_ops: Operations that a session runs when its worker makes no more steps for now.
        state: The nodes with which checkpoints read and set the state of training.
        commits: How parameter servers count each worker's steps, reported or not; empty in modes in
            which workers do not continue without a lost one.
    """

    graph_def: GraphDef
    initializers: tuple[str, ...]
    local_initializers: tuple[str, ...]
    session_initializers: tuple[str, ...]
    loss: str
    loss_name: str
    weight: str
    waited_s: str
    num_stages: int
    train_op: str
    variables: tuple[str, ...]
    trainable: tuple[str, ...]
    strategy: Replication
    config: FitConfig
    join_ops: tuple[str, ...]
    leave_ops: tuple[str, ...]
    state: StateNodes
    commits: tuple[Commit, ...] = ()

    def replica(self, index: int, count: int) -> GraphDef:
        """Returns the graph for replica `index` of `count`."""
        made = replica_graph(self.strategy, self.graph_def, index, count)
        if self.commits:
            as_replica(made, index)
        return made


def build_training_graph(
    model_fn: ModelFn,
    inputs: ModelInputs,
    layout: ClusterLayout,
    config: FitConfig,
    examples: Callable[[int], Sequence[Any]] | None = None,
) -> TrainingGraph:
    """Calls `model_fn` in TRAIN mode and returns the graph it built.

    Args:
        model_fn: See `model_fn.ModelFn`.
        inputs: The arguments of `model_fn`.
        layout: The tasks; variables are distributed over parameter servers by size.
        config: The parameters that decide how the workers' gradients reach the variables.
        examples: Returns a given number of rows in the form of a batch; None if not available.

    Raises:
        TypeError, ValueError: It did not return a spec with loss and train_op, or it has growing
            tables of which every worker would have its own.
        Exception: What `model_fn` raises, unchanged.
    """
    graph = tf.Graph()
    with graph.as_default(), graph.device(variables_on_ps(layout.num_shards)):
        tf.set_random_seed(inputs.seed)
        drawn = draw_batch(inputs.row_format, TRAIN_DATA)
        strategy = strategy_for(config, graph, drawn.num_rows, layout.num_workers)
        batch, pipeline = drawn.batch, None
        if layout.num_stages > 1:
            count = config.micro_batches or PER_STAGE * layout.num_stages
            some = partial(examples, -(-config.batch_size // count)) if examples else None
            shards = [layout.shards_of_stage(each) for each in range(layout.num_stages)]
            pipeline = Pipeline(drawn, strategy, layout.num_stages, count, some, shards)
            batch, strategy = pipeline.first, pipeline.strategy
        with strategy.scope(), stages_in_scope(layout.num_stages):
            spec: Any = call_model_fn(model_fn, batch, tf.estimator.ModeKeys.TRAIN, inputs.params)
        if pipeline is not None:
            pipeline.check()
        if config.has_copies:
            _require_no_growing_tables()
        warn_of_broadcasts(spec.loss, batch.labels)
        join_ops = tuple(op.name for op in strategy.join_ops)
        if config.sync_mode != "async":
            require_replicated(spec.train_op, strategy.updates, config.sync_mode)
        if config.sync_mode == "async" and layout.num_ps:
            counted = add_commits(spec.train_op, layout.num_workers)
        else:
            counted = Commits((), tf.group(spec.train_op, name="train_step"), ())
        whole_loss = strategy.of_whole_batch(tf.convert_to_tensor(spec.loss))
        loss = tf.identity(tf.reshape(whole_loss, []), name="reported_loss")
        initializers = [tf.global_variables_initializer(), tf.local_variables_initializer()]
        initializers += counted.initializers
        state = add_state_nodes(tf.global_variables(), tf.local_variables())
        tables = session_initializers()
        names = tuple(variable.op.name for variable in tf.global_variables())
        trainable = [variable.op.name for variable in tf.trainable_variables()]
        trainable = [name for name in trainable if name in names]
        trainable += [each.rows for each in state.tables.values() if each.trainable]
    return TrainingGraph(
        graph_def=graph.to_message(),
        initializers=tuple(op.name for op in initializers),
        local_initializers=(initializers[1].name,),
        session_initializers=tables,
        loss=loss.name,
        loss_name=spec.loss.name,
        weight=drawn.num_rows.name,
        waited_s=drawn.waited_s.name,
        num_stages=layout.num_stages,
        train_op=counted.train_op.name,
        variables=names,
        trainable=tuple(trainable),
        strategy=strategy,
        config=config,
        join_ops=join_ops,
        leave_ops=tuple(op.name for op in strategy.leave_ops),
        state=state,
        commits=counted.groups,
    )


def _require_no_growing_tables() -> None:
    names = ", ".join(each.name for each in growing_tables())
    if names:
        raise ValueError(
            f"model_fn has tables that grow (tf.get_embedding_variable): {names}. With "
            "syncMode='allreduce' every worker has its own copy of the variables, and would have "
            "other rows for other ids: use 'sync', 'async' or 'ssp'"
        )
