"""Read-only embedding variables: for evaluation during training, and in the exported model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow.embedding.options import EmbeddingVariableOption
from sparkflow.embedding.variable import EmbeddingVariable
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.ordering import group
from sparkflow.ops.shape import arrays, constants
from sparkflow.variables.variable import Variable
from sparkflow_runtime.dtypes import DType, int64

LAST_KEY: Final = (1 << 63) - 1
"""Sorted after all ids of a fixed table; its row is the one for ids without a row."""


class ObservedEmbedding(EmbeddingVariable):
    """A table that others train: lookups never change it."""

    def lookup(self, ids: Any, insert: bool = True, name: str | None = None) -> Tensor:
        """The rows of ids; zeros for ids without a row, whatever `insert` is."""
        return super().lookup(ids, insert=False, name=name)


class FixedEmbedding(EmbeddingVariable):
    """The table of a trained model: sorted ids and their rows, in two ordinary variables.

    Lookups consist of TensorFlow's own operations, so that every export format supports them.

    Attributes:
        values: The rows, [n + 1, dim]; the last one is for ids without a row.
    """

    def __init__(
        self,
        name: str,
        dim: int,
        key_dtype: DType,
        dtype: DType,
        initializer: Callable[..., Any],
        trainable: bool,
        num_shards: int,
        option: EmbeddingVariableOption,
    ) -> None:
        graph = get_default_graph()
        self.name, self.dim, self.dtype = name, dim, dtype
        self._graph, self._key_dtype, self._option = graph, key_dtype, option
        self._shards = []
        with graph.init_scope(), graph.name_scope(None):
            self._keys = Variable(
                lambda: constants.constant(np.array([LAST_KEY])),
                trainable=False,
                validate_shape=False,
                name=keys_name(name),
            )
            rows = Variable(
                lambda: constants.zeros([1, dim], dtype),
                trainable=False,
                validate_shape=False,
                name=rows_name(name),
            )
        self.values = [rows]

    @property
    def initializer(self) -> Operation:
        """Initializes the table without any ids."""
        return group(self._keys.initializer, self.values[0].initializer)

    def size(self) -> Tensor:
        """The number of ids with a row: a scalar, int64."""
        count: Tensor = arrays.size(self._keys.value(), out_type=int64) - 1
        return count

    def statistics(self) -> dict[str, Tensor]:
        """The statistics of a table without any lookups."""
        size, none = self.size(), constants.constant(0, int64)
        return {"size": size, "waiting": none, "rows": size, "evicted": none, "lookups": none}

    def evict(self) -> Tensor:
        """Does nothing and returns 0."""
        none: Tensor = constants.constant(0, int64)
        return none

    def export(self) -> tuple[Tensor, Tensor, Tensor]:
        """The ids [n] int64, sorted; the rows [n, dim]; zeros [n], as lookups are not counted."""
        keys = self._keys.value()[:-1]
        return keys, self.values[0].value()[:-1], apply_op("ZerosLike", keys)

    def lookup(self, ids: Any, insert: bool = True, name: str | None = None) -> Tensor:
        """The rows of ids; zeros for ids without a row, whatever `insert` is."""
        del insert
        with self._graph.as_default(), self._graph.name_scope(name or f"{self.name}_lookup"):
            given = self._graph.convert(ids, None, "ids")
            asked = arrays.reshape(self._hashed(given), [-1])
            keys = arrays.reshape(self._keys.value(), [-1])
            bound = apply_op(
                "LowerBound",
                arrays.expand_dims(keys, 0),
                arrays.expand_dims(asked, 0),
                out_type=int64,
            )
            place = arrays.reshape(bound, [-1])
            is_there = apply_op("Equal", arrays.gather(keys, place), asked)
            last = arrays.size(keys, out_type=int64) - 1
            rows = arrays.gather(self.values[0], apply_op("SelectV2", is_there, place, last))
            shape = arrays.concat([arrays.shape(given), [self.dim]], 0)
            found: Tensor = arrays.reshape(rows, shape)
            if given._shape is not None:
                found.set_shape(given.shape.concatenate([self.dim]))
        return found

    def __repr__(self) -> str:
        return f"<FixedEmbedding {self.name!r} dim={self.dim} dtype={self.dtype.name}>"


def keys_name(table: str) -> str:
    """The name of the variable with the ids of a fixed table."""
    return f"{table}/keys"


def rows_name(table: str) -> str:
    """The name of the variable with the rows of a fixed table."""
    return f"{table}/rows"
