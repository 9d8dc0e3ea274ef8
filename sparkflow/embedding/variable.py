"""`get_embedding_variable`: an embedding table without a fixed number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow._api import export
from sparkflow.embedding.options import (
    EmbeddingVariableOption,
    GlobalStepEvict,
    L2WeightEvict,
)
from sparkflow.embedding.saving import EmbeddingSaveable
from sparkflow.embedding.shard import Shard
from sparkflow.graph.default_stack import DefaultStack
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op, get_default_graph, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.ordering import group, identity
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.reduction import reduction
from sparkflow.ops.shape import arrays, constants
from sparkflow.variables.initializers import TruncatedNormal
from sparkflow.variables.variable_scope import get_variable_scope
from sparkflow_runtime.dtypes import (
    DType,
    as_dtype,
    float16,
    float32,
    float64,
    int32,
    int64,
    string,
)

GROWING_TABLES: Final = "sparkflow_embedding_variables"
"""The collection of a graph's embedding variables."""
_KEYS: Final = (int32, int64, string)
_VALUES: Final = (float16, float32, float64)
_MANY_ROWS: Final = 1 << 40
"""Passed to partitioners, which need the number of rows."""
_MOST_HASHES: Final = (1 << 63) - 1


@export("EmbeddingVariable")
class EmbeddingVariable:
    """Rows of numbers by id, created when an id is first looked up.

    See `get_embedding_variable`. It can be passed as the table to `tf.nn.embedding_lookup` and its
    relatives. Optimizers train `values`, the variables of its shards, and create slots for them.
    Concurrent lookups and updates by several sessions are safe.

    Attributes:
        name: Its name.
        dim: The number of elements per row.
        dtype: The dtype of the elements.
        values: One variable per shard; the table maps ids to its rows.
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
        self._shards: list[Shard] = []
        policy = _policy(option, num_shards)
        with graph.init_scope(), graph.name_scope(None):
            for number in range(num_shards):
                start = self._start(initializer)
                self._shards.append(
                    Shard(graph, name, number, dim, dtype, start, policy, trainable)
                )
        self.values = [shard.values for shard in self._shards]
        saveable = EmbeddingSaveable(name, self._shards)
        for shard in self._shards:
            for each in (shard.values, shard.initial):
                each._saved_by = saveable
                each._rows_come_and_go = each is shard.values

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self._graph

    @property
    def shards(self) -> Sequence[Shard]:
        """Its shards; empty for a fixed table."""
        return self._shards

    @property
    def initializer(self) -> Operation:
        """Removes all ids, and creates the rows that new ids start from."""
        each = [one for shard in self._shards for one in (shard.values, shard.initial)]
        return group(*[variable.initializer for variable in each])

    def lookup(self, ids: Any, insert: bool = True, name: str | None = None) -> Tensor:
        """Looks up the rows of ids: `ids.shape + [dim]`. Ids without a row read as zeros.

        Equal ids are requested once, and the gradients of their rows are added up on the worker.

        Args:
            ids: A tensor of any shape and of the key dtype.
            insert: Whether unseen ids get rows and lookups are counted; False changes nothing, as
                is appropriate for inference.
            name: Name of the scope.

        Raises:
            TypeError: The ids have a different dtype.
        """
        with self._graph.as_default(), self._graph.name_scope(name or f"{self.name}_lookup"):
            given = self._graph.convert(ids, None, "ids")
            flat = arrays.reshape(self._hashed(given), [-1])
            distinct, places, counts = apply_op("UniqueWithCounts", flat)
            rows = arrays.gather(self._rows(distinct, counts, insert), places)
            shape = arrays.concat([arrays.shape(given), [self.dim]], 0)
            found: Tensor = arrays.reshape(rows, shape)
            if given._shape is not None:
                found.set_shape(given.shape.concatenate([self.dim]))
        return found

    def size(self) -> Tensor:
        """The number of ids with a row: a scalar, int64."""
        count: Tensor = self._statistics()[0]
        return count

    def statistics(self) -> dict[str, Tensor]:
        """Scalars, int64, summed over all shards.

        `size`: ids with a row. `waiting`: ids counted but still without a row. `rows`: rows in use,
        free rows, and two more per shard. `evicted`: ids that lost their row. `lookups`: of shards.
        """
        numbers = self._statistics()
        names = ("size", "waiting", "rows", "evicted", "lookups")
        return {name: numbers[place] for place, name in enumerate(names)}

    def evict(self) -> Tensor:
        """Creates a node that evicts rows by `evict_option` and returns their number: int64."""
        option = self._option.evict_option
        least = option.l2_weight_threshold if isinstance(option, L2WeightEvict) else 0.0
        each = [shard.evict(least) for shard in self._shards]
        return reduction.reduce_sum(arrays.stack(each))

    def export(self) -> tuple[Tensor, Tensor, Tensor]:
        """The ids with rows [n] int64, the rows [n, dim], and the number of lookups of each [n]."""
        keys, rows, counts = [], [], []
        for shard in self._shards:
            ids, held = shard.export([shard.values])
            count = arrays.shape(held[0])[0] - 1
            keys.append(ids[0][:count])
            counts.append(ids[1][:count])
            rows.append(held[0][1:])
        return arrays.concat(keys, 0), arrays.concat(rows, 0), arrays.concat(counts, 0)

    def __repr__(self) -> str:
        return (
            f"<EmbeddingVariable {self.name!r} dim={self.dim} dtype={self.dtype.name} "
            f"shards={len(self._shards)}>"
        )

    # ------------------------------------------------------------------ inside

    def _start(self, initializer: Callable[..., Any]) -> Callable[[], Any]:
        """Creates the rows to start from: runs the initializer once for all shards."""
        if self._shards:
            return lambda: identity(self._shards[0].initial.initial_value)
        return lambda: initializer([self._option.initial_rows, self.dim], dtype=self.dtype)

    def _hashed(self, ids: Tensor) -> Tensor:
        kind = ids.dtype.base
        if kind is not self._key_dtype:
            raise TypeError(
                f"Embedding variable {self.name!r} is looked up by {self._key_dtype.name}, got ids "
                f"of {kind.name}"
            )
        if kind is string:
            return output_of("StringToHashBucketFast", ids, num_buckets=_MOST_HASHES)
        return elementwise.cast(ids, int64)

    def _rows(self, ids: Tensor, counts: Tensor, insert: bool) -> Tensor:
        """Looks up the rows of distinct ids: [n, dim]."""
        count = len(self._shards)
        if count == 1:
            return self._shards[0].look_up(ids, counts, insert)
        where = apply_op("EmbeddingShard", ids, num_shards=count)
        places = constants.range(arrays.size(ids))
        split = [
            apply_op("DynamicPartition", each, where, num_partitions=count)
            for each in (places, ids, counts)
        ]
        found = [
            shard.look_up(own, often, insert)
            for shard, own, often in zip(self._shards, split[1], split[2], strict=True)
        ]
        return apply_op("DynamicStitch", list(split[0]), found)  # type: ignore[no-any-return]  # a tensor

    def _statistics(self) -> Tensor:
        each = arrays.stack([shard.statistics() for shard in self._shards])
        return reduction.reduce_sum(each, 0)


kinds: Final[DefaultStack[type[EmbeddingVariable]]] = DefaultStack("kind of embedding variable")
"""The class that `get_embedding_variable` creates in this thread; by default, growing tables."""


@export("get_embedding_variable")
def get_embedding_variable(
    name: str,
    embedding_dim: int,
    key_dtype: Any = int64,
    value_dtype: Any = float32,
    initializer: Any = None,
    trainable: bool = True,
    partitioner: Callable[..., Any] | None = None,
    ev_option: EmbeddingVariableOption | None = None,
) -> EmbeddingVariable:
    """Creates an embedding variable, or returns the existing one if the variable scope reuses.

    It has a row for each id that was looked up, however large the ids are. The names of this
    function and of its options are those of DeepRec.

    Args:
        name: Its name within the current variable scope.
        embedding_dim: The number of elements per row.
        key_dtype: The dtype of ids: int64, int32, or string, which is replaced by a 63-bit hash.
        value_dtype: float32, float64 or float16.
        initializer: Creates the rows that ids start from; a truncated normal distribution with
            standard deviation 1 / sqrt(embedding_dim) when None.
        trainable: Whether optimizers update it.
        partitioner: Determines the number of shards, over which ids are distributed by hash, such
            as `tf.fixed_size_partitioner(4)`; one when None. With a `replica_device_setter` each
            shard is on the next parameter server.
        ev_option: Which ids get rows, and which lose theirs.

    Raises:
        ValueError: The name exists and the scope does not reuse, or it does not exist and the scope
            reuses; a size or dtype is invalid.
    """
    if embedding_dim < 1:
        raise ValueError(f"embedding_dim must be at least 1, got {embedding_dim}")
    keys, values = as_dtype(key_dtype), as_dtype(value_dtype)
    if keys not in _KEYS or values not in _VALUES:
        raise ValueError(
            f"Embedding variables have keys of int32, int64 or string and values of float16, "
            f"float32 or float64, not {keys.name} and {values.name}"
        )
    scope = get_variable_scope()
    full = f"{scope.name}/{name}" if scope.name else name
    graph = get_default_graph()
    known = {each.name: each for each in graph.get_collection(GROWING_TABLES)}
    if full in known:
        if not scope.reuse:
            raise ValueError(f"Embedding variable {full!r} exists already; did you mean to reuse?")
        found: EmbeddingVariable = known[full]
        return found
    if scope.reuse is True:
        raise ValueError(f"Embedding variable {full!r} does not exist, but the scope reuses")
    if initializer is None:
        initializer = TruncatedNormal(stddev=float(np.sqrt(1 / embedding_dim)))
    elif isinstance(initializer, type):
        initializer = initializer()
    num_shards = 1
    if partitioner is not None:
        num_shards = int(partitioner(shape=[_MANY_ROWS, embedding_dim], dtype=values)[0])
    kind = kinds.top() or EmbeddingVariable
    made = kind(
        full,
        embedding_dim,
        keys,
        values,
        initializer,
        trainable,
        num_shards,
        ev_option or EmbeddingVariableOption(),
    )
    graph.add_to_collection(GROWING_TABLES, made)
    return made


def _policy(option: EmbeddingVariableOption, num_shards: int) -> dict[str, Any]:
    """The attributes of the table op of one shard."""
    evict = option.evict_option
    return {
        "admit_after": option.filter_option.filter_freq if option.filter_option else 1,
        "capacity": -(-option.capacity // num_shards) if option.capacity else 0,
        "evict_oldest": option.evict_by == "age",
        "steps_to_live": evict.steps_to_live if isinstance(evict, GlobalStepEvict) else 0,
    }
