"""Whether an element of a row is among the largest, in machine code."""

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.rows.ranking import in_top

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")


def right(rows, chosen, k):
    found = []
    for row, place in zip(rows, chosen, strict=True):
        exists = 0 <= place < row.size
        larger = np.sum(row > row[place]) if exists else 0
        # TensorFlow looks no further than necessary, but the answer is no in any case.
        found.append(bool(exists and larger < k and np.isfinite(row).all()))
    return found


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("columns", [1, 5, 64, 65, 300])
def test_it_counts_what_is_larger(kind, columns):
    rng = np.random.default_rng(columns)
    rows = rng.integers(0, 40, (60, columns)).astype(np.float32)  # with ties
    for number, value in enumerate((np.nan, np.inf, -np.inf)):
        rows[number, rng.integers(columns)] = value
    chosen = rng.integers(-1, columns + 1, 60).astype(kind)
    chosen[-2:] = np.iinfo(kind).max, np.iinfo(kind).min
    for k in (-1, 0, 1, 4, columns, 1000):
        assert in_top(rows, chosen, k).tolist() == right(rows, chosen, k)


def test_other_arrays_are_left_to_others():
    rows, chosen = np.zeros((4, 6), np.float32), np.zeros(4, np.int32)
    assert in_top(rows[:, ::2], chosen, 1) is None
    assert in_top(rows.astype(np.float64), chosen, 1) is None
    assert in_top(rows, chosen.astype(np.int16), 1) is None
    assert in_top(rows[:0], chosen[:0], 1) is None
