"""CUDA for pooling nodes, chosen by the shapes of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow_runtime.codegen.gpu.cuda_pooling import PACK_BYTES, Form, Geometry, PoolingProgram
from sparkflow_runtime.codegen.pooling.pooling_form import Task
from sparkflow_runtime.device.gpu_kernels import GpuKernel
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ops.kernels.by_shape import Chosen
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.pooling.pool_arithmetic import Pooling
from sparkflow_runtime.ops.windows import has_channels_last, in_format


class GpuChooser:
    """Chooses the kernels of one node on a GPU, as `pool_native.Chooser` does on a CPU.

    Args:
        cupy: The module.
        task: What it computes.
        dtype: A supported dtype, see `cuda_expressions.COMPUTED_IN`.
        pooling: The node's geometry.
        checked: Checks the inputs and returns the shape of the images, channels last.
    """

    def __init__(
        self,
        cupy: Any,
        task: Task,
        dtype: DType,
        pooling: Pooling,
        checked: Callable[..., Sequence[int]],
    ) -> None:
        self._cupy = cupy
        self._task = task
        self._dtype = dtype
        self._pooling = pooling
        self._checked = checked
        self._kernels: dict[Form, GpuKernel] = {}

    def __call__(self, *inputs: Array) -> Chosen:
        """Returns the kernel for inputs of these shapes; each form is compiled once.

        Raises:
            InvalidArgumentError: They do not describe a pooling.
        """
        batch, *dims, channels = self._checked(*inputs)
        windows = self._pooling.windows((batch, *dims, channels))
        data_format = self._pooling.layout.data_format
        shape = (batch, *dims, channels)
        if self._task in (Task.MAXIMUM, Task.AVERAGE):
            shape = (batch, *(window.count for window in windows), channels)
        last = has_channels_last(data_format)
        outer, inner = (batch, channels) if last else (batch * channels, 1)
        geometry = Geometry(outer, tuple(dims), windows, inner)
        bound = {True: self._bind(geometry, True)}
        contiguous = self._cupy.ascontiguousarray
        first = 1 if self._task is Task.AVERAGE_GRADIENT else 0  # before it come sizes

        def fill(inputs: Sequence[Array], out: Array) -> bool:
            arrays = [*map(contiguous, inputs[first:]), out]
            aligned = all(array.data.ptr % PACK_BYTES == 0 for array in arrays)
            if aligned not in bound:  # a view may start anywhere
                bound[aligned] = self._bind(geometry, aligned)
            return bound[aligned](*arrays)

        return Chosen(in_format(shape, data_format), fill)

    def _bind(self, geometry: Geometry, aligned: bool) -> Callable[..., bool]:
        form = Form.of(self._task, self._dtype, geometry, aligned)
        kernel = self._kernels.get(form)
        if kernel is None:
            kernel = self._kernels[form] = GpuKernel(self._cupy, PoolingProgram(form))
        return kernel.bind(geometry.sizes)
