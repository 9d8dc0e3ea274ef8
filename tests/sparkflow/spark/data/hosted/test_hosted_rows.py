"""The rows that a worker's process hosts, as datasets that graphs find."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from sparkflow.spark.data.feed_plan import PERMUTED, FeedPlan
from sparkflow.spark.data.hosted.hosted_rows import FOR_EVER, HostedRows, HostedSource
from sparkflow.spark.data.schema.row_format import DENSE, RAGGED, Input, RowFormat
from sparkflow.spark.data.spool.spool import RowSpool
from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError

FORMAT = RowFormat(
    (Input("x", DENSE, "float32", ()), Input("words", RAGGED, "string", ())), None, None, named=True
)
PLAN = FeedPlan(FORMAT, batch_size=4, order=PERMUTED, shuffle=False)
SOURCE = HostedSource("rows", 0, PLAN)


@pytest.fixture
def spool(tmp_path):
    made = RowSpool(FORMAT, [str(tmp_path)], lambda message: None)
    yield made
    made.close()


@pytest.fixture
def hosted(spool):
    words = pa.array([["a"] * (i % 3) for i in range(10)], pa.list_(pa.string()))
    columns = {"x": np.arange(10, dtype=np.float32), "words": words, "row_number": np.arange(10)}
    spool.take([pa.RecordBatch.from_pydict(columns)])
    rows = HostedRows(0)
    for message in spool.messages:
        rows.take({**message, "dataset": "rows"})
    return rows


def drawn(iterator, most=1000):
    """The batches of an iterator: the first column, and the words of all rows."""
    found = []
    while len(found) < most and (element := iterator.next(None)) is not None:
        found.append(element)
    iterator.close()
    return found


def numbers(batches):
    return [batch[0].tolist() for batch in batches]


def test_batches_are_in_order_and_can_be_gone_through_again(hosted):
    dataset = hosted.find(SOURCE.to_text())
    expected = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    for _ in range(2):
        found = drawn(dataset.iterate())
        assert numbers(found) == expected
    x, indices, values, shape = found[1]
    assert x.dtype == np.float32
    assert indices.tolist() == [[0, 0], [1, 0], [1, 1], [3, 0]]
    assert values.tolist() == [b"a"] * 4
    assert shape.tolist() == [4, 2]


def test_each_pass_has_another_order_and_all_rows(hosted):
    plan = replace(PLAN, shuffle=True, epochs=2, seed=3)
    text = replace(SOURCE, plan=plan).to_text()
    passes = [numbers(drawn(hosted.find(text).iterate())) for _ in range(3)]
    for each in passes:
        assert [len(batch) for batch in each] == [4, 4, 2, 4, 4, 2]
        for epoch in (each[:3], each[3:]):
            assert sorted(chain(*epoch)) == list(range(10))
    assert len({str(each) for each in passes}) == 3


def test_epochs_without_end(hosted):
    endless = replace(SOURCE, plan=replace(PLAN, epochs=FOR_EVER, shuffle=True))
    passes = [numbers(drawn(hosted.find(endless.to_text()).iterate(), 7)) for _ in range(2)]
    assert sorted(chain(*passes[0][:3])) == list(range(10))
    assert passes[0] != passes[1]


@pytest.mark.parametrize("epochs", [1, FOR_EVER])
def test_a_share_without_rows_ends_at_once(epochs):
    rows = HostedRows(2)
    rows.take({"dataset": "rows", "rows": 0, "validation_rows": 0})
    source = HostedSource("rows", 2, replace(PLAN, epochs=epochs))
    assert drawn(rows.find(source.to_text()).iterate()) == []


def test_a_source_is_read_as_it_was_written():
    source = replace(SOURCE, files={"files": [], "workers": 2, "by_content": False})
    assert HostedSource.from_text(source.to_text()) == source


def test_rows_of_others_and_rows_that_nobody_brought(hosted):
    with pytest.raises(NotFoundError, match=r"to worker 1, but this is worker 0.*/task:1'"):
        hosted.find(replace(SOURCE, worker=1).to_text())
    with pytest.raises(NotFoundError, match="The rows of others are not in this process"):
        hosted.find(replace(SOURCE, dataset="others").to_text())
    for text in ("", "{}", '{"plan": 3}', "[]"):
        with pytest.raises(InvalidArgumentError, match="does not describe rows"):
            hosted.find(text)


def test_rows_whose_files_are_gone(hosted, spool):
    dataset = hosted.find(SOURCE.to_text())
    spool.close()
    with pytest.raises(NotFoundError, match="The rows of rows are gone"):
        drawn(dataset.iterate())
