"""From Spark's batches through files to the batches of a worker."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkflow.spark.data.feed.row_table import Chunk, MappedChunks, RowTable
from sparkflow.spark.data.feed.worker_feed import WorkerFeed
from sparkflow.spark.data.feed_plan import ARRIVAL, PERMUTED, FeedPlan
from sparkflow.spark.data.schema.row_format import DENSE, RAGGED, SPARSE, Input, RowFormat
from sparkflow.spark.data.spool import spool as spool_module
from sparkflow.spark.data.spool.spool import RowSpool
from sparkflow_runtime.errors import DataLossError, OutOfRangeError
from sparkflow_runtime.resources.datasets.batch_source import BatchSource

SIZE = 50
FORMAT = RowFormat(
    features=(
        Input("number", DENSE, "int64", ()),
        Input("image", DENSE, "float32", (2, 3)),
        Input("words", RAGGED, "string", ()),
        Input("nums", RAGGED, "int64", ()),
        Input("sparse", SPARSE, "float32", (SIZE,)),
        Input("text", DENSE, "string", ()),
        Input("texts", DENSE, "string", (2,)),
    ),
    label=Input("label", DENSE, "float32", ()),
    weight=Input("weight", DENSE, "float32", ()),
    named=True,
)
NARROW = RowFormat(
    (Input("features", DENSE, "float32", (3,)),), Input("label", DENSE, "int64", ()), None, False
)
PLAN = FeedPlan(NARROW, batch_size=4, order=PERMUTED, shuffle=False, seed=1)


def _words(number: int) -> list[str]:
    """Returns the number modulo 4 as a number of words."""
    return [f"w{number}-{place}" for place in range(number % 4)]


_COLUMNS: dict[str, Any] = {
    "number": lambda numbers: pa.array(numbers, pa.int64()),
    "features": lambda numbers: pa.array([[n] * 3 for n in numbers], pa.list_(pa.float32())),
    "image": lambda numbers: pa.array(
        [[6 * n + i for i in range(6)] for n in numbers], pa.list_(pa.float32())
    ),
    "words": lambda numbers: pa.array([_words(n) for n in numbers], pa.list_(pa.string())),
    "nums": lambda numbers: pa.array([[n] * (n % 3) for n in numbers], pa.list_(pa.int64())),
    "sparse": lambda numbers: pa.array(
        [
            {"indices": [n % 7, 10 + n % 20] if n % 2 else [], "values": [n, -n] if n % 2 else []}
            for n in numbers
        ],
        pa.struct({"indices": pa.list_(pa.int32()), "values": pa.list_(pa.float64())}),
    ),
    "text": lambda numbers: pa.array([f"t{n}" for n in numbers]),
    "texts": lambda numbers: pa.array([[f"a{n}", f"b{n}"] for n in numbers]),
    "label": lambda numbers: pa.array(numbers, pa.int64()),
    "weight": lambda numbers: pa.array([n / 2 for n in numbers], pa.float32()),
}


def _batch(numbers: list[int], row_format: RowFormat = FORMAT, **more: Any) -> pa.RecordBatch:
    """Returns the rows with these numbers, with the types that Spark sends."""
    columns = {name: _COLUMNS[name](numbers) for name in [each.name for each in row_format.inputs]}
    columns["row_number"] = pa.array(numbers, pa.int64())
    return pa.RecordBatch.from_pydict(columns | more)


_opened = contextlib.ExitStack()
"""Everything that a test has opened."""


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    with _opened:
        yield


def _empty_feed(tmp_path: Path, plan: FeedPlan, worker: int = 0) -> tuple[WorkerFeed, RowSpool]:
    """Returns a worker's feed, and the spool that reports to it what it receives."""
    worker_feed = WorkerFeed(plan, worker)
    spool = RowSpool(plan.row_format, [str(tmp_path)], worker_feed.take)
    for each in (worker_feed, spool):
        _opened.callback(each.close)
    return worker_feed, spool


def _feed(
    tmp_path: Path, plan: Any, *batches: pa.RecordBatch, worker: int = 0
) -> tuple[WorkerFeed, RowSpool]:
    """Returns a worker's feed that has received these batches, and the spool that holds them."""
    worker_feed, spool = _empty_feed(tmp_path, plan, worker)
    spool.take(batches)
    return worker_feed, spool


def _drain(source: Any, most: int = 1000) -> list[tuple[list[int], float]]:
    """Row numbers and count of each batch of `NARROW`; checks that columns belong together."""
    found: list[tuple[list[int], float]] = []
    while len(found) < most:
        try:
            features, labels, waited_s, rows = source.next_batch()
        except OutOfRangeError:
            break
        assert features.dtype == np.float32
        assert waited_s.dtype == np.float32
        np.testing.assert_array_equal(features, np.repeat(labels[:, None], 3, axis=1))
        found.append((labels.tolist(), float(rows)))
    return found


