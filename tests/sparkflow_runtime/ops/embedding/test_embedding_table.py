import threading

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import FailedPreconditionError, InvalidArgumentError
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.registry import lookup
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.resources.variable import Variable
from support.graphs import node

F32 = dtypes.float32
INITIAL = np.arange(24, dtype=np.float32).reshape(8, 3) + 1


class Task:
    """One parameter server: its table, values and a slot."""

    def __init__(self, **policy):
        self.resources = Resources()
        self.context = KernelContext(np, "CPU", "/device:CPU:0", self.resources, Resources())
        self.table = self.bound(node("t", "EmbeddingTable", **policy))()
        self.values = self.variable("v", 0.0)
        self.slot = self.variable("v/Adagrad", 0.5)
        self.inserting = self.bound(
            node("find", "EmbeddingLookup", "t", "v", "i", "ids", "n", dim=3, insert=True)
        )
        self.reading = self.bound(
            node("read", "EmbeddingLookup", "t", "v", "i", "ids", "n", dim=3, insert=False)
        )

    def variable(self, name, value):
        made = self.resources.get_or_create("", name, Variable, lambda: Variable(name, F32, None))
        made.array = np.full((2, 3), value, np.float32)
        return made

    def bound(self, each):
        return lookup(each.op).bind(each, self.context)

    def find(self, *ids, insert=True):
        asked = np.array(ids, np.int64)
        run = self.inserting if insert else self.reading
        return run(self.table, self.values, INITIAL, asked, np.ones(asked.size, np.int32))


def test_unseen_ids_start_from_the_rows_that_their_hash_says():
    task, other = Task(), Task()
    found, rows = task.find(7, 1 << 40, -3)
    assert rows.tolist() == [2, 3, 4]
    assert {tuple(row) for row in found.tolist()} <= {tuple(row) for row in INITIAL.tolist()}
    again, _ = other.find(-3, 99, 7)
    np.testing.assert_array_equal(again[[0, 2]], found[[2, 0]])


def test_values_and_slots_grow_together():
    task = Task()
    task.slot.array[0] = 0.25
    for start in range(0, 100, 10):
        task.find(*range(start, start + 10))
        assert task.values.array.shape == task.slot.array.shape
    assert task.values.array.shape[0] >= 102
    np.testing.assert_array_equal(task.slot.array[2:102], 0.25)


def test_a_slot_that_comes_later_gets_as_many_rows():
    task = Task()
    task.find(*range(10))
    late = task.variable("v/Momentum", 0.0)
    task.find(0)
    assert late.array.shape == task.values.array.shape


def test_reading_changes_nothing_and_gives_zeros_for_unseen_ids():
    task = Task()
    task.find(7)
    found, rows = task.find(7, 8, insert=False)
    assert found[1].tolist() == [0, 0, 0]
    assert found[0].any()
    assert rows.tolist() == [2, 1]  # gradients of row 1 are dropped
    assert (task.table.size, task.table.clock) == (1, 1)


def test_recycled_rows_start_anew():
    task = Task(capacity=1)
    for key in (1, 2, 3):
        task.find(key)
    task.slot.array[...] = 9
    task.slot.array[0] = 0.5
    found, rows = task.find(4)
    assert rows.tolist() == [2]
    assert task.slot.array[2].tolist() == [0.5] * 3
    assert tuple(found[0].tolist()) in {tuple(row) for row in INITIAL.tolist()}


def test_what_is_uninitialised_is_said_to_be():
    task = Task()
    task.values.array = None
    with pytest.raises(FailedPreconditionError, match="uninitialized value v"):
        task.find(1)
    task = Task()
    task.find(*range(10))
    task.values.array = np.zeros((2, 3), np.float32)
    with pytest.raises(FailedPreconditionError, match="'t' has 12 rows, its values 'v' have 2"):
        task.find(1)


def test_a_table_has_one_policy():
    task = Task(capacity=5)
    with pytest.raises(InvalidArgumentError, match=r"Embedding table 't' exists on .*capacity=5"):
        task.bound(node("t", "EmbeddingTable", capacity=6))


