"""Copies of transposed arrays on a GPU, in CUDA if they consist of transposed matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sparkflow_runtime.codegen.gpu.cuda_transposition import ELEMENTS, TranspositionProgram
from sparkflow_runtime.device.gpu_kernels import GpuKernel
from sparkflow_runtime.ops.kernels.transposing import matrices
from sparkflow_runtime.ops.op import Array

_LEAST: Final = 8
"""Minimum rows and columns of matrices for tiling: fewer fill too little of a tile."""


class GpuTransposer:
    """Transposes arrays on the current stream. Thread-safe.

    Args:
        cupy: The module.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._kernels: dict[int, GpuKernel] = {}

    def fill(self, x: Array, axes: Sequence[int], out: Array) -> None:
        """Writes `x.transpose(axes)` into a contiguous array."""
        size_bytes = x.dtype.itemsize
        sizes = matrices(x.shape, tuple(axes))
        if sizes is None or min(sizes[1:]) < _LEAST or size_bytes not in ELEMENTS:
            self._cupy.copyto(out, x.transpose(axes))
            return
        if not self._kernel(size_bytes).bound(sizes)(x, out):  # it has gaps
            self._cupy.copyto(out, x.transpose(axes))

    def transposed(self, x: Array, axes: Sequence[int]) -> Array:
        """`x.transpose(axes)`, contiguous."""
        out = self._cupy.empty(tuple(x.shape[axis] for axis in axes), x.dtype)
        self.fill(x, axes, out)
        return out

    def _kernel(self, size_bytes: int) -> GpuKernel:
        kernel = self._kernels.get(size_bytes)
        if kernel is None:
            program = TranspositionProgram(size_bytes)
            kernel = self._kernels[size_bytes] = GpuKernel(self._cupy, program)
        return kernel