def _joined(lists: Iterable[list[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(lists))


def _numbers(plan: FeedPlan, tmp_path: Path, *rows: list[int], worker: int = 0) -> list[list[int]]:
    """The row numbers of all batches."""
    found, _ = _feed(tmp_path, plan, *(_batch(each, NARROW) for each in rows), worker=worker)
    return [numbers for numbers, _ in _drain(found.train)]


def test_rows_come_in_the_order_of_their_numbers_whatever_the_order_of_arrival(
    tmp_path: Path,
) -> None:
    assert _numbers(PLAN, tmp_path, [4, 0], [], [3, 1, 2, 5]) == [[0, 1, 2, 3], [4, 5]]


@pytest.mark.parametrize("order", [ARRIVAL, PERMUTED])
@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20])
def test_each_epoch_has_each_row_once_in_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, chunk_bytes: int
) -> None:
    monkeypatch.setattr(spool_module, "FIRST_CHUNK_BYTES", chunk_bytes)
    plan = replace(PLAN, order=order, shuffle=True, batch_size=8, epochs=3)
    rows = [list(range(first, first + 10)) for first in range(0, 50, 10)]
    batches = _numbers(plan, tmp_path, *rows)
    assert [len(numbers) for numbers in batches] == [8, 8, 8, 8, 8, 8, 2] * 3
    epochs = [_joined(batches[first : first + 7]) for first in (0, 7, 14)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(50))] * 3
    assert len({tuple(epoch) for epoch in [*epochs, list(range(50))]}) == 4


def test_a_permutation_depends_on_seed_worker_and_epoch_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "FIRST_CHUNK_BYTES", 1)
    plan = replace(PLAN, shuffle=True)
    numbers = list(range(40))
    expected = _numbers(plan, tmp_path, numbers)
    assert _numbers(plan, tmp_path, numbers[25:], numbers[:25]) == expected
    assert _numbers(replace(plan, seed=2), tmp_path, numbers) != expected
    assert _numbers(plan, tmp_path, numbers, worker=1) != expected


def test_later_epochs_do_not_depend_on_how_the_first_one_arrived(tmp_path: Path) -> None:
    plan = replace(PLAN, order=ARRIVAL, shuffle=True, epochs=2)
    numbers = list(range(16))
    one = _numbers(plan, tmp_path, numbers)
    other = _numbers(plan, tmp_path, numbers[8:], numbers[:8])
    assert one[4:] == other[4:]


def test_batches_are_drawn_while_rows_arrive(tmp_path: Path) -> None:
    plan = replace(PLAN, order=ARRIVAL, shuffle=True)
    worker_feed, spool = _empty_feed(tmp_path, plan)
    got: list[list[int]] = []

    def arriving() -> Any:
        yield _batch(list(range(10)), NARROW)
        got.extend(numbers for numbers, _ in _drain(worker_feed.train, most=2))
        yield _batch(list(range(10, 20)), NARROW)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool_module, "FIRST_CHUNK_BYTES", 1)
        spool.take(arriving())
    assert set(_joined(got)) < set(range(10))
    got += [numbers for numbers, _ in _drain(worker_feed.train)]
    assert sorted(_joined(got)) == list(range(20))
    assert [len(numbers) for numbers in got] == [4] * 5


@pytest.mark.parametrize("order", [ARRIVAL, PERMUTED])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_worker_with_fewer_rows_repeats_whole_batches_as_ones_without_rows(
    tmp_path: Path, order: str, shuffle: bool
) -> None:
    """A short last batch, again and again, would be all that moving averages know of the rows."""
    plan = replace(PLAN, epochs=2, steps_per_epoch=8, order=order, batch_size=2, shuffle=shuffle)
    found, _ = _feed(tmp_path, plan, _batch([0, 1, 2, 3, 4], NARROW))
    batches = _drain(found.train)
    for epoch in (batches[:8], batches[8:]):
        assert [rows for _, rows in epoch] == [2, 2, 1] + [0] * 5
        own, again = _joined([n for n, _ in epoch[:3]]), _joined([n for n, _ in epoch[3:]])
        assert sorted(own) == [0, 1, 2, 3, 4]
        assert [len(numbers) for numbers, _ in epoch[3:]] == [2] * 5
        assert sorted(again) == sorted([0, 1, 2, 3, 4] * 2)


