"""Stand-ins for cuBLAS on host memory, for `fake_cupy`: cupy's bindings and nvmath's."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

_SCALARS: Final[dict[int, Any]] = {
    0: (np.float32, ctypes.c_float),
    1: (np.float64, ctypes.c_double),
    2: (np.float16, ctypes.c_float),
}
"""By cudaDataType_t: the types of elements, and of scalar factors."""


class _Gemm:
    """Products that are computed when the stream reaches them.

    Attributes:
        compute_types: The requested compute types, in order.
        counts: The number of matrices per stack, in order; 1 for a product of two matrices.
    """

    def __init__(self) -> None:
        self.compute_types: list[int] = []
        self.counts: list[int] = []

    def _multiply(self, stream: Any, arguments: Sequence[int]) -> None:
        transpose_a, transpose_b, m, n, k, alpha, a, kind, leading_a, *others = arguments
        b, kind_b, leading_b, beta, c, kind_c, leading_c, compute_type, algorithm = others
        flags = transpose_a, transpose_b, m, n, k, alpha
        left, right = (a, kind, leading_a, 0), (b, kind_b, leading_b, 0)
        result = c, kind_c, leading_c, 0
        self._stacks(stream, (*flags, *left, *right, beta, *result, 1, compute_type, algorithm))

    def _stacks(self, stream: Any, arguments: Sequence[int]) -> None:
        transpose_a, transpose_b, m, n, k, alpha, *others = arguments
        a, kind, leading_a, step_a, b, kind_b, leading_b, step_b, beta, *others = others
        c, kind_c, leading_c, step_c, count, compute_type, _ = others
        assert kind == kind_b == kind_c
        dtype, factor = _SCALARS[kind]
        self.compute_types.append(compute_type)
        self.counts.append(count)

        def matrix(address: int, rows: int, columns: int, leading: int) -> Any:
            """A matrix stored by columns."""
            assert leading >= max(rows, 1)
            memory = ctypes.c_char * (leading * columns * np.dtype(dtype).itemsize)
            found = np.frombuffer(memory.from_address(address), dtype)
            return found.reshape(columns, leading).T[:rows]

        scale, kept = (factor.from_address(each).value for each in (alpha, beta))
        size = np.dtype(dtype).itemsize
        for number in range(count):
            at_a, at_b, at_c = (
                start + number * step * size
                for start, step in ((a, step_a), (b, step_b), (c, step_c))
            )
            left = matrix(at_a, *((k, m) if transpose_a else (m, k)), leading_a)
            right = matrix(at_b, *((n, k) if transpose_b else (k, n)), leading_b)
            self._put(
                stream,
                left.T if transpose_a else left,
                right.T if transpose_b else right,
                matrix(at_c, m, n, leading_c),
                scale,
                kept,
            )

    @staticmethod
    def _put(stream: Any, left: Any, right: Any, out: Any, scale: float, kept: float) -> None:
        def work() -> None:
            wide = left.astype(np.float64) @ right.astype(np.float64)
            out[...] = scale * wide + (kept * out if kept else 0)

        stream.put(work)


class FakeCublas(_Gemm):
    """The part of cupy's bindings that `device.gpu_blas` uses. The handle is the stand-in for cupy.

    Like cupy's, they raise an error during stream capture.
    """

    def gemmEx(self, handle: Any, *arguments: int) -> None:
        """See cublasGemmEx."""
        self._multiply(self._stream_of(handle), arguments)

    def gemmStridedBatchedEx(self, handle: Any, *arguments: int) -> None:
        """See cublasGemmStridedBatchedEx."""
        self._stacks(self._stream_of(handle), arguments)

    @staticmethod
    def _stream_of(handle: Any) -> Any:
        stream = handle.streams[-1]
        if stream.is_capturing:
            raise NotImplementedError("calling cuBLAS API during stream capture is unsupported")
        return stream


class FakeNvmath(_Gemm):
    """The part of `nvmath.bindings.cublas` that `device.gpu_blas` uses.

    Args:
        cupy: The stand-in with the streams.

    Attributes:
        handles: The stream and the workspace size in bytes of each handle that is not destroyed.
    """

    def __init__(self, cupy: Any) -> None:
        super().__init__()
        self.handles: dict[int, tuple[int, int]] = {}
        self._cupy = cupy
        self._numbers = itertools.count(1)

    def create(self) -> int:
        """A new handle."""
        number = next(self._numbers)
        self.handles[number] = 0, 0
        return number

    def destroy(self, handle: int) -> None:
        """Removes a handle."""
        del self.handles[handle]

    def set_stream(self, handle: int, stream: int) -> None:
        """Sets the stream of later calls, which removes the workspace."""
        self.handles[handle] = stream, 0

    def set_workspace(self, handle: int, address: int, size_bytes: int) -> None:
        """Sets the workspace."""
        assert address
        self.handles[handle] = self.handles[handle][0], size_bytes

    def gemm_ex(self, handle: int, *arguments: int) -> None:
        """See cublasGemmEx."""
        self._multiply(self._stream_of(handle), arguments)

    def gemm_strided_batched_ex(self, handle: int, *arguments: int) -> None:
        """See cublasGemmStridedBatchedEx."""
        self._stacks(self._stream_of(handle), arguments)

    def _stream_of(self, handle: int) -> Any:
        stream, workspace_bytes = self.handles[handle]
        assert workspace_bytes > 0
        current = self._cupy.streams[-1]
        assert current.ptr == stream, "the handle of another stream"
        return current
