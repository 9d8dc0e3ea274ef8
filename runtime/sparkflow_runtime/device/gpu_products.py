"""Matrix products on the GPU: cuBLAS straight into an array, and how exactly float32 is multiplied.

cupy (14.2 looked at) exposes no cublasLt, so bias and activation are no epilogues of the product:
they are one fused kernel after it.
"""

from __future__ import annotations

import enum
import importlib
from typing import Any, Final

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError


class Precision(enum.Enum):
    """How float32 matrices are multiplied; sums are float32 in any case."""

    FLOAT32 = "float32"
    """Every bit of the factors counts."""
    TF32 = "tf32"
    """Factors rounded to 10 bits of mantissa: TensorFlow's default, on Ampere and later."""
    BFLOAT16 = "bfloat16"
    """Factors rounded to 7 bits of mantissa."""


# cublasComputeType_t and cudaDataType_t, from cublas_api.h and library_types.h.
_COMPUTE: Final = {Precision.FLOAT32: 68, Precision.TF32: 77, Precision.BFLOAT16: 75}
_COMPUTE_64F: Final = 70
_REAL: Final = {np.dtype(np.float32): 0, np.dtype(np.float64): 1}
_DEFAULT_ALGORITHM: Final = -1
_OPERATION_N, _OPERATION_T = 0, 1

_CUPY_NAMES: Final = {
    Precision.FLOAT32: "COMPUTE_TYPE_FP32",
    Precision.TF32: "COMPUTE_TYPE_TF32",
    Precision.BFLOAT16: "COMPUTE_TYPE_BF16",
}


def precision(name: str) -> Precision:
    """The precision of that name.

    Raises:
        InvalidArgumentError: There is none.
    """
    try:
        return Precision(name)
    except ValueError:
        known = ", ".join(repr(each.value) for each in Precision)
        raise InvalidArgumentError(
            message=f"float32 cannot be multiplied as {name!r}; choose one of {known}"
        ) from None


def set_precision(wanted: Precision, routines: Any = None) -> None:
    """Has cupy's own products (`matmul`, `dot`, `tensordot`, `einsum`) multiply float32 so.

    It is a setting of the process, as in cupy.

    Args:
        wanted: From now on.
        routines: cupy's module of products; None for cupy's.
    """
    if routines is None:
        routines = importlib.import_module("cupy._core._routines_linalg")
    routines.set_compute_type(np.float32, getattr(routines, _CUPY_NAMES[wanted]))


class GpuProducts:
    """Products of matrices into given arrays, on the current stream.

    Args:
        cupy: The module.
        wanted: How float32 is multiplied.
        cublas: cupy's bindings; None for cupy's.
    """

    def __init__(self, cupy: Any, wanted: Precision = Precision.TF32, cublas: Any = None) -> None:
        self._cupy = cupy
        self._wanted = wanted
        if cublas is None:
            cublas = importlib.import_module("cupy_backends.cuda.libs.cublas")
        self._cublas = cublas

    def multiply(
        self,
        a: Any,
        b: Any,
        out: Any,
        transpose_a: bool = False,
        transpose_b: bool = False,
    ) -> None:
        """Fills `out` with the product.

        cuBLAS counts columns first, so it is asked for the transposed product of what it takes for
        transposed matrices.

        Args:
            a: A matrix of float32 or float64, C-contiguous as all three are.
            b: Another one of the same dtype.
            out: Likewise.
            transpose_a: Whether `a` is transposed first.
            transpose_b: Whether `b` is.

        Raises:
            InvalidArgumentError: The shapes do not fit.
        """
        rows, inner = reversed(a.shape) if transpose_a else a.shape
        inner_b, columns = reversed(b.shape) if transpose_b else b.shape
        if inner != inner_b or out.shape != (rows, columns):
            raise InvalidArgumentError(
                message=f"Matrices of shapes {a.shape} and {b.shape} (transposed: {transpose_a}, "
                f"{transpose_b}) have no product of shape {out.shape}"
            )
        if out.size == 0:
            return
        if inner == 0:
            out.fill(0)
            return
        kind = _REAL[np.dtype(out.dtype)]
        single = kind == _REAL[np.dtype(np.float32)]
        one, zero = (np.array(number, out.dtype) for number in (1, 0))  # read before it returns
        self._cublas.gemmEx(
            self._cupy.cuda.device.get_cublas_handle(),
            _OPERATION_T if transpose_b else _OPERATION_N,
            _OPERATION_T if transpose_a else _OPERATION_N,
            columns,
            rows,
            inner,
            one.ctypes.data,
            b.data.ptr,
            kind,
            b.shape[1],
            a.data.ptr,
            kind,
            a.shape[1],
            zero.ctypes.data,
            out.data.ptr,
            kind,
            columns,
            _COMPUTE[self._wanted] if single else _COMPUTE_64F,
            _DEFAULT_ALGORITHM,
        )