def test_a_worker_with_less_than_a_batch_repeats_all_it_has(tmp_path: Path) -> None:
    plan = replace(PLAN, epochs=1, steps_per_epoch=3, order=PERMUTED, batch_size=4)
    found, _ = _feed(tmp_path, plan, _batch([0, 1, 2], NARROW))
    batches = _drain(found.train)
    assert [(sorted(numbers), rows) for numbers, rows in batches] == [
        ([0, 1, 2], rows) for rows in (3, 0, 0)
    ]


def test_a_worker_without_rows_keeps_step_with_a_row_of_zeros(tmp_path: Path) -> None:
    plan = FeedPlan(FORMAT, batch_size=4, epochs=2, steps_per_epoch=3, order=PERMUTED)
    found, _ = _feed(tmp_path, plan)
    for _ in range(6):
        *parts, _waited, rows = found.train.next_batch()
        assert rows == 0
        for part, (dtype, shape) in zip(parts, FORMAT.components[:-2], strict=True):
            assert part.dtype == dtype.as_numpy_dtype
            assert all(want in (None, is_) for want, is_ in zip(shape, part.shape, strict=True)), (
                shape
            )
    with pytest.raises(OutOfRangeError):
        found.train.next_batch()


def test_a_worker_without_rows_and_steps_ends_at_once(tmp_path: Path) -> None:
    found, _ = _feed(tmp_path, replace(PLAN, order=ARRIVAL, shuffle=True, epochs=3))
    assert _drain(found.train) == _drain(found.validation) == []


@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("step", [0, 1, 3, 4])
def test_a_resumed_run_goes_on_where_it_was(tmp_path: Path, epoch: int, step: int) -> None:
    plan = replace(PLAN, shuffle=True, epochs=3, steps_per_epoch=4)
    numbers = list(range(9))
    whole, _ = _feed(tmp_path, plan, _batch(numbers, NARROW), worker=1)
    rest, _ = _feed(
        tmp_path, replace(plan, start=((0, 0), (epoch, step))), _batch(numbers, NARROW), worker=1
    )
    assert _drain(rest.train) == _drain(whole.train)[4 * epoch + step :]


def test_a_run_that_was_over_has_no_batches_left(tmp_path: Path) -> None:
    found, _ = _feed(tmp_path, replace(PLAN, start=((1, 0),)), _batch([1], NARROW))
    assert _drain(found.train) == []


def test_validation_rows_are_kept_apart_and_come_in_order_again_and_again(tmp_path: Path) -> None:
    flags = pa.array([number % 3 == 0 for number in range(10)])
    found, spool = _feed(
        tmp_path, replace(PLAN, batch_size=3), _batch(list(range(10)), NARROW, validates=flags)
    )
    assert (spool.rows, spool.validation_rows) == (found.rows, found.validation_rows) == (6, 4)
    assert _drain(found.train) == [([1, 2, 4], 3), ([5, 7, 8], 3)]
    assert _drain(found.validation, most=5) == [([0, 3, 6], 3), ([9], 1)] * 2 + [([0, 3, 6], 3)]
    found.close()


@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20])
@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_of_every_kind_of_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int, shuffle: bool
) -> None:
    monkeypatch.setattr(spool_module, "FIRST_CHUNK_BYTES", chunk_bytes)
    plan = FeedPlan(FORMAT, batch_size=5, order=PERMUTED, shuffle=shuffle)
    order = list(range(0, 20, 2)) + list(range(1, 20, 2))
    found, _ = _feed(tmp_path, plan, *(_batch(order[at : at + 7]) for at in range(0, 20, 7)))
    seen: list[int] = []
    for _ in range(4):
        *parts, _waited, rows = found.train.next_batch()
        for part, (dtype, _) in zip(parts, FORMAT.components, strict=False):
            assert part.dtype == dtype.as_numpy_dtype
            assert part.flags.c_contiguous
        numbers, image, *rest = parts
        assert rows == 5
        np.testing.assert_array_equal(
            image, (6 * numbers[:, None] + np.arange(6)).reshape(-1, 2, 3)
        )
        lists, rest = [rest[:3], rest[3:6], rest[6:9]], rest[9:]
        _check_lists(lists[0], [[word.encode() for word in _words(n)] for n in numbers])
        _check_lists(lists[1], [[n] * (n % 3) for n in numbers])
        _check_sparse(lists[2], numbers)
        text, texts, label, weight = rest
        assert text.tolist() == [b"t%d" % n for n in numbers]
        assert texts.tolist() == [[b"a%d" % n, b"b%d" % n] for n in numbers]
        np.testing.assert_array_equal(label, numbers)
        np.testing.assert_array_equal(weight, numbers / 2)
        seen += numbers.tolist()
    assert sorted(seen) == list(range(20))
    assert (seen == list(range(20))) is not shuffle


