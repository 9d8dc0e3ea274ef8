"""Rows from Arrow batches to the batches that a worker trains on."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sparkflow.spark.feed import feed
from sparkflow.spark.feed.feed import ArrowSource, FeedPlan, write_rows
from sparkflow_runtime.errors import DataLossError, OutOfRangeError
from sparkflow_runtime.resources.batch_source import BatchSource

DIM = 3


def _batch(numbers: list[int], lengths: int = DIM) -> pa.RecordBatch:
    """Rows whose features all equal their number, whose labels are its negative."""
    features = [[float(n)] * lengths for n in numbers]
    return pa.RecordBatch.from_pydict(
        {
            "features": pa.array(features, pa.list_(pa.float32())),
            "label": pa.array([-n for n in numbers], pa.int64()),
            "row_number": pa.array(numbers, pa.int64()),
        }
    )


def _source(
    path: Path,
    *batches: pa.RecordBatch,
    batch_size: int = 2,
    epochs: int = 1,
    steps_per_epoch: int = 0,
    shuffle: bool = False,
    seed: int = 1,
    worker: int = 0,
) -> ArrowSource:
    rows = write_rows(batches, path, DIM)
    plan = FeedPlan(batch_size, epochs, steps_per_epoch, shuffle, seed)
    return ArrowSource(path if rows else None, plan, worker)


def _drain(source: ArrowSource) -> list[tuple[list[int], float]]:
    """Row numbers and weight of every batch; checks that features and labels belong together."""
    found = []
    while True:
        try:
            features, labels, weight = source.next_batch()
        except OutOfRangeError:
            return found
        assert features.dtype == np.float32
        assert features.shape == (len(labels), DIM)
        np.testing.assert_array_equal(features, np.repeat(-labels[:, None], DIM, axis=1))
        found.append(([int(-label) for label in labels], float(weight)))


def test_rows_come_in_the_order_of_their_numbers_whatever_the_order_of_arrival(
    tmp_path: Path,
) -> None:
    source = _source(tmp_path / "rows", _batch([4, 0]), _batch([]), _batch([3, 1, 2]))
    assert _drain(source) == [([0, 1], 2), ([2, 3], 2), ([4], 1)]


def test_a_shuffled_epoch_has_each_row_once_and_the_next_another_order(tmp_path: Path) -> None:
    numbers = list(range(50))
    source = _source(tmp_path / "rows", _batch(numbers), batch_size=8, epochs=2, shuffle=True)
    batches = [rows for rows, _ in _drain(source)]
    assert [len(rows) for rows in batches] == [8, 8, 8, 8, 8, 8, 2] * 2
    first = [row for rows in batches[:7] for row in rows]
    second = [row for rows in batches[7:] for row in rows]
    assert sorted(first) == sorted(second) == numbers
    assert first != numbers
    assert second not in (numbers, first)


def test_the_order_depends_on_seed_and_worker_only(tmp_path: Path) -> None:
    def order(*batches: pa.RecordBatch, seed: int = 1, worker: int = 0) -> list[int]:
        source = _source(
            tmp_path / "rows", *batches, shuffle=True, batch_size=40, seed=seed, worker=worker
        )
        return _drain(source)[0][0]

    numbers = list(range(40))
    expected = order(_batch(numbers))
    assert order(_batch(numbers[20:]), _batch(numbers[:20])) == expected
    assert order(_batch(numbers), seed=2) != expected
    assert order(_batch(numbers), worker=1) != expected


def test_rows_of_several_chunks_are_fed_like_those_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = list(range(31))
    batches = [_batch(numbers[start : start + 5]) for start in range(0, 31, 5)]
    whole = _drain(_source(tmp_path / "one", *batches, batch_size=4, shuffle=True))
    monkeypatch.setattr(feed, "_CHUNK_BYTES", 1)
    assert _drain(_source(tmp_path / "many", *batches, batch_size=4, shuffle=True)) == whole


def test_a_worker_with_fewer_rows_repeats_its_last_batch_with_weight_0(tmp_path: Path) -> None:
    source = _source(tmp_path / "rows", _batch([0, 1, 2]), epochs=2, steps_per_epoch=3)
    epoch = [([0, 1], 2.0), ([2], 1.0), ([2], 0.0)]
    assert _drain(source) == epoch * 2


def test_a_worker_without_rows_has_no_batches(tmp_path: Path) -> None:
    source = _source(tmp_path / "rows", _batch([]), epochs=3, steps_per_epoch=3)
    assert (source.rows, _drain(source)) == (0, [])


def test_the_source_is_what_the_runtime_looks_for(tmp_path: Path) -> None:
    source = _source(tmp_path / "rows", _batch([0, 1]))
    assert isinstance(source, BatchSource)
    assert (source.rows, source.size_bytes) == (2, 2 * DIM * 4 + 2 * 8)
    source.close()
    with pytest.raises(OutOfRangeError):
        source.next_batch()


def test_the_file_is_gone_once_it_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    source = _source(path, _batch([0, 1]))
    assert not path.exists()
    assert _drain(source) == [([0, 1], 2)]


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        pytest.param(_batch([1, 2], lengths=4), "0 hold nulls and 2 have another", id="length"),
        pytest.param(
            pa.RecordBatch.from_pydict(
                {
                    "features": pa.array([None, [1, 2, 3]], pa.list_(pa.float32())),
                    "label": pa.array([None, 1], pa.int64()),
                    "row_number": pa.array([0, 1], pa.int64()),
                }
            ),
            "2 hold nulls and 1 have another",
            id="nulls",
        ),
    ],
)
def test_rows_that_the_driver_would_have_refused_are_refused(
    tmp_path: Path, batch: pa.RecordBatch, text: str
) -> None:
    with pytest.raises(DataLossError, match=text):
        write_rows([batch], tmp_path / "rows", DIM)
