"""Distinct strings against a dictionary; strings of one hash are in `test_lookup_contents`."""

import numpy as np
import pytest

from sparkflow_runtime.ops.native.string_index import StringIndex, distinct


@pytest.mark.parametrize("count", [0, 1, 5, 3000])
def test_distinct_strings(count):
    random = np.random.default_rng(count)
    values = np.empty(count, object)
    values[:] = [b"%d" % n for n in random.integers(0, max(1, count // 2), count)]
    first, numbers = distinct(values)
    assert values[first].tolist() == list(dict.fromkeys(values.tolist()))
    assert values[first][numbers].tolist() == values.tolist()


def test_views_are_read_in_their_order():
    values = np.array([b"a", b"x", b"b", b"x", b"a", b"x"], object)
    first, numbers = distinct(values[::2])
    assert (first.tolist(), numbers.tolist()) == ([0, 1], [0, 1, 0])


@pytest.mark.parametrize("times", [1, 100])  # by a dictionary, by machine code
def test_index_finds_only_its_strings(times):
    keys = np.array([b"a", b"", b"bc"], object)
    asked = np.array([b"bc", b"b", b"", b"a", b"\0"] * times, object)
    index = StringIndex(keys)
    for _ in range(2):
        assert index.find(asked).tolist() == [2, -1, 1, 0, -1] * times
