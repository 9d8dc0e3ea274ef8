"""Machine code for pooling nodes, chosen by the shapes of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.pooling import bind_pooling
from sparkflow_runtime.codegen.pooling_ir import Task
from sparkflow_runtime.ops.by_shape import Chosen
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.pooling import Pooling
from sparkflow_runtime.ops.windows import channels_last, has_channels_last, in_format


class Chooser:
    """Chooses the kernels of one node.

    Args:
        task: What it computes.
        dtype: float32 or float64.
        pooling: The node's geometry.
        checked: Checks the inputs and tells the shape of the images, channels last.
    """

    def __init__(
        self,
        task: Task,
        dtype: np.dtype[Any],
        pooling: Pooling,
        checked: Callable[..., Sequence[int]],
    ) -> None:
        self._task = task
        self._dtype = dtype
        self._pooling = pooling
        self._checked = checked

    def __call__(self, *inputs: Array) -> Chosen | None:
        """The kernel for inputs like these; None where there is none.

        Raises:
            InvalidArgumentError: They do not belong to one pooling.
        """
        images = self._checked(*inputs)
        windows = self._pooling.windows(images)
        kernel = bind_pooling(self._task, self._dtype, images, windows)
        if kernel is None:
            return None
        counts = (window.count for window in windows)
        result = images if self._task.is_gradient else (images[0], *counts, images[-1])
        data_format = self._pooling.layout.data_format
        return Chosen(in_format(result, data_format), self._filling(kernel, data_format))

    def _filling(
        self, kernel: Callable[..., bool], data_format: str
    ) -> Callable[[Sequence[Array], Array], bool]:
        """The kernel for the node's inputs and data format."""
        first = 1 if self._task is Task.AVERAGE_GRADIENT else 0  # before it come sizes
        if has_channels_last(data_format):
            take = np.ascontiguousarray
            return lambda inputs, out: kernel(*map(take, inputs[first:]), out)
        to_last = channels_last(range(4), data_format)
        to_format = in_format(range(4), data_format)

        def fill(inputs: Sequence[Array], out: Array) -> bool:
            given = [np.ascontiguousarray(each.transpose(to_last)) for each in inputs[first:]]
            result = np.empty(out.transpose(to_last).shape, out.dtype)
            if not kernel(*given, result):
                return False
            out[...] = result.transpose(to_format)
            return True

        return fill
