"""Poolings of many geometries, and their results by the CPU's numpy kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.pooling.pooling_form import Task
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.pooling import pool_ops
from sparkflow_runtime.ops.pooling.pool_arithmetic import Pooling

Array = np.ndarray[Any, Any]
TOLERANCES = {np.float16: 2e-3, np.float32: 2e-6, np.float64: 1e-13}
_OPS = {
    Task.MAXIMUM: pool_ops.MaxPool,
    Task.AVERAGE: pool_ops.AvgPool,
    Task.MAXIMUM_GRADIENT: pool_ops.MaxPoolGrad,
    Task.AVERAGE_GRADIENT: pool_ops.AvgPoolGrad,
}


@dataclass(frozen=True)
class Row:
    """Images and the windows over them.

    Attributes:
        data_format: The format of the images.
        images: Sizes [batch, dimensions..., channels], in either format.
        size, strides: Those of the windows, along each dimension.
        padding: `SAME`, `VALID`, or before and after for each dimension.
        dtype: The dtype of the elements.
    """

    data_format: str
    images: tuple[int, ...]
    size: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str | tuple[int, ...] = "VALID"
    dtype: Any = np.float32

    def __str__(self) -> str:
        parts = (self.images, self.size, self.strides, self.padding)
        text = " ".join(str(each).replace(" ", "") for each in parts)
        return f"{self.data_format} {text} {np.dtype(self.dtype).name}"

    def in_format(self, values: Sequence[Any]) -> list[Any]:
        """Reorders numbers per dimension, with channels last, to the data format."""
        batch, *along, channels = values
        last = self.data_format[-1] == "C"
        return [batch, *along, channels] if last else [batch, channels, *along]

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of a node."""
        attrs = {
            "ksize": self.in_format([1, *self.size, 1]),
            "strides": self.in_format([1, *self.strides, 1]),
            "padding": self.padding if isinstance(self.padding, str) else "EXPLICIT",
            "data_format": self.data_format,
        }
        if not isinstance(self.padding, str):
            pairs = [(0, 0), *zip(self.padding[::2], self.padding[1::2], strict=True), (0, 0)]
            attrs["explicit_paddings"] = [each for pair in self.in_format(pairs) for each in pair]
        return attrs

    @property
    def pooling(self) -> Pooling:
        """The geometry."""
        return Pooling.of(self.attrs)

    def calls(self, seed: int = 0) -> Iterator[tuple[Task, list[Array], Array]]:
        """Yields (task, inputs, result by numpy) of every task for this row.

        Many elements are equal, and some are not finite if only the maximum is taken.
        """
        rng = np.random.default_rng(seed)
        values = rng.standard_normal(self.in_format(self.images))
        images: Array = np.asarray(np.round(2 * values), self.dtype)
        odd = rng.choice(np.array([np.nan, np.inf, -np.inf, -np.inf], self.dtype), images.shape)
        uneven = np.where(rng.random(images.shape) < rng.choice([0.0, 0.1, 0.6]), odd, images)
        maxima = self._by_numpy(Task.MAXIMUM, uneven)
        yield Task.MAXIMUM, [uneven], maxima
        gradient: Array = np.asarray(rng.standard_normal(maxima.shape), self.dtype)
        inputs = [uneven, maxima, gradient]
        yield Task.MAXIMUM_GRADIENT, inputs, self._by_numpy(Task.MAXIMUM_GRADIENT, *inputs)
        if isinstance(self.padding, str):
            yield Task.AVERAGE, [images], self._by_numpy(Task.AVERAGE, images)
            inputs = [np.array(images.shape, np.int32), gradient]
            yield Task.AVERAGE_GRADIENT, inputs, self._by_numpy(Task.AVERAGE_GRADIENT, *inputs)

    def _by_numpy(self, task: Task, *inputs: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(_OPS[task].run(np, self.pooling, *inputs))


def close(found: Array, expected: Array) -> None:
    """Checks that two results are equal up to the rounding of sums."""
    tolerance = TOLERANCES[expected.dtype.type] * max(
        np.abs(expected[np.isfinite(expected)]), default=1
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


ROWS = [
    Row("NHWC", (3, 8, 10, 32), (2, 2), (2, 2)),
    Row("NHWC", (2, 9, 7, 12), (2, 2), (2, 2), "SAME"),
    Row("NHWC", (2, 5, 6, 6), (3, 2), (1, 1), "SAME", np.float64),
    Row("NHWC", (2, 9, 7, 16), (3, 3), (2, 2), "SAME", np.float16),
    Row("NHWC", (2, 9, 7, 5), (2, 2), (3, 3)),
    Row("NHWC", (2, 7, 7, 8), (7, 7), (1, 1)),
    Row("NHWC", (1, 18, 20, 2), (17, 16), (3, 5), "SAME"),
    Row("NCHW", (2, 8, 12, 3), (2, 2), (2, 2)),
    Row("NCHW", (2, 9, 7, 3), (3, 3), (2, 2), "SAME", np.float16),
    Row("NCHW", (2, 5, 6, 2), (2, 3), (2, 1), (1, 2, 4, 0), np.float64),
    Row("NHWC", (2, 5, 6, 4), (2, 2), (2, 3), (3, 1, 0, 2)),
    Row("NCHW", (2, 3, 13, 2), (1, 2), (1, 5)),
    Row("NDHWC", (2, 4, 5, 3, 4), (2, 2, 2), (2, 2, 2), "SAME"),
    Row("NCDHW", (2, 4, 5, 7, 3), (2, 1, 3), (1, 2, 2), "VALID", np.float64),
    Row("NHWC", (0, 8, 8, 4), (2, 2), (2, 2)),
    Row("NHWC", (2, 1, 5, 4), (2, 2), (2, 2)),
]
"""Small images; the last ones have no images, or no windows."""


def random_row(rng: np.random.Generator) -> Row | None:
    """Returns a random row; None if its windows do not fit."""
    rank = int(rng.choice([2, 3]))
    last = bool(rng.integers(2))
    formats = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}

    def numbers(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(int(x) for x in rng.integers(low, high, count))

    padding: str | tuple[int, ...] = str(rng.choice(["SAME", "VALID"]))
    if rank == 2 and rng.random() < 0.3:
        padding = numbers(0, 4, 4)
    channels = int(rng.choice([1, 2, 3, 4, 8, 12]))
    row = Row(
        formats[rank][last],
        (int(rng.integers(0, 4)), *numbers(1, 9), channels),
        numbers(1, 5),
        numbers(1, 5),
        padding,
        (np.float16, np.float32, np.float64)[rng.integers(3)],
    )
    try:
        row.pooling.windows(row.images)
    except InvalidArgumentError:
        return None
    return row
