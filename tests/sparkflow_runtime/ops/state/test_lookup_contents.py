"""Tables against a dictionary: by the index in machine code and without, while they change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import FailedPreconditionError
from sparkflow_runtime.ops.native import string_index
from sparkflow_runtime.ops.state.lookup_contents import LookupTable

KEYS: dict[Any, list[Any]] = {
    dtypes.string: [b"", *(b"word %d" % n for n in range(300)), b"\0", b"\0\0"],
    dtypes.int64: [*range(-150, 150), 2**62, -(2**63), 2**63 - 1],
    dtypes.uint64: [*range(300), 2**64 - 1, 2**63, 2**63 - 1],
    dtypes.int32: [*range(300), -(2**31), 2**31 - 1, -1],
    dtypes.float32: [n / 4 for n in range(303)],
}


def _array(keys: list[Any], dtype: Any) -> Any:
    found = np.empty(len(keys), dtype.as_numpy_dtype)
    found[:] = keys
    return found


@pytest.mark.parametrize("dtype", KEYS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("value_shape", [(), (2,)])
def test_against_a_dictionary(dtype: Any, value_shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(3)
    table = LookupTable("t", dtype, dtypes.float32, value_shape, mutable=True)
    held: dict[Any, Any] = {}
    keys = KEYS[dtype]
    for turn in range(30):
        chosen = [keys[n] for n in random.choice(len(keys), 20, replace=False)]
        if turn % 7 == 6:
            table.remove(_array(chosen[:5], dtype))
            for key in chosen[:5]:
                held.pop(key, None)
        else:
            values = random.normal(size=(20, *value_shape)).astype(np.float32)
            table.insert(_array(chosen, dtype), values)
            held.update(zip(chosen, values, strict=True))
        for _ in range(2 + turn % 3):  # with the dictionary at first, then with the index
            asked = [keys[n] for n in random.integers(0, len(keys), 150)]
            alike = np.full(value_shape, -1, np.float32)
            each = random.normal(size=(150, *value_shape)).astype(np.float32)
            for default in (alike, each):
                found = table.find(_array(asked, dtype), default)
                expected = [
                    held.get(key, default if default is alike else default[n])
                    for n, key in enumerate(asked)
                ]
                np.testing.assert_array_equal(found, np.array(expected, np.float32))


def test_strings_as_values_and_keys_of_any_shape() -> None:
    table = LookupTable("t", dtypes.int64, dtypes.string, (), mutable=True)
    table.insert(np.arange(5), _array([b"a", b"b", b"c", b"d", b"e"], dtypes.string))
    for _ in range(4):
        found = table.find(np.array([[0, 9], [4, 1]]), np.array(b"?", object))
        assert found.tolist() == [[b"a", b"?"], [b"e", b"b"]]
        assert table.find(np.array(3), np.array(b"?", object)).tolist() == b"d"


def test_strings_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        string_index, "_keys", lambda strings: np.array([len(x) for x in strings], np.int64)
    )
    strings = _array([b"ab", b"c", b"de", b"ab", b"c"], dtypes.string)
    found = string_index.distinct(strings)
    assert found is not None
    assert [each.tolist() for each in found] == [[0, 1, 2], [0, 1, 2, 0, 1]]
    with pytest.raises(ValueError, match="same hash"):
        string_index.StringIndex(strings[:3])
    index = string_index.StringIndex(strings[:2])
    assert index.find(strings).tolist() == [0, 1, -1, 0, 1]
    table = LookupTable("t", dtypes.string, dtypes.int64, (), mutable=True)
    table.insert(strings[:3], np.arange(3))
    for _ in range(5):
        assert table.find(strings, np.array(-1)).tolist() == [0, 1, 2, 0, 1]


def test_a_fixed_table_may_be_filled_by_an_import() -> None:
    """As TensorFlow's initializers of constants do."""
    table = LookupTable("t", dtypes.int64, dtypes.float32)
    keys, values = np.array([1, 2]), np.array([0.5, 1.5], np.float32)
    table.replace(keys, values)
    table.replace(keys, values)
    assert table.find(np.array([2, 3]), np.float32(-1)).tolist() == [1.5, -1.0]
    with pytest.raises(FailedPreconditionError, match="already initialized"):
        table.replace(keys, values + 1)
