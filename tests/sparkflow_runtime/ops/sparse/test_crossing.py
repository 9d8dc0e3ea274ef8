"""Crosses of random features, beside the same one row and one number at a time."""

import itertools
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.strings.hashing import Hash, hash_of
from sparkflow_runtime.ops.sparse.crossing import SparseCross

_MASK = (1 << 64) - 1
_FACTOR = 0xC6A4A7935BD1E995


def random_values(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Texts, or numbers with any bits."""
    numbers = random.integers(-(1 << 63), 1 << 63, shape) >> random.integers(0, 60)
    if random.random() < 0.5:
        return numbers
    texts = np.empty(shape, np.object_)
    texts.ravel()[:] = [b"x" * (number % 40) for number in numbers.ravel().tolist()]
    return texts


def random_sparse(random: np.random.Generator, rows: int) -> tuple[Any, Any, Any]:
    """Indices in any order, some of them beyond the rows, with values and shape."""
    count = int(random.integers(0, 2 * rows + 1))
    indices = random.integers(-1, rows + 1, (count, 2))
    if random.random() < 0.5:
        indices = indices[np.argsort(indices[:, 0], kind="stable")]
    return indices, random_values(random, (count,)), np.array([rows, rows + 1])


def cross_of(parts: tuple[Any, ...], hashed: bool, buckets: int, key: int) -> Any:
    if not hashed:
        return b"_X_".join(
            each if isinstance(each, bytes) else str(each).encode() for each in parts
        )
    result = key & _MASK
    for each in parts:
        number = hash_of(Hash.FARM, each) if isinstance(each, bytes) else each & _MASK
        result ^= _FACTOR
        result ^= mixed(number * _FACTOR & _MASK) * _FACTOR & _MASK
        result = result * _FACTOR & _MASK
        result = mixed(mixed(result) * _FACTOR & _MASK)
    return result % (buckets or (1 << 63) - 1)


def mixed(value: int) -> int:
    return value ^ value >> 47


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("seed", range(100))
def test_all_combinations_in_each_row(hashed: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(0, 6))
    sparse = [random_sparse(random, rows) for _ in range(random.integers(0, 3))]
    dense = [
        random_values(random, (rows, int(random.integers(0, 4))))
        for _ in range(random.integers(0, 3))
    ]
    buckets, key = int(random.choice([0, 1, 7, 1000])), int(random.choice([0, -3, 0xDECAFCAFFE]))
    inputs = [each[part] for part in range(3) for each in sparse]
    where, values, shape = SparseCross().compute(
        np,
        *inputs,
        *dense,
        N=len(sparse),
        sparse_types=[None] * len(sparse),
        hashed_output=hashed,
        num_buckets=buckets,
        hash_key=key,
    )
    features = [each.tolist() for each in dense]
    features[:0] = [
        [given[indices[:, 0] == row].tolist() for row in range(rows)]
        for indices, given, _ in sparse
    ]
    if not features:
        rows = 0
    crosses = [
        [
            cross_of(parts, hashed, buckets, key)
            for parts in itertools.product(*(feature[row] for feature in features))
        ]
        for row in range(rows)
    ]
    assert values.tolist() == list(itertools.chain(*crosses))
    assert where.tolist() == [[row, at] for row in range(rows) for at in range(len(crosses[row]))]
    assert shape.tolist() == [rows, max(map(len, crosses), default=0)]
    assert values.dtype == (np.int64 if hashed else np.object_)
    assert where.dtype == shape.dtype == np.int64
