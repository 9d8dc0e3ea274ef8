"""The weighted mean of replicas' contributions, in one pass over their arrays.

`sum(weight * array) / sum(weight)`, summed in the given order, so that equal contributions yield
identical bits. float16 and bfloat16 are summed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu import loops
from sparkflow_runtime.codegen.ir.builder import KernelBuilder, Value
from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.dtypes import DType, wide
from sparkflow_runtime.once import latest
from sparkflow_runtime.ops.op import Array

MOST_AT_ONCE: Final = 16
"""Maximum arrays per kernel; more are summed in several passes."""
_LEAST_ELEMENTS: Final = 256
"""Smaller arrays are left to numpy: binding a kernel would cost more than it saves."""
_MOST_ELEMENTS_TOGETHER: Final = 8192
"""Arrays up to this size are copied into one array, which is cheaper than a call for each."""
_NATIVE: Final = frozenset({dtypes.float32, dtypes.float64})


def weighted_mean(arrays: Sequence[Array], weights: Sequence[float]) -> Array:
    """The mean of arrays of one shape and dtype, in a new array.

    Args:
        arrays: At least one; those of weight 0 are ignored.
        weights: One per array, finite and not negative.

    Returns:
        The mean; zeros if all weights are 0. That of integers is rounded, and of what has no mean
        it is the first array.
    """
    counted = [(each, w) for each, w in zip(arrays, weights, strict=True) if w]
    first = arrays[0]
    if not counted:
        return np.zeros(first.shape, first.dtype)
    kind = dtypes.as_dtype(first.dtype)
    if not (kind.is_floating or kind.is_complex):
        return _of_others([each for each, _ in counted], [weight for _, weight in counted])
    total = sum(weight for _, weight in counted)
    dtype = wide(first.dtype)
    parts = [array.astype(dtype, copy=False) for array, _ in counted]
    shares = [dtype.type(weight / total) for _, weight in counted]
    out = np.empty(first.shape, dtype)
    begun = 0
    while begun < len(parts):
        ended = min(begun + MOST_AT_ONCE, len(parts))
        _add(parts[begun:ended], shares[begun:ended], out, is_first=begun == 0)
        begun = ended
    return out.astype(first.dtype, copy=False)


def _of_others(arrays: Sequence[Array], weights: Sequence[float]) -> Array:
    """The mean of arrays of neither floats nor complex numbers."""
    first = arrays[0]
    if not dtypes.as_dtype(first.dtype).is_integer:
        return first.copy()
    mean = np.average([each.astype(np.float64) for each in arrays], axis=0, weights=weights)
    # float64 does not hold every integer.
    agreed = np.logical_and.reduce([each == first for each in arrays])
    found: Array = np.where(agreed, first, np.rint(mean).astype(first.dtype))
    return found


def scaled(array: Array, factor: float) -> Array:
    """An array times a number, in its dtype."""
    dtype = wide(array.dtype)
    return (array * dtype.type(factor)).astype(array.dtype, copy=False)


def weighted_means(
    contributions: Sequence[Sequence[Array]], weights: Sequence[float]
) -> list[Array]:
    """Computes the mean of every array; small ones are merged to save Python calls.

    Args:
        contributions: The arrays of each contribution, with the same shapes and dtypes in all.
        weights: One per contribution.
    """
    means: list[Any] = [None] * len(contributions[0])
    together: dict[Any, list[int]] = {}
    for index, array in enumerate(contributions[0]):
        if array.size <= _MOST_ELEMENTS_TOGETHER:
            together.setdefault(array.dtype, []).append(index)
        else:
            means[index] = weighted_mean([arrays[index] for arrays in contributions], weights)
    for indices in together.values():
        joined = [
            np.concatenate([arrays[index] for index in indices], axis=None)
            for arrays in contributions
        ]
        mean, start = weighted_mean(joined, weights), 0
        for index in indices:
            array = contributions[0][index]
            end = start + array.size
            means[index] = mean[start:end].reshape(array.shape)
            start = end
    return means


def _add(parts: Sequence[Array], shares: Sequence[Any], out: Array, is_first: bool) -> None:
    """Writes the sum of the scaled arrays to `out`, or adds them to it one by one."""
    if out.size >= _LEAST_ELEMENTS and native.available():
        dtype = dtypes.as_dtype(out.dtype)
        if dtype in _NATIVE:
            kernel = _bound(len(parts), dtype, is_first, out.size)
            before = () if is_first else (out,)
            scalars = [np.asarray(share) for share in shares]
            if kernel(*before, *map(np.ascontiguousarray, parts), *scalars, out):
                return
    for number, (part, share) in enumerate(zip(parts, shares, strict=True)):
        if is_first and not number:
            np.multiply(part, share, out=out)
        else:
            out += part * share


@latest(256)
def _bound(count: int, dtype: DType, is_first: bool, size: int) -> Callable[..., bool]:
    builder = KernelBuilder(1)
    total: Value | None = None if is_first else builder.input(dtype, (True,))
    arrays = [builder.input(dtype, (True,)) for _ in range(count)]
    shares = [builder.input(dtype, (False,)) for _ in range(count)]
    for array, share in zip(arrays, shares, strict=True):
        scaled = array * share
        total = scaled if total is None else total + scaled
    assert total is not None
    builder.output(total)
    return loops.compile_kernel(builder.build()).bind((size,), threads.count())
