"""Growing tables as arrays: their names in checkpoints, resharding, and the model's form.

A shard's parts are `<table>/shard_<i>_of_<n>/<part>`, so that errors can name a missing or damaged
one; see `graphs.growing` for the parts. The initial value of rows is the same in all shards:
`<table>/initial`. A training with another number of shards redistributes the ids.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkflow.embedding.read_only import LAST_KEY
from sparkflow.spark.control.checkpoints.snapshot import Values
from sparkflow.spark.graphs.growing import (
    AGES,
    CLOCK,
    COUNTS,
    INITIAL,
    KEYS,
    VALUES,
    TableNodes,
)
from sparkflow_runtime import dtypes
from sparkflow_runtime.ops.embedding.embedding_rows import shards_of

_IDS: Final = (KEYS, COUNTS, AGES)
_NAME: Final = re.compile(r"(?P<table>.+)/shard_(?P<index>\d+)_of_(?P<count>\d+)/(?P<part>.+)")

Array = npt.NDArray[Any]
Shard = dict[str, Array]
"""Returns the parts of a shard by name."""


def named(table: str, shards: Sequence[Values]) -> dict[str, Array]:
    """Returns the parts of all shards of a table under their names in a checkpoint."""
    found = {f"{table}/{INITIAL}": shards[0][INITIAL]}
    for index, shard in enumerate(shards):
        for part, value in shard.items():
            if part != INITIAL:
                found[f"{table}/shard_{index}_of_{len(shards)}/{part}"] = value
    return found


def problems(saved: Values, tables: Collection[TableNodes]) -> list[str]:
    """Describes why saved values do not fit these tables; empty if they do."""
    found: list[str] = []
    for table in tables:
        shards = _shards(saved, table.name)
        if not shards:
            found.append(f"the table {table.name} is not in the checkpoint")
            continue
        counts = {count for _, count in shards}
        if len(counts) > 1:
            found.append(f"{table.name} is in the checkpoint in {sorted(counts)} shards at once")
            continue
        (count,) = counts
        lost = [index for index in range(count) if (index, count) not in shards]
        found += [f"shard {index} of {count} of {table.name} is missing" for index in lost]
        if f"{table.name}/{INITIAL}" not in saved:
            found.append(f"{table.name}/{INITIAL} is missing")
        for (index, _), shard in sorted(shards.items()):
            where = f"shard {index} of {count} of {table.name}"
            found += [f"{where} {each}" for each in _wrong(shard, table)]
    known = {table.name for table in tables}
    others = sorted({match["table"] for match in map(_NAME.fullmatch, saved) if match} - known)
    return found + [f"the model has no table {name}" for name in others]


def beside_tables(saved: Values) -> dict[str, Array]:
    """Returns the values that belong to no table."""
    names = {match["table"] for match in map(_NAME.fullmatch, saved) if match}
    initial = {f"{name}/{INITIAL}" for name in names}
    return {
        name: value
        for name, value in saved.items()
        if name not in initial and _NAME.fullmatch(name) is None
    }


def shards_for(saved: Values, table: TableNodes) -> list[Shard]:
    """Distributes saved values, which `problems` has accepted, to the shards of a table."""
    found = _shards(saved, table.name)
    old = [found[key] for key in sorted(found)]
    initial = saved[f"{table.name}/{INITIAL}"]
    if len(old) != len(table.shards):
        old = _dealt_anew(old, table)
    return [{**shard, INITIAL: initial} for shard in old]


def model_table(shards: Sequence[Values]) -> tuple[Array, Array]:
    """Converts shards to ids and rows in the model's form, see `embedding.read_only`.

    Returns:
        [n + 1] int64, sorted; [n + 1, dim], whose last row is for ids without one.
    """
    keys = np.concatenate([shard[KEYS][: _num_rows(shard)] for shard in shards])
    rows = np.concatenate([shard[VALUES][1:] for shard in shards])
    order = np.argsort(keys, kind="stable")
    last = np.array([LAST_KEY], np.int64)
    return (
        np.concatenate([keys[order], last]),
        np.concatenate([rows[order], shards[0][VALUES][:1]]),
    )


def shards_of_model(keys: Array, rows: Array, count: int) -> list[Shard]:
    """Converts the result of `model_table` to the keys and values of shards."""
    ids, place = keys[:-1], shards_of(keys[:-1], count)
    return [
        {KEYS: ids[place == index], VALUES: np.concatenate([rows[-1:], rows[:-1][place == index]])}
        for index in range(count)
    ]


def model_values(saved: Values, tables: Mapping[str, TableNodes]) -> dict[str, Array]:
    """Returns the variables and tables of a snapshot in the model's form."""
    found = beside_tables(saved)
    for table in tables.values():
        keys, rows = model_table(shards_for(saved, table))
        found |= {table.keys: keys, table.rows: rows}
    return found