def test_rows_that_are_short_are_evicted():
    task = Task()
    _, rows = task.find(1, 2, 3)
    task.values.array[rows] = [[3, 4, 0], [0.1, 0, 0], [1, 0, 0]]
    evict = lookup("EmbeddingEvict").compute
    assert evict(np, task.table, task.values, np.float32(1.0)) == 1
    assert task.table.find(np.array([1, 2, 3])).tolist() == [2, 0, 4]
    assert evict(np, task.table, task.values, np.float32(0.0)) == 0


def test_shards_restore_what_is_theirs():
    task = Task()
    _, rows = task.find(*range(20))
    task.values.array[rows] = np.arange(20)[:, None]
    keys, places, counts, ages = lookup("EmbeddingExport").compute(np, task.table)
    saved = task.values.array[places]
    seen = []
    for shard in range(3):
        part = Task()
        own, taken = lookup("EmbeddingImport").compute(
            np, part.table, keys, np.int64(20), counts, ages, shard=shard, num_shards=3
        )
        lookup("EmbeddingRestore").compute(np, part.values, own, taken, saved)
        mine = keys[taken[1:] - 1]
        np.testing.assert_array_equal(part.find(*mine, insert=False)[0][:, 0], mine)
        seen += mine.tolist()
    assert sorted(seen) == list(range(20))


def test_statistics_and_shards_are_ops():
    task = Task(admit_after=2)
    task.find(1, 2)
    task.find(2)
    numbers = lookup("EmbeddingStatistics").compute(np, task.table)
    assert numbers.tolist() == [1, 1, 3, 0, 2]
    shards = lookup("EmbeddingShard").compute(np, np.arange(100), num_shards=3)
    assert shards.dtype == np.int32
    assert set(shards.tolist()) == {0, 1, 2}


def test_what_does_not_belong_together_is_refused():
    task, nothing = Task(), np.empty(0, np.int64)
    with pytest.raises(InvalidArgumentError, match="table 't' cannot take"):
        lookup("EmbeddingImport").compute(
            np, task.table, nothing, np.int64(1), nothing, nothing, shard=0, num_shards=1
        )
    with pytest.raises(InvalidArgumentError, match="'v' needs 5 rows from the checkpoint"):
        lookup("EmbeddingRestore").compute(
            np, task.values, np.array([0, 2]), np.array([0, 4]), np.zeros((2, 3), np.float32)
        )


def test_lookups_and_updates_of_many_threads_lose_nothing():
    task, rounds, ids = Task(), 60, list(range(0, 4000, 40))
    update = lookup("SparseApplyAdagrad").bind(
        node("u", "SparseApplyAdagrad", "v", "a", "l", "g", "r", Tindices=dtypes.int64),
        task.context,
    )
    task.slot.array[...] = 0
    failures = []

    def train(seed):
        try:
            rng = np.random.default_rng(seed)
            for turn in range(rounds):
                unseen = 10_000 + 1000 * seed + turn  # makes the arrays grow in the meantime
                _, rows = task.find(*rng.permutation(ids), unseen)
                ones = np.ones((rows.size, 3), np.float32)
                update(task.values, task.slot, np.float32(0), ones, rows)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=train, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert failures == []
    _, rows = task.find(*ids, insert=False)
    np.testing.assert_array_equal(task.slot.array[rows], 4 * rounds)


def test_a_clock_is_set_without_making_ids_older():
    task = Task(steps_to_live=20)
    for key in (1, 2, 3):
        task.find(key)
    set_clock = lookup("EmbeddingSetClock").compute
    set_clock(np, task.table, np.int64(50))
    assert task.table.clock == 50
    assert task.table.contents().ages.tolist() == [2, 1, 0]
    for clock in (1, -1):
        with pytest.raises(InvalidArgumentError, match=f"'t' cannot have had {clock} lookups"):
            set_clock(np, task.table, np.int64(clock))
    assert task.table.clock == 50
