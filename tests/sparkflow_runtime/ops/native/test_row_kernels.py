"""Rows gathered, summed, changed and deduplicated by machine code, against numpy."""

import threading

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.kernel import Instruction, Kernel, Operand
from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.rows import sparse_rows_update
from sparkflow_runtime.ops.native import row_kernels

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")

INDICES = (np.int32, np.int64)
NUMBERS = (np.float32, np.float64, np.int32, np.int64)
DEADLINE_S = 60


def numbers(shape, dtype, seed=0):
    return np.asarray(np.random.default_rng(seed).uniform(1, 100, shape)).astype(dtype)


def places(count, bound, dtype=np.int64, seed=1):
    return np.random.default_rng(seed).integers(0, bound, count).astype(dtype)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("dtype", [*NUMBERS, np.bool_, np.int8, np.complex64, np.float16])
@pytest.mark.parametrize("row", [(), (1,), (3,), (5, 7), (200,)])
def test_gathers_rows(index, dtype, row):
    table, indices = numbers((50, *row), dtype), places(33, 50, index)
    np.testing.assert_array_equal(row_kernels.gather(table, indices), table[indices])
    out = np.zeros((33, *row), dtype)
    assert row_kernels.gather(table, indices, out) is out
    np.testing.assert_array_equal(out, table[indices])


def test_gathers_as_the_indices_are_shaped():
    table = numbers((9, 4), np.float32)
    for shape in ((), (0,), (2, 3)):
        indices = places(shape, 9) if shape else np.array(7)
        found = row_kernels.gather(table, indices)
        assert found.shape == (*shape, 4)
        np.testing.assert_array_equal(found, table[indices])


def test_gathers_with_every_thread():
    table, indices = numbers((1000, 512), np.float32), places(3000, 1000)
    np.testing.assert_array_equal(row_kernels.gather(table, indices), table[indices])
    indices[2999] = 1000
    assert row_kernels.gather(table, indices) is None


