"""The replication strategy for a trainer's parameters: how gradients reach the variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sparkflow as tf
from sparkflow.spark.params.config import FitConfig
from sparkflow.train.optimizers.strategy import AsyncReplication, Replication, Wrapping, nodes_of
from sparkflow.train.replication.all_reduce import AllReduceReplication
from sparkflow.train.replication.gradient_accumulation import GradientAccumulationOptimizer
from sparkflow.train.replication.staleness import BoundedStaleness
from sparkflow.train.replication.sync import SyncReplication
from sparkflow_runtime.protos.graph_pb2 import GraphDef

# Odd and large, so that workers' seeds do not collide in graphs with few random ops.
_SEED_STRIDE: Final = 0x9E3779B1


def strategy_for(
    config: FitConfig, graph: tf.Graph, num_rows: Any, num_workers: int
) -> Replication:
    """Returns the strategy to be in scope while `model_fn` runs; `replica_graph` numbers replicas.

    Args:
        config: The parameters of the fit.
        graph: The graph in which it is built.
        num_rows: Tensor, [] float32: the number of rows of the worker's batch.
        num_workers: The number of training workers.
    """
    made: Replication
    if config.sync_mode == "sync":
        required = num_workers - config.backup_workers if config.backup_workers else None
        made = SyncReplication(graph, num_rows, replicas_to_aggregate=required)
    elif config.sync_mode == "ssp":
        made = BoundedStaleness(config.staleness, graph)
    elif config.sync_mode == "allreduce":
        made = AllReduceReplication(graph, num_rows)
    else:
        made = AsyncReplication(graph)
    if config.gradient_accumulation > 1:
        return _Accumulating(made, config.gradient_accumulation, num_rows)
    return made


def replica_graph(strategy: Replication, graph_def: GraphDef, index: int, count: int) -> GraphDef:
    """Returns the graph for worker `index` of `count`.

    Its random ops draw different numbers from those of other workers; otherwise dropout would drop
    the same units on all of them. Worker 0 keeps the seeds of the graph.
    """
    specialised = strategy.specialised(graph_def, index, count)
    for node in nodes_of(specialised):
        if index and "seed" in node.attr and "seed2" in node.attr:
            seeds = node.attr["seed"].i, node.attr["seed2"].i
            if seeds != (0, 0):
                node.attr["seed2"].i = (seeds[1] + index * _SEED_STRIDE) & (2**62 - 1)
    return specialised


class _Accumulating(Wrapping):
    """Wraps a strategy so that each update uses the gradients of several batches.

    Args:
        inner: The wrapped strategy.
        num_batches: The number of batches per update.
        num_rows: Tensor, [] float32: the number of rows of the worker's batch.
    """

    def __init__(self, inner: Replication, num_batches: int, num_rows: Any) -> None:
        super().__init__(inner)
        self._num_batches = num_batches
        self._num_rows = num_rows

    def apply_gradients(
        self,
        optimizer: Any,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
        condition: Any = None,
    ) -> Any:
        """Returns the inner strategy's update, with an optimizer that waits for enough batches."""
        accumulating = GradientAccumulationOptimizer(optimizer, self._num_batches, self._num_rows)
        return self._inner.apply_gradients(
            accumulating, grads_and_vars, global_step, name, condition
        )
