import numpy as np
import pytest

from sparkflow_runtime.ops.embedding.embedding_rows import (
    FIRST_ROW,
    FRESH_ROW,
    Contents,
    EmbeddingRows,
    Policy,
    shards_of,
)
from sparkflow_runtime.ops.native import key_index


def table(**policy):
    return EmbeddingRows("t", Policy(**policy))


def seen(rows, *ids, counts=None):
    ids = np.array(ids, np.int64)
    return rows.look_up(ids, np.ones(ids.size, np.int32) if counts is None else np.array(counts))


def held(rows):
    contents = rows.contents()
    return set(contents.keys[: contents.rows.size].tolist())


def test_unseen_ids_get_the_next_rows():
    rows = table()
    found = seen(rows, 50, -7, 1 << 60)
    assert found.rows.tolist() == [2, 3, 4]
    assert found.new_rows.tolist() == [2, 3, 4]
    assert found.new_keys.tolist() == [50, -7, 1 << 60]
    again = seen(rows, -7, 9)
    assert again.rows.tolist() == [3, 5]
    assert again.new_keys.tolist() == [9]
    assert rows.find(np.array([1 << 60, 8])).tolist() == [4, FRESH_ROW]
    assert (rows.size, rows.num_rows, rows.clock) == (4, 6, 2)


def test_ids_may_come_twice_in_a_lookup():
    found = seen(table(), 5, 6, 5)
    assert found.rows.tolist() == [2, 3, 2]
    assert found.new_keys.tolist() == [5, 6]


def test_ids_are_admitted_after_so_many_lookups():
    rows = table(admit_after=3)
    assert seen(rows, 5, 6, counts=[1, 3]).rows.tolist() == [FRESH_ROW, FIRST_ROW]
    assert (rows.size, rows.waiting) == (1, 1)
    assert seen(rows, 5).rows.tolist() == [FRESH_ROW]
    found = seen(rows, 5)
    assert found.rows.tolist() == [FIRST_ROW + 1]
    assert found.new_keys.tolist() == [5]
    assert (rows.size, rows.waiting) == (2, 0)


def test_a_full_table_evicts_those_looked_up_least_then_the_oldest():
    rows = table(capacity=4)
    for ids in ([1, 2, 3, 4], [1, 2, 3], [1], [4]):
        seen(rows, *ids)
    seen(rows, 5)  # 2, 3 and 4 were looked up twice, 2 and 3 before 4
    assert held(rows) == {1, 3, 4, 5}
    assert (rows.size, rows.evicted) == (4, 1)


def test_a_full_table_evicts_the_oldest_when_told_so():
    rows = table(capacity=3, evict_oldest=True)
    for ids in ([1, 2, 3], [1, 1, 1], [2, 3]):
        seen(rows, *ids)
    seen(rows, 4)
    assert held(rows) == {2, 3, 4}


def test_what_is_looked_up_is_never_evicted():
    rows = table(capacity=2)
    assert seen(rows, 1, 2, 3, 4).rows.tolist() == [2, 3, 4, 5]
    assert rows.size == 4
    seen(rows, 5)
    assert held(rows) >= {5}
    assert rows.size == 2


def test_a_row_is_given_to_another_id_after_the_next_eviction_only():
    rows = table(capacity=1)
    assert seen(rows, 1).rows.tolist() == [2]
    assert seen(rows, 2).rows.tolist() == [3]  # evicts 1
    assert seen(rows, 3).rows.tolist() == [4]  # evicts 2, row 2 is free now
    assert seen(rows, 4).rows.tolist() == [2]
    assert rows.num_rows == 5


def test_rows_not_looked_up_for_long_go():
    rows = table(steps_to_live=4)
    seen(rows, 1, 2)
    for _ in range(4):
        seen(rows, 2)
    assert held(rows) == {1, 2}
    seen(rows, 2)
    assert held(rows) == {2}
    assert rows.drop_old() == 0


def test_ids_that_never_get_a_row_are_forgotten_in_time():
    rows = table(admit_after=5, capacity=10)
    for start in range(0, 400, 20):
        seen(rows, *range(start, start + 20))
    assert rows.size == 0
    assert rows.waiting <= 60
    assert rows.contents().keys.min() >= 300


def test_named_rows_go():
    rows = table()
    found = seen(rows, 7, 8, 9)
    assert rows.drop_rows(found.rows[[0, 2]]) == 2
    assert held(rows) == {8}
    assert rows.drop_rows(np.array([FRESH_ROW])) == 0


def test_contents_come_back():
    rows = table(admit_after=2, capacity=5)
    seen(rows, 1, 2, 3, counts=[2, 1, 2])
    seen(rows, 3)
    before = rows.contents()
    assert before.keys.tolist() == [1, 3, 2]
    other = table(admit_after=2, capacity=5)
    seen(other, 99, counts=[2])
    assert other.restore(before).tolist() == [2, 3]
    after = other.contents()
    for name in ("keys", "rows", "counts", "ages"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert seen(other, 2).rows.tolist() == [4]  # it had been counted once


def test_nothing_comes_back_as_nothing():
    nothing = np.empty(0, np.int64)
    rows = table()
    seen(rows, 1)
    assert rows.restore(Contents(nothing, nothing, nothing, nothing)).size == 0
    assert (rows.size, rows.num_rows) == (0, FIRST_ROW)


@pytest.mark.parametrize("kind", [key_index.DictKeyIndex, None])
def test_it_is_a_dictionary_whatever_comes(monkeypatch, kind):
    if kind is not None:
        monkeypatch.setattr(key_index.native, "available", lambda: False)
    rng = np.random.default_rng(1)
    rows, model = table(), {}
    for step in range(40):
        ids = rng.integers(-300, 300, 50)
        found = rows.look_up(ids, np.ones(50, np.int32))
        for key, row in zip(ids.tolist(), found.rows.tolist(), strict=True):
            assert model.setdefault(key, row) == row
        if step % 7 == 3:
            doomed = rng.choice(sorted(model), 20, replace=False).tolist()
            rows.drop_rows(np.array([model.pop(key) for key in doomed]))
        assert len(set(model.values())) == len(model) == rows.size
    assert held(rows) == set(model)


def test_shards_are_even_and_stay():
    for ids in (np.arange(30000), np.arange(30000) * 4096, -np.arange(30000)):
        counts = np.bincount(shards_of(ids, 7), minlength=7)
        assert counts.min() > 0.9 * counts.mean()
    assert (
        shards_of(np.array([0, 1, 2, 3, -1, 1 << 40]), 5).tolist()
        == shards_of(np.array([0, 1, 2, 3, -1, 1 << 40]), 5).tolist()
    )
