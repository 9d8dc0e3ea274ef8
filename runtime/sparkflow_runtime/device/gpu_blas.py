"""cuBLAS of the current stream: by the bindings of nvmath-python, or by cupy's.

cupy's (14.2 looked at) refuse to be recorded in a CUDA graph, so with them no plan that multiplies
matrices becomes one. Those of nvmath-python have no such rule. A recorded product keeps the address
of the memory that it works in, so that each stream has a handle and memory of its own.
"""

from __future__ import annotations

import importlib
import logging
import threading
import weakref
from typing import Any, Final, Protocol

import numpy as np

WORKSPACE_BYTES: Final = 32 << 20
"""What NVIDIA recommends for Hopper; older cards are content with less."""

_log = logging.getLogger(__name__)


class Blas(Protocol):
    """Products of matrices whose columns lie one after another, on the current stream."""

    def gemm(self, *arguments: int) -> None:
        """What follows the handle of `cublasGemmEx`."""

    def gemm_strided_batched(self, *arguments: int) -> None:
        """What follows the handle of `cublasGemmStridedBatchedEx`."""


class CupyBlas:
    """cupy's bindings.

    Args:
        cupy: The module.
        cublas: Its bindings; None for the installed ones.
    """

    def __init__(self, cupy: Any, cublas: Any = None) -> None:
        self._handle = cupy.cuda.device.get_cublas_handle
        self._cublas = cublas or importlib.import_module("cupy_backends.cuda.libs.cublas")

    def gemm(self, *arguments: int) -> None:
        """See `Blas`."""
        self._cublas.gemmEx(self._handle(), *arguments)

    def gemm_strided_batched(self, *arguments: int) -> None:
        """See `Blas`."""
        self._cublas.gemmStridedBatchedEx(self._handle(), *arguments)


class NvmathBlas:
    """The bindings of nvmath-python, which may be recorded.

    `_lock` guards the making of handles.

    Args:
        cupy: The module.
        cublas: `nvmath.bindings.cublas`.

    Raises:
        Exception: The library cannot be loaded.
    """

    def __init__(self, cupy: Any, cublas: Any) -> None:
        self._cupy = cupy
        self._cublas = cublas
        self._stream = cupy.cuda.get_current_stream
        self._lock = threading.Lock()
        self._handles: dict[int, tuple[int, Any]] = {}
        cublas.destroy(cublas.create())

    def gemm(self, *arguments: int) -> None:
        """See `Blas`."""
        self._cublas.gemm_ex(self._handle(), *arguments)

    def gemm_strided_batched(self, *arguments: int) -> None:
        """See `Blas`."""
        self._cublas.gemm_strided_batched_ex(self._handle(), *arguments)

    def _handle(self) -> int:
        stream = self._stream()
        found = self._handles.get(stream.ptr)
        return (found or self._new_handle(stream))[0]

    def _new_handle(self, stream: Any) -> tuple[int, Any]:
        with self._lock:
            found = self._handles.get(stream.ptr)
            if found is not None:
                return found
            handle = self._cublas.create()
            self._cublas.set_stream(handle, stream.ptr)
            workspace = self._cupy.empty(WORKSPACE_BYTES, np.uint8)
            self._cublas.set_workspace(handle, workspace.data.ptr, workspace.nbytes)
            made = self._handles[stream.ptr] = handle, workspace
            weakref.finalize(stream, self._drop, stream.ptr).atexit = False
            return made

    def _drop(self, pointer: int) -> None:
        """Of a stream that is gone."""
        with self._lock:
            handle, _ = self._handles.pop(pointer)
        self._cublas.destroy(handle)


def blas(cupy: Any) -> Blas:
    """nvmath-python's where it is installed and works, else cupy's.

    Args:
        cupy: The module.
    """
    try:
        return NvmathBlas(cupy, importlib.import_module("nvmath.bindings.cublas"))
    except ImportError:
        why = "nvmath-python is not installed"
    except Exception as error:  # of the loader of libraries, or of the library
        why = f"nvmath-python does not work here ({error})"
    _log.warning("%s: steps that multiply matrices on a GPU are not recorded as CUDA graphs", why)
    return CupyBlas(cupy)
