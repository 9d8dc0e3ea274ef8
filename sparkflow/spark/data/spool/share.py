"""Which rows of a file are a worker's, where several workers map the same files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(each)
    for each in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_SPARK_SEED: Final = np.uint64(42)


@dataclass(frozen=True, slots=True)
class Share:
    """One worker of several.

    Attributes:
        worker: Its index.
        workers: How many there are.
        by_content: Whether rows go where a hash of their numbers, themselves hashes, sends them;
            else they are dealt out by their numbers.
    """

    worker: int
    workers: int
    by_content: bool

    def of(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """[n] bool: which of the rows with these numbers are the worker's."""
        mine: npt.NDArray[np.bool_] = np.equal(
            workers_of(numbers, self.workers, self.by_content), self.worker
        )
        return mine


def workers_of(numbers: npt.NDArray[np.int64], workers: int, by_content: bool) -> npt.NDArray[Any]:
    """[n] int64: the worker of each row; as `placement` has it in SQL."""
    return (xxhash64(numbers) if by_content else numbers) % workers


def xxhash64(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Spark's `xxhash64` of a bigint column."""
    with np.errstate(over="ignore"):
        h = np.full(len(values), _SPARK_SEED + _P5 + np.uint64(8))
        h ^= _rotated(values.view(np.uint64) * _P2, 31) * _P1
        h = _rotated(h, 27) * _P1 + _P4
        h = (h ^ h >> np.uint64(33)) * _P2
        h = (h ^ h >> np.uint64(29)) * _P3
        h ^= h >> np.uint64(32)
    return h.view(np.int64)


def _rotated(values: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.uint64]:
    return values << np.uint64(bits) | values >> np.uint64(64 - bits)