@pytest.mark.parametrize("wrong", [-1, 50, np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_refuses_indices_out_of_bounds_and_changes_nothing(wrong):
    table, indices = numbers((50, 3), np.float32), places(20, 50)
    indices[11] = wrong
    before, updates = table.copy(), numbers((20, 3), np.float32)
    assert row_kernels.gather(table, indices) is None
    assert row_kernels.scatter("add", table, indices, updates) is False
    assert row_kernels.update(descent(), [table], indices, updates, [rate(1)]) is False
    np.testing.assert_array_equal(table, before)


def test_leaves_to_numpy_what_machine_code_does_not_take():
    table, indices = numbers((50, 4), np.float32), places(20, 50)
    updates = numbers((20, 4), np.float32)
    assert row_kernels.gather(table[:, :2], indices) is None
    assert row_kernels.gather(table.astype(object), indices) is None
    assert row_kernels.gather(table, indices.astype(np.int16)) is None
    assert row_kernels.gather(table, np.int64(3)) is None
    assert row_kernels.scatter("add", table.astype(np.float16), indices, updates) is None
    assert row_kernels.sum_rows(updates.astype(np.complex64), indices, 50) is None
    assert row_kernels.distinct(updates) is None


def test_views_are_read_in_their_order():
    """Gradients of concatenated parts are views of columns, and ids columns of a matrix."""
    wide, ids = numbers((20, 9), np.float32).astype(np.int32).astype(np.float32), places(60, 30)
    updates, indices = wide[:, 8:0:-2], ids[::3]
    assert not updates.flags.c_contiguous
    table = numbers((30, 4), np.float32).astype(np.int32).astype(np.float32)
    sums = np.zeros_like(table)
    np.add.at(sums, indices, updates)
    np.testing.assert_array_equal(row_kernels.gather(table, indices), table[indices])
    np.testing.assert_array_equal(row_kernels.sum_rows(updates, indices, 30), sums)
    first, number = row_kernels.distinct(indices)
    np.testing.assert_array_equal(indices[first][number], indices)
    changed = table.copy()
    assert row_kernels.update(descent(), [changed], indices, updates, [rate(2)]) is True
    np.testing.assert_array_equal(changed, table - 2 * sums)


def test_nothing_is_done_where_no_code_can_be_made(monkeypatch):
    monkeypatch.setattr(native, "available", lambda: False)
    table, indices = numbers((50, 4), np.float32), places(20, 50)
    assert row_kernels.gather(table, indices) is None
    assert row_kernels.scatter("add", table, indices, table[:20]) is None
    assert row_kernels.sum_rows(table[:20], indices, 50) is None
    assert row_kernels.distinct(indices) is None


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("row", [(), (1,), (3,), (8,), (5, 7), (64,)])
def test_sums_rows_in_their_order(index, dtype, row):
    data, ids = numbers((200, *row), dtype), places(200, 30, index)
    expected = np.zeros((40, *row), dtype)
    np.add.at(expected, ids, data)
    np.testing.assert_array_equal(row_kernels.sum_rows(data, ids, 40), expected)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("source", INDICES)
def test_sums_rows_taken_from_elsewhere(index, source):
    data, ids = numbers((50, 6), np.float32), places(200, 30, index)
    sources = places(200, 50, source, seed=2)
    expected = np.zeros((30, 6), np.float32)
    np.add.at(expected, ids, data[sources])
    np.testing.assert_array_equal(row_kernels.sum_rows(data, ids, 30, sources), expected)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("is_scalar", [False, True])
@pytest.mark.parametrize("function", ["add", "subtract", "multiply", "maximum", "minimum"])
def test_changes_rows_one_after_the_other(function, is_scalar, dtype):
    table, indices = numbers((20, 5), dtype), places((6, 5), 20)
    updates = np.array(3, dtype) if is_scalar else numbers((6, 5, 5), dtype, seed=3)
    expected = table.copy()
    getattr(np, function).at(expected, indices, updates)
    assert row_kernels.scatter(function, table, indices, updates) is True
    np.testing.assert_array_equal(table, expected)


@pytest.mark.parametrize("source", [None, *INDICES])
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("row", [(), (7,), (5, 8)])
def test_sums_multiples_of_rows(row, dtype, source):
    data, ids, factors = numbers((60, *row), dtype), places(60, 9), numbers(60, dtype, 2)
    sources = None if source is None else places(60, 60, source, 3)
    found = row_kernels.sum_rows(data, ids, 9, sources, factors)
    expected = np.zeros((9, *row), dtype)
    chosen = data if source is None else data[sources]
    np.add.at(expected, ids, chosen * factors.reshape(-1, *(1,) * len(row)))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)  # products may be rounded or not


def test_multiples_of_one_number_and_of_rows_that_are_set():
    table, ids, factors = numbers((9, 4), np.float32), places(20, 9), numbers(20, np.float32)
    added, assigned, updates = table.copy(), table.copy(), numbers((20, 4), np.float32, 2)
    assert row_kernels.scatter("add", added, ids, np.array(3, np.float32), None, factors)
    assert row_kernels.scatter(row_kernels.SET, assigned, ids, updates, None, factors)
    expected = table.copy()
    np.add.at(expected, ids, 3 * factors[:, None])
    np.testing.assert_allclose(added, expected, rtol=1e-6)
    for i, factor in zip(ids, factors[:, None] * updates, strict=True):
        expected[i] = factor
    np.testing.assert_array_equal(assigned[np.unique(ids)], expected[np.unique(ids)])


def test_there_is_one_factor_of_the_same_dtype_for_each_row():
    data, ids = numbers((20, 4), np.float32), places(20, 9)
    for factors in (numbers(19, np.float32), numbers(20, np.float64), numbers(40, np.float32)[::2]):
        assert row_kernels.sum_rows(data, ids, 9, None, factors) is None


def test_the_last_of_several_rows_that_are_set_remains():
    table, indices = numbers((4, 5), np.float32), np.array([2, 0, 2])
    updates = numbers((3, 5), np.float32, seed=3)
    expected = table.copy()
    expected[[0, 2]] = updates[[1, 2]]
    assert row_kernels.scatter(row_kernels.SET, table, indices, updates) is True
    np.testing.assert_array_equal(table, expected)


def test_splits_long_rows_among_threads():
    table, indices = numbers((70, 1001), np.float32), places(400, 70)
    updates = numbers((400, 1001), np.float32, seed=3)
    expected = table.copy()
    np.subtract.at(expected, indices, updates)
    assert row_kernels.scatter("subtract", table, indices, updates) is True
    np.testing.assert_array_equal(table, expected)


def test_rows_may_be_updated_with_rows_of_their_own_table():
    table, indices = numbers((6, 40), np.float64), np.array([5, 4, 3, 2, 1, 0])
    expected = table + table[::-1]
    assert row_kernels.scatter("add", table, indices, table) is True
    np.testing.assert_array_equal(table, expected)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("bound", [1, 7, 5000])
@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_tells_apart_in_order_of_appearance(count, bound, index):
    values = places(count, bound, index) - index(3)
    first, number = row_kernels.distinct(values)
    assert values[first].tolist() == list(dict.fromkeys(values.tolist()))
    np.testing.assert_array_equal(values[first][number], values)


def test_tells_apart_values_that_hash_alike():
    values = np.arange(300, dtype=np.int64) << 40
    first, number = row_kernels.distinct(np.concatenate([values, values]))
    np.testing.assert_array_equal(first, np.arange(300))
    np.testing.assert_array_equal(number, np.tile(np.arange(300), 2))


def rate(value, dtype=np.float32):
    return np.array(value, dtype)


def descent(dtype=dtypes.float32):
    """`table - update * rate`."""
    kernel = Kernel(
        1,
        (Operand(dtype, (True,)), Operand(dtype, (True,)), Operand(dtype, (False,))),
        (Instruction("multiply", (1, 2), dtype), Instruction("subtract", (0, 3), dtype)),
        (4,),
    )
    return sparse_rows_update.rule(kernel, ("table0", "update", "scalar0", "table0"))


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", [(), (1,), (3,), (8,), (5, 7), (64,)])
def test_applies_a_rule_once_to_the_sum_of_a_rows_updates(index, dtype, row):
    table, indices = numbers((50, *row), dtype), places(90, 40, index)
    updates = numbers((90, *row), dtype, seed=3).astype(np.int32).astype(dtype)
    sums = np.zeros_like(table)
    np.add.at(sums, indices, updates)
    expected = table - sums * dtype(0.5)
    given, rule = updates.copy(), descent(dtypes.as_dtype(dtype))
    assert row_kernels.update(rule, [table], indices, updates, [rate(0.5, dtype)]) is True
    np.testing.assert_allclose(table, expected, rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(updates, given)


@pytest.mark.parametrize("most", [1, 0], ids=["one thread", "all threads"])
def test_updates_of_large_tables_do_not_depend_on_threads(most):
    table, indices = np.zeros((3000, 160), np.float32), places(2500, 3000)
    updates = numbers((2500, 160), np.float32, seed=3)
    sums = np.zeros_like(table)
    np.add.at(sums, indices, updates)
    threads.set_count(most)
    try:
        assert row_kernels.update(descent(), [table], indices, updates, [rate(1)]) is True
    finally:
        threads.set_count(0)
    np.testing.assert_array_equal(table, -sums)


def test_threads_do_not_share_what_kernels_need():
    table, start = numbers((4000, 64), np.float32), threading.Barrier(4)
    wrong = []

    def work(seed):
        indices = places(3000, 4000, seed=seed)
        start.wait(DEADLINE_S)
        for _ in range(20):
            first, number = row_kernels.distinct(indices)
            gathered = row_kernels.gather(table, indices)
            if (indices[first][number] != indices).any() or (gathered != table[indices]).any():
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(DEADLINE_S)
        assert not worker.is_alive()
    assert not wrong
