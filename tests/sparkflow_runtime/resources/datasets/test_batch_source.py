"""A source of batches in memory."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparkflow_runtime.errors import InvalidArgumentError, OutOfRangeError
from sparkflow_runtime.resources.datasets.batch_source import BatchSource
from support.array_source import ArraySource

DEADLINE_S = 60


def drain(source):
    batches = []
    while True:
        try:
            batches.append(source.next_batch())
        except OutOfRangeError:
            return batches


def test_rows_come_in_order_with_a_short_last_batch():
    source = ArraySource([np.arange(5), np.arange(10).reshape(5, 2)], batch_size=2)
    batches = drain(source)
    assert [batch[0].tolist() for batch in batches] == [[0, 1], [2, 3], [4]]
    assert batches[-1][1].tolist() == [[8, 9]]
    with pytest.raises(OutOfRangeError, match="End of sequence"):
        source.next_batch()


def test_every_epoch_has_every_row_once_in_its_own_order():
    def epochs(seed):
        source = ArraySource([np.arange(100), np.arange(100) * 2], 30, epochs=2, seed=seed)
        batches = drain(source)
        assert [len(batch[0]) for batch in batches] == [30, 30, 30, 10] * 2
        assert all((batch[1] == 2 * batch[0]).all() for batch in batches)
        rows = np.concatenate([batch[0] for batch in batches]).reshape(2, 100)
        assert (np.sort(rows) == np.arange(100)).all()
        return rows

    first = epochs(seed=1)
    assert not np.array_equal(first[0], first[1])
    assert np.array_equal(first, epochs(seed=1))
    assert not np.array_equal(first, epochs(seed=2))


def test_without_a_number_of_epochs_it_never_ends():
    source = ArraySource([np.arange(2)], 2, epochs=None)
    assert [source.next_batch()[0].tolist() for _ in range(5)] == [[0, 1]] * 5


def test_batches_belong_to_the_receiver():
    rows = np.arange(4)
    (batch,) = ArraySource([rows], 4).next_batch()
    batch[0] = 9
    assert rows[0] == 0


def test_closing_ends_the_sequence():
    source = ArraySource([np.arange(4)], 1)
    source.next_batch()
    source.close()
    source.close()
    assert drain(source) == []


@pytest.fixture
def eager_switching():
    """Makes threads switch as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switching")
def test_threads_get_each_row_once():
    source = ArraySource([np.arange(5000)], 3, seed=3)
    start = threading.Barrier(4)

    def work():
        start.wait(DEADLINE_S)
        return [batch[0] for batch in drain(source)]

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work) for _ in range(4)]
        batches = [batch for future in futures for batch in future.result(DEADLINE_S)]
    assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(5000))


@pytest.mark.parametrize(
    ("arrays", "batch_size", "epochs", "text"),
    [
        ([], 1, 1, r"got \[\]"),
        ([np.zeros(0)], 1, 1, r"got \[0\]"),
        ([np.zeros(3), np.zeros(2)], 1, 1, r"got \[3, 2\]"),
        ([np.zeros(3)], 0, 1, "at least 1, got 0 and 1"),
        ([np.zeros(3)], 1, 0, "at least 1, got 1 and 0"),
    ],
)
def test_wrong_arguments(arrays, batch_size, epochs, text):
    with pytest.raises(InvalidArgumentError, match=text):
        ArraySource(arrays, batch_size, epochs)


def test_it_is_a_batch_source():
    assert isinstance(ArraySource([np.zeros(1)], 1), BatchSource)
    assert not isinstance(object(), BatchSource)
