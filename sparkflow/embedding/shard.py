"""One shard of an embedding variable: a table and its variables on one parameter server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.shape import constants
from sparkflow.train.optimizers.slots import rows_of
from sparkflow.variables.variable import Variable
from sparkflow_runtime.dtypes import DType, int64
from sparkflow_runtime.ops.embedding.embedding_rows import FIRST_ROW


class Shard:
    """One shard.

    Args:
        graph: The graph to build in, already the default graph.
        name: The name of the embedding variable.
        number: The number of this shard.
        dim: The number of elements per row.
        dtype: The dtype of the elements.
        initial: The initial value of `Shard.initial`, or a function that creates it.
        policy: The attributes of the table's node.
        trainable: Whether optimizers change the values.

    Attributes:
        values: A variable with a row per id; its other rows are free for new ids.
        initial: [initial_rows, dim], the rows that ids start from.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        number: int,
        dim: int,
        dtype: DType,
        initial: Any,
        policy: dict[str, Any],
        trainable: bool,
    ) -> None:
        self._graph, self._dim = graph, dim
        self.values = Variable(
            lambda: constants.zeros([FIRST_ROW, dim], dtype),
            trainable=trainable,
            validate_shape=False,
            name=f"{name}/values_{number}",
        )
        with graph.colocate_with(self.values, ignore_existing=True):
            self.initial = Variable(initial, trainable=False, name=f"{name}/initial_{number}")
            self._table = graph.apply(
                "EmbeddingTable",
                (),
                {**policy, "shared_name": f"{name}/table_{number}"},
                f"{name}/table_{number}",
            )
            nothing = constants.constant(np.empty(0, np.int64))
            cleared = self._import(nothing, constants.constant(0, int64), nothing, nothing, 0, 1)
        # Reinitializing the values also removes the ids.
        self.values.initializer.control_inputs.append(cleared[0].op)

    def look_up(self, ids: Tensor, counts: Tensor, insert: bool) -> Tensor:
        """Looks up the rows of distinct ids: [n, dim]."""
        with self._graph.colocate_with(self.values, ignore_existing=True):
            found, _ = self._graph.apply(
                "EmbeddingLookup",
                (self._table, self.values, self.initial, ids, counts),
                {"dim": self._dim, "insert": insert},
            )
        return found  # type: ignore[no-any-return]  # a tensor

    def evict(self, least_norm: float) -> Tensor:
        """Evicts rows and returns their number."""
        with self._graph.colocate_with(self.values, ignore_existing=True):
            norm = constants.constant(least_norm, self.values.dtype.base)
            found: Tensor = self._graph.apply(
                "EmbeddingEvict", (self._table, self.values, norm), {}
            )
        return found

    def statistics(self) -> Tensor:
        """[5] int64, see `EmbeddingStatistics`."""
        with self._graph.colocate_with(self.values, ignore_existing=True):
            found: Tensor = self._graph.apply("EmbeddingStatistics", (self._table,), {})
        return found

    def slots(self) -> list[Variable]:
        """The slots that optimizers have created for the values."""
        prefix = f"{self.values.op.name}/"
        known = self._graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
        return [each for each in known if each.op.name.startswith(prefix)]

    def export(self, variables: Sequence[Variable]) -> tuple[list[Tensor], list[Tensor]]:
        """Exports the whole shard, on its task.

        Returns:
            Ids, counts and ages: [n], those with rows first. For each variable its initial row and
                the
            rows of these ids: [m + 1, dim].
        """
        with self._graph.colocate_with(self.values, ignore_existing=True):
            keys, rows, counts, ages = self._graph.apply("EmbeddingExport", (self._table,), {})
            held = [rows_of(each, rows) for each in variables]
        return [keys, counts, ages], held

    def restore(
        self,
        ids: Sequence[Tensor],
        num_rows: Tensor,
        variables: Sequence[Variable],
        saved: Sequence[Tensor],
        number: int,
        num_shards: int,
    ) -> list[Operation]:
        """Restores this shard's part of what all shards saved."""
        with self._graph.colocate_with(self.values, ignore_existing=True):
            rows, places = self._import(ids[0], num_rows, ids[1], ids[2], number, num_shards)
            return [
                self._graph.apply("EmbeddingRestore", (each, rows, places, whole), {}).op
                for each, whole in zip(variables, saved, strict=True)
            ]

    def set_clock(self, clock: Tensor) -> Operation:
        """Sets the number of lookups."""
        with self._graph.colocate_with(self.values, ignore_existing=True):
            return self._graph.add_node("EmbeddingSetClock", (self._table, clock), {})

    def _import(
        self,
        keys: Tensor,
        num_rows: Tensor,
        counts: Tensor,
        ages: Tensor,
        number: int,
        num_shards: int,
    ) -> list[Tensor]:
        attrs = {"shard": number, "num_shards": num_shards}
        inputs = (self._table, keys, num_rows, counts, ages)
        return list(self._graph.apply("EmbeddingImport", inputs, attrs))
