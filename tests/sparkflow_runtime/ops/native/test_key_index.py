import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.native.key_index import DictKeyIndex, NativeKeyIndex

KINDS = [
    DictKeyIndex,
    pytest.param(
        NativeKeyIndex,
        marks=pytest.mark.skipif(not native.available(), reason="llvmlite is not installed"),
    ),
]


@pytest.fixture(params=KINDS)
def index(request):
    return request.param()


def test_new_keys_get_entries_in_order_of_appearance(index):
    keys = np.array([7, -3, 7, 1 << 62, -3, 0])
    entries, fresh = index.add(keys, np.array([10, 11, 12, 13, 14, 15]))
    assert entries.tolist() == [10, 11, 10, 12, 11, 13]
    assert fresh.tolist() == [0, 1, 3, 5]
    assert index.find(np.array([0, 1, -3, 7])).tolist() == [13, -1, 11, 10]
    again, fresh = index.add(np.array([5, 7]), np.array([20, 21]))
    assert again.tolist() == [20, 10]
    assert fresh.tolist() == [0]


def test_keys_without_a_free_entry_stay_unknown(index):
    entries, fresh = index.add(np.array([1, 2, 1, 3]), np.array([5]))
    assert entries.tolist() == [5, -1, 5, -1]
    assert fresh.tolist() == [0]


def test_many_keys_are_those_of_a_dictionary(index):
    rng = np.random.default_rng(0)
    known: dict[int, int] = {}
    for _ in range(20):
        keys = rng.integers(-5000, 5000, 3000) * (1 << 40) + rng.integers(0, 2, 3000)
        free = np.arange(len(known), len(known) + keys.size)
        for key in keys.tolist():
            known.setdefault(key, len(known))
        assert index.add(keys, free)[0].tolist() == [known[key] for key in keys.tolist()]
    asked = np.array([*known, 1 << 20])
    assert index.find(asked).tolist() == [*known.values(), -1]


def test_no_keys_are_no_trouble(index):
    nothing = np.empty(0, np.int64)
    assert index.find(nothing).tolist() == []
    assert [each.tolist() for each in index.add(nothing, nothing)] == [[], []]