def _check_lists(parts: list[Any], expected: list[list[Any]]) -> None:
    indices, values, shape = parts
    assert values.tolist() == _joined(expected)
    assert indices.tolist() == [
        [row, place] for row, each in enumerate(expected) for place in range(len(each))
    ]
    assert shape.tolist() == [len(expected), max(map(len, expected))]


def _check_sparse(parts: list[Any], numbers: Any) -> None:
    indices, values, shape = parts
    assert shape.tolist() == [len(numbers), SIZE]
    expected = np.zeros((len(numbers), SIZE), np.float32)
    for row, number in enumerate(numbers):
        if number % 2:
            expected[row, [number % 7, 10 + number % 20]] = number, -number
    dense = np.zeros_like(expected)
    dense[indices[:, 0], indices[:, 1]] = values
    np.testing.assert_array_equal(dense, expected)
    assert indices.tolist() == sorted(indices.tolist())


def test_rows_that_lie_one_after_the_other_are_not_copied(tmp_path: Path) -> None:
    found, _ = _feed(tmp_path, PLAN, _batch(list(range(8)), NARROW))
    first, second = found.train.next_batch()[0], found.train.next_batch()[0]
    assert not first.flags.owndata
    assert not first.flags.writeable  # it is the mapped file
    assert second.ctypes.data - first.ctypes.data == first.nbytes


def test_a_child_that_is_started_again_finds_all_rows(tmp_path: Path) -> None:
    first, spool = _feed(tmp_path, PLAN, _batch([0, 1], NARROW))
    assert list(tmp_path.iterdir()) == []
    assert _drain(first.train) == [([0, 1], 2)]
    second = WorkerFeed(PLAN, 0)
    assert [second.take(message) for message in spool.messages] == [False, True]
    assert _drain(second.train) == [([0, 1], 2)]
    spool.close()
    third = WorkerFeed(PLAN, 0)
    third.take(spool.messages[0])
    with pytest.raises(FileNotFoundError):
        third.train.next_batch()


def test_closing_ends_a_wait_for_rows() -> None:
    worker_feed = WorkerFeed(PLAN, 0)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            worker_feed.train.next_batch()
        except OutOfRangeError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    worker_feed.close()
    thread.join(10)
    assert len(errors) == 1
    assert isinstance(worker_feed.train, BatchSource)


def test_a_plan_survives_json() -> None:
    plan = replace(PLAN, start=((1, 2), (1, 3)))
    assert FeedPlan.from_json(plan.to_json()) == plan
    assert (plan.start_of(1), plan.start_of(2)) == ((1, 3), (0, 0))


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (
            {"features": pa.array([[1, 2, 3], [4.0]])},
            r"takes 3 elements per row for 'features', but 1 of 2 .*: 1, although none did",
        ),
        ({"features": pa.array([None, [1, 2, 3.0]])}, "1 of 2 rows hold nulls.* in 'features'"),
        ({"features": pa.array([[1, None, 3], [1, 2, 3.0]])}, "1 of 2 rows .* in 'features'"),
        ({"label": pa.array([None, 1])}, "1 of 2 rows hold nulls.* in 'label', although none did"),
    ],
)
def test_rows_that_the_driver_would_have_refused_are_refused(
    tmp_path: Path, columns: dict[str, Any], text: str
) -> None:
    with pytest.raises(DataLossError, match=text):
        _feed(tmp_path, PLAN, _batch([0, 1], NARROW, **columns))


def test_indices_beyond_the_size_of_a_sparse_vector_are_refused(tmp_path: Path) -> None:
    column = pa.array([{"indices": [SIZE], "values": [1.0]}])
    with pytest.raises(DataLossError, match="1 indices of the sparse vectors in 'sparse'"):
        _feed(tmp_path, FeedPlan(FORMAT, 2), _batch([1], sparse=column))


def test_rows_that_are_large_beside_the_memory_are_given_back_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "FIRST_CHUNK_BYTES", 1)
    paths: list[str] = []
    spool = RowSpool(
        NARROW, [str(tmp_path)], lambda told: paths.append(told["chunk"]) if "chunk" in told else 0
    )
    spool.take([_batch([0, 1], NARROW), _batch([2, 3, 4], NARROW)])
    chunks = MappedChunks(memory_bytes=0)
    monkeypatch.setattr("sparkflow.spark.data.feed.row_table._mapped_bytes", lambda: 1 << 60)
    chunks._before = 0
    table = RowTable(NARROW, chunks)
    for path in paths:
        table.append(Chunk(path))
    assert table.is_large
    for _ in range(2):
        ((features, labels),) = table.take(np.array([4, 0, 2]), 3)
        assert labels.tolist() == [4, 0, 2]
        np.testing.assert_array_equal(features[:, 0], [4, 0, 2])
    spool.close()
