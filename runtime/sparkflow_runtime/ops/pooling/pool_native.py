"""Machine code for pooling nodes, chosen by the shapes of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.pooling.pooling_form import Task
from sparkflow_runtime.codegen.pooling.pooling_kernels import bind_pooling
from sparkflow_runtime.ops.kernels.by_shape import Chosen
from sparkflow_runtime.ops.native.channels_last import in_data_format
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.pooling.pool_arithmetic import Pooling
from sparkflow_runtime.ops.windows import in_format


class Chooser:
    """Chooses the kernels of one node.

    Args:
        task: What it computes.
        dtype: float32 or float64.
        pooling: The node's geometry.
        checked: Checks the inputs and returns the shape of the images, channels last.
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
        """Returns the kernel for inputs of these shapes; None if there is none.

        Raises:
            InvalidArgumentError: They do not describe a pooling.
        """
        images = self._checked(*inputs)
        windows = self._pooling.windows(images)
        kernel = bind_pooling(self._task, self._dtype, images, windows)
        if kernel is None:
            return None
        pooled = (images[0], *(window.count for window in windows), images[-1])
        shapes: Sequence[Sequence[int]] = {
            Task.MAXIMUM: (images, pooled),
            Task.AVERAGE: (images, pooled),
            Task.MAXIMUM_GRADIENT: (images, pooled, pooled, images),
            Task.AVERAGE_GRADIENT: (pooled, images),
        }[self._task]
        *given, result = shapes
        data_format = self._pooling.layout.data_format
        fill = in_data_format(kernel, data_format, self._dtype, given, result)
        first = 1 if self._task is Task.AVERAGE_GRADIENT else 0  # before it come sizes
        return Chosen(in_format(result, data_format), lambda inputs, out: fill(inputs[first:], out))
