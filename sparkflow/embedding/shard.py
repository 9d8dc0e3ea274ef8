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
        graph: Where it is made; the default graph already.
        name: Of the embedding variable.
        number: Which shard it is.
        dim: Elements of a row.
        dtype: Of these.
        initial: What the rows start from is assigned this; a function that makes it.
        policy: Attributes of the table's node.
        trainable: Whether optimizers change the values.

    Attributes:
        values: A variable with a row per id; most of its rows belong to ids of the past or future.
        initial: [initial_rows, dim] the rows that ids start from.
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
        # Whoever starts the values anew forgets the ids too.
        self.values.initializer.control_inputs.append(cleared[0].op)

    def look_up(self, ids: Tensor, counts: Tensor, insert: bool) -> Tensor:
        """Rows of distinct ids: [n, dim]."""
        with self._graph.colocate_with(self.values, ignore_existing=True):
            found, _ = self._graph.apply(
                "EmbeddingLookup",
                (self._table, self.values, self.initial, ids, counts),
                {"dim": self._dim, "insert": insert},
            )
        return found  # type: ignore[no-any-return]  # a tensor

    def evict(self, least_norm: float) -> Tensor:
        """How many rows went."""
        with self._graph.colocate_with(self.values, ignore_existing=True):
            norm = constants.constant(least_norm, self.values.dtype.base)
            found: Tensor = self._graph.apply(
                "EmbeddingEvict", (self._table, self.values, norm), {}
            )
        return found

    def statistics(self) -> Tensor:
        """[5] int64, see the op."""
        with self._graph.colocate_with(self.values, ignore_existing=True):
            found: Tensor = self._graph.apply("EmbeddingStatistics", (self._table,), {})
        return found

    def slots(self) -> list[Variable]:
        """The variables that optimizers made beside the values."""
        prefix = f"{self.values.op.name}/"
        known = self._graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
        return [each for each in known if each.op.name.startswith(prefix)]

    def export(self, variables: Sequence[Variable]) -> tuple[list[Tensor], list[Tensor]]:
        """All it has, on its task.

        Returns:
            Ids, counts and ages: [n], those with rows first. Per variable what rows start from and
            the rows of these ids: [m + 1, dim].
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
        """Puts back what of all shards belongs to this one."""
        with self._graph.colocate_with(self.values, ignore_existing=True):
            rows, places = self._import(ids[0], num_rows, ids[1], ids[2], number, num_shards)
            return [
                self._graph.apply("EmbeddingRestore", (each, rows, places, whole), {}).op
                for each, whole in zip(variables, saved, strict=True)
            ]

    def set_clock(self, clock: Tensor) -> Operation:
        """Has had so many lookups."""
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
