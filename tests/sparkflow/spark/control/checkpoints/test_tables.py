"""Growing tables as arrays: what fits, what is missing, different numbers of shards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow.embedding.read_only import LAST_KEY
from sparkflow.spark.control.checkpoints.tables import (
    beside_tables,
    model_table,
    model_values,
    named,
    problems,
    shards_for,
    shards_of_model,
)
from sparkflow.spark.graphs.growing import ShardNodes, TableNodes
from sparkflow_runtime.dtypes import float32, float64
from sparkflow_runtime.ops.embedding.embedding_rows import shards_of

NOTHING = ShardNodes({}, {}, "", "", "", {}, "")
ENDS = (1 << 63) - 1, -(1 << 63)


def table(shards: int = 1, dim: int = 2, dtype: Any = float32, slots: Any = ("m",)) -> TableNodes:
    return TableNodes("t", dim, dtype, tuple(slots), True, (NOTHING,) * shards)


def shard(keys: Any, rows: int, clock: int = 9) -> dict[str, Any]:
    """A shard whose rows are computed from their ids; only the first `rows` ids have one."""
    ids = np.array(keys, np.int64)
    values = np.concatenate([[0], ids[:rows] % 1000]).astype(np.float32)
    return {
        "keys": ids,
        "counts": np.arange(ids.size) + 1,
        "ages": np.arange(ids.size) % 5,
        "clock": np.asarray(clock, np.int64),
        "initial": np.ones((3, 2), np.float32),
        "values": np.stack([values, -values], 1),
        "slots/m": np.stack([values + 0.5, values], 1),
    }


def of(count: int, keys: Any) -> list[dict[str, Any]]:
    """Shards as in training: each id in the shard of its hash, the last one without a row yet."""
    ids = np.array(keys, np.int64)
    place = shards_of(ids, count)
    return [shard(ids[place == each], max((place == each).sum() - 1, 0)) for each in range(count)]


@pytest.mark.parametrize("keys", [[], [5], [*ENDS, -1, 0, 1], list(range(-40, 40, 3))])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_ids_are_dealt_to_any_number_of_shards_and_back(keys: list[int], count: int) -> None:
    saved = named("t", of(3, keys))
    assert problems(saved, [table(count)]) == []
    dealt = shards_for(saved, table(count))
    assert len(dealt) == count
    for index, each in enumerate(dealt):
        assert set(shards_of(each["keys"], count)) <= {index}
        expected = shard(each["keys"], len(each["values"]) - 1)
        np.testing.assert_array_equal(each["values"], expected["values"])
        np.testing.assert_array_equal(each["slots/m"], expected["slots/m"])
        assert each["clock"] == 9
        assert each["initial"].shape == (3, 2)
    assert problems(named("t", dealt), [table(count)]) == []
    np.testing.assert_array_equal(model_table(dealt)[0], model_table(of(3, keys))[0])
    np.testing.assert_array_equal(model_table(dealt)[1], model_table(of(3, keys))[1])


def test_a_model_has_sorted_ids_and_a_row_for_all_others() -> None:
    keys, rows = model_table([shard([7, -3, 50], 2), shard([], 0), shard([ENDS[0]], 1)])
    assert keys.tolist() == [-3, 7, ENDS[0], LAST_KEY]
    assert rows[:, 0].tolist() == [997.0, 7.0, 807.0, 0.0]
    parts = shards_of_model(keys, rows, 4)
    again = model_table([{**each} for each in parts])
    np.testing.assert_array_equal(again[0], keys)
    np.testing.assert_array_equal(again[1], rows)


def test_other_variables_are_beside_tables() -> None:
    saved = {**named("t", of(2, [1, 2, 3])), "w": np.ones(3), "u/initial": np.ones(2)}
    assert set(beside_tables(saved)) == {"w", "u/initial"}
    values = model_values(saved, {"t": table(1)})
    assert set(values) == {"w", "u/initial", "t/keys", "t/rows"}


def without(saved: dict[str, Any], part: str) -> dict[str, Any]:
    return {name: value for name, value in saved.items() if part not in name}


def replaced(saved: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    assert name in saved
    return {**saved, name: value}


SAVED = named("t", [shard([1, 2, 3], 2), shard([4, 5], 1)])
TWO = named("t", [shard([1], 1)])


@pytest.mark.parametrize(
    ("saved", "wanted", "text"),
    [
        (without(SAVED, "shard_1"), table(), "shard 1 of 2 of t is missing"),
        (without(SAVED, "shard_0_of_2/ages"), table(), "shard 0 of 2 of t lacks ages"),
        (without(SAVED, "/initial"), table(), "t/initial is missing"),
        ({}, table(), "the table t is not in the checkpoint"),
        ({**SAVED, **TWO}, table(), r"t is in the checkpoint in \[1, 2\] shards at once"),
        (SAVED, table(slots=()), "shard 0 of 2 of t has slots/m, which the model lacks"),
        (SAVED, table(slots=("m", "v")), "shard 0 of 2 of t lacks slots/v"),
        (SAVED, table(dim=3), r"has values of float32 \[3, 2\], and the model .* float32 \[3\]"),
        (SAVED, table(dtype=float64), r"has values of float32 \[3, 2\], and .* float64 \[2\]"),
        (
            replaced(SAVED, "t/shard_1_of_2/values", np.zeros((9, 2), np.float32)),
            table(),
            "shard 1 of 2 of t has 8 rows of values for 2 ids",
        ),
        (
            replaced(SAVED, "t/shard_1_of_2/slots/m", np.zeros((3, 2), np.float32)),
            table(),
            "shard 1 of 2 of t has 2 rows of slots/m for 2 ids",
        ),
        (
            replaced(SAVED, "t/shard_0_of_2/counts", np.zeros(2, np.int64)),
            table(),
            "shard 0 of 2 of t has ids of shapes",
        ),
        (
            replaced(SAVED, "t/shard_0_of_2/keys", np.zeros(3, np.float32)),
            table(),
            "shard 0 of 2 of t has ids of shapes",
        ),
    ],
)
def test_what_does_not_fit_names_the_shard(
    saved: dict[str, Any], wanted: TableNodes, text: str
) -> None:
    found = problems(saved, [wanted])
    assert found
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(found[0])


def test_tables_that_the_model_lacks_are_named() -> None:
    assert problems(SAVED, []) == ["the model has no table t"]
