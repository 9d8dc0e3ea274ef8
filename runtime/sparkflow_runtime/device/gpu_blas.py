"""cuBLAS on the current stream, through the bindings of nvmath-python or cupy's.

cupy's (as of 14.2) refuse to be captured in a CUDA graph, so with them no plan that multiplies
matrices becomes one. Those of nvmath-python can be captured. A captured product keeps the address
of its workspace, so each stream has its own handle and workspace.
"""

from __future__ import annotations

import importlib
import logging
import threading
import weakref
from typing import Any, Final, Protocol

import numpy as np

WORKSPACE_BYTES: Final = 32 << 20
"""NVIDIA's recommendation for Hopper; older GPUs need less."""

_log = logging.getLogger(__name__)


class Blas(Protocol):
    """Products of column-major matrices on the current stream."""

    def gemm(self, *arguments: int) -> None:
        """Calls `cublasGemmEx` with the arguments after the handle."""

    def gemm_strided_batched(self, *arguments: int) -> None:
        """Calls `cublasGemmStridedBatchedEx` with the arguments after the handle."""


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
    """The bindings of nvmath-python, which can be captured.

    `_lock` guards the creation of handles.

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
        """Destroys the handle of a stream that no longer exists."""
        with self._lock:
            handle, _ = self._handles.pop(pointer)
        self._cublas.destroy(handle)


def blas(cupy: Any) -> Blas:
    """Returns nvmath-python's bindings if they are installed and work, else cupy's.

    Args:
        cupy: The module.
    """
    try:
        return NvmathBlas(cupy, importlib.import_module("nvmath.bindings.cublas"))
    except ImportError:
        why = "nvmath-python is not installed"
    except Exception as error:  # from the loader of libraries, or from the library
        why = f"nvmath-python does not work here ({error})"
    _log.warning("%s: steps that multiply matrices on a GPU are not captured as CUDA graphs", why)
    return CupyBlas(cupy)
