"""Nodes that read and set growing tables, for checkpoints, best values and the model.

The mapping from ids to rows is not in a variable, and the variables of a shard grow with its ids.
So the state of a shard is read and set as a whole, in parts that belong together (`keys`, `counts`,
`ages`, `clock`, `initial`, `values`, and one part per optimizer slot with its name).
`control.checkpoints.tables` names these in checkpoints and distributes them over another number of
shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sparkflow as tf
from sparkflow.embedding.read_only import keys_name, rows_name
from sparkflow.embedding.shard import Shard
from sparkflow.embedding.variable import GROWING_TABLES, EmbeddingVariable
from sparkflow_runtime.dtypes import DType, int64

KEYS, COUNTS, AGES, CLOCK, INITIAL, VALUES = (
    "keys",
    "counts",
    "ages",
    "clock",
    "initial",
    "values",
)
SLOTS: Final = "slots/"
"""The prefix of a slot's name."""
_STATE: Final = 4
"""The index of the number of lookups in `EmbeddingStatistics`."""


@dataclass(frozen=True, slots=True)
class ShardNodes:
    """Nodes that read and set one shard.

    Attributes:
        values: Tensors of its parts: `keys` [n], those with rows first, `counts` [n], `ages` [n],
            `clock` [], `initial` [k, dim]; `values` and slots [m + 1, dim], the first of which is
            what rows start from, the others those of the first m keys.
        feeds: Placeholders for these values.
        restore: The operation that sets all of them to the fed values.
        keep: The operation that copies keys and values on the shard's own task.
        give_back: The operation that sets keys and values to that copy; slots are not restored.
        kept: Tensors with the copy's `keys` [m] and `values` [m + 1, dim].
        assign_kept: The operation that sets the copy to the fed `keys` and `values`.
    """

    values: Mapping[str, str]
    feeds: Mapping[str, str]
    restore: str
    keep: str
    give_back: str
    kept: Mapping[str, str]
    assign_kept: str


@dataclass(frozen=True, slots=True)
class TableNodes:
    """A growing table.

    Attributes:
        name: The table's name.
        dim: The number of elements per row.
        dtype: The dtype of these elements.
        slots: The names of the optimizer's slots.
        trainable: Whether an optimizer may update it.
        shards: The table's shards.
    """

    name: str
    dim: int
    dtype: DType
    slots: tuple[str, ...]
    trainable: bool
    shards: tuple[ShardNodes, ...]

    @property
    def keys(self) -> str:
        """The name of the ids in a model."""
        return keys_name(self.name)

    @property
    def rows(self) -> str:
        """The name of the rows in a model."""
        return rows_name(self.name)

    @property
    def held(self) -> tuple[str, ...]:
        """The parts of a shard that have rows."""
        return (VALUES, *(f"{SLOTS}{name}" for name in self.slots))


def growing_tables() -> list[EmbeddingVariable]:
    """Returns the growing tables of the default graph."""
    return list(tf.get_collection(GROWING_TABLES))


def variables_of_tables(tables: Sequence[EmbeddingVariable]) -> set[str]:
    """Returns the names of all variables of the tables, including those of optimizers."""
    return {
        variable.op.name
        for table in tables
        for shard in table.shards
        for variable in (shard.values, shard.initial, *shard.slots())
    }


def add_table_nodes(table: EmbeddingVariable) -> TableNodes:
    """Adds the nodes of a table to the default graph, after the optimizer has created its slots."""
    below = f"{table.shards[0].values.op.name}/"
    slots = sorted(each.op.name.removeprefix(below) for each in table.shards[0].slots())
    return TableNodes(
        name=table.name,
        dim=table.dim,
        dtype=table.dtype,
        slots=tuple(slots),
        trainable=table.shards[0].values in tf.trainable_variables(),
        shards=tuple(_nodes_of(table, shard, slots) for shard in table.shards),
    )


def _nodes_of(table: EmbeddingVariable, shard: Shard, slots: Sequence[str]) -> ShardNodes:
    below = f"{shard.values.op.name}/"
    known = {each.op.name.removeprefix(below): each for each in shard.slots()}
    variables = [shard.values, *(known[name] for name in slots)]
    held = (VALUES, *(f"{SLOTS}{name}" for name in slots))
    (keys, counts, ages), rows = shard.export(variables)
    with tf.get_default_graph().colocate_with(shard.values, ignore_existing=True):
        clock = shard.statistics()[_STATE]
        feeds = {
            **{part: tf.placeholder(int64, [None], name=part) for part in (KEYS, COUNTS, AGES)},
            CLOCK: tf.placeholder(int64, [], name=CLOCK),
            INITIAL: tf.placeholder(table.dtype, [None, table.dim], name=INITIAL),
            **{part: tf.placeholder(table.dtype, [None, table.dim], name="held") for part in held},
        }
        ids = [feeds[part] for part in (KEYS, COUNTS, AGES)]
        given = [feeds[part] for part in held]
        restored = shard.restore(ids, _num_rows(given[0]), variables, given, 0, 1)
        with tf.control_dependencies(restored):
            clocked = shard.set_clock(feeds[CLOCK])
        initial = tf.assign(shard.initial, feeds[INITIAL], validate_shape=False)
        restore = tf.group(clocked, initial, name="restore")
        kept_keys = _copy(int64, "kept_keys")
        kept_rows = _copy(table.dtype, "kept_rows")
        keep = tf.group(
            tf.assign(kept_keys, keys[: _num_rows(rows[0])], validate_shape=False),
            tf.assign(kept_rows, rows[0], validate_shape=False),
            name="keep",
        )
        assign_kept = tf.group(
            tf.assign(kept_keys, feeds[KEYS], validate_shape=False),
            tf.assign(kept_rows, feeds[VALUES], validate_shape=False),
            name="assign_kept",
        )
        kept = {KEYS: tf.identity(kept_keys), VALUES: tf.identity(kept_rows)}
        ones = tf.ones_like(kept[KEYS])
        again = [kept[KEYS], ones, ones - 1]
        back = shard.restore(again, _num_rows(kept[VALUES]), variables[:1], [kept[VALUES]], 0, 1)
        give_back = tf.group(*back, name="give_back")
    values = {KEYS: keys, COUNTS: counts, AGES: ages, CLOCK: clock, INITIAL: shard.initial.value()}
    values |= dict(zip(held, rows, strict=True))
    return ShardNodes(
        values={part: tensor.name for part, tensor in values.items()},
        feeds={part: tensor.name for part, tensor in feeds.items()},
        restore=restore.name,
        keep=keep.name,
        give_back=give_back.name,
        kept={part: tensor.name for part, tensor in kept.items()},
        assign_kept=assign_kept.name,
    )


def _copy(dtype: DType, name: str) -> Any:
    attrs = {"dtype": dtype, "shape": None}
    return tf.get_default_graph().apply("VariableV2", (), attrs, name=name)


def _num_rows(held: Any) -> Any:
    """Returns the number of ids among these rows, the first of which belongs to no id."""
    return tf.shape(held, out_type=int64)[0] - 1