def _shards(saved: Values, table: str) -> dict[tuple[int, int], Shard]:
    """Returns the parts of a table's shards, by the index of the shard and the number of shards."""
    found: dict[tuple[int, int], Shard] = {}
    for name, value in saved.items():
        match = _NAME.fullmatch(name)
        if match and match["table"] == table:
            key = int(match["index"]), int(match["count"])
            found.setdefault(key, {})[match["part"]] = value
    return found


def _wrong(shard: Values, table: TableNodes) -> list[str]:
    """Describes what is wrong with a saved shard."""
    wanted = {*_IDS, CLOCK, *table.held}
    found = [f"lacks {part}" for part in sorted(wanted - shard.keys())]
    found += [f"has {part}, which the model lacks" for part in sorted(shard.keys() - wanted)]
    if found:
        return found
    shapes = {part: list(shard[part].shape) for part in sorted(wanted)}
    if not (
        shard[CLOCK].shape == ()
        and all(shard[part].ndim == 1 and shard[part].dtype == np.int64 for part in _IDS)
        and len({shard[part].size for part in _IDS}) == 1
    ):
        return [f"has ids of shapes {shapes}"]
    for part in table.held:
        value = shard[part]
        dtype = dtypes.as_dtype(value.dtype)
        if value.ndim != 2 or value.shape[1] != table.dim or dtype is not table.dtype:
            found.append(
                f"has {part} of {dtype.name} {list(value.shape)}, and the model has rows of "
                f"{table.dtype.name} [{table.dim}]"
            )
        elif not 1 <= len(value) <= shard[KEYS].size + 1 or len(value) != len(shard[VALUES]):
            found.append(f"has {len(value) - 1} rows of {part} for {shard[KEYS].size} ids")
    return found


def _num_rows(shard: Values) -> int:
    return len(shard[VALUES]) - 1


def _dealt_anew(old: Sequence[Values], table: TableNodes) -> list[Shard]:
    count = len(table.shards)
    num_rows = [_num_rows(shard) for shard in old]
    # Ids with a row first, as each shard has them.
    ids = {
        part: np.concatenate(
            [
                *(shard[part][:rows] for shard, rows in zip(old, num_rows, strict=True)),
                *(shard[part][rows:] for shard, rows in zip(old, num_rows, strict=True)),
            ]
        )
        for part in _IDS
    }
    held = {part: np.concatenate([shard[part][1:] for shard in old]) for part in table.held}
    clock = np.max([shard[CLOCK] for shard in old])
    place = shards_of(ids[KEYS], count)
    has_row = np.arange(place.size) < sum(num_rows)
    dealt = []
    for index in range(count):
        own = place == index
        shard: Shard = {part: value[own] for part, value in ids.items()}
        shard[CLOCK] = np.asarray(clock, np.int64)
        for part, rows in held.items():
            shard[part] = np.concatenate([old[0][part][:1], rows[own[has_row]]])
        dealt.append(shard)
    return dealt
