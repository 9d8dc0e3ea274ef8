"""Matrix products on the GPU: cuBLAS into given arrays, and the precision of float32.

Bias and activation are not epilogues of the product, but one fused kernel after it.
"""

from __future__ import annotations

import enum
import importlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.device.gpu_blas import Blas, blas
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.once import Once


class Precision(enum.Enum):
    """How float32 matrices are multiplied; accumulation is always in float32."""

    FLOAT32 = "float32"
    """Full precision of the factors."""
    TF32 = "tf32"
    """Factors rounded to a 10-bit mantissa: TensorFlow's default, on Ampere and later."""
    BFLOAT16 = "bfloat16"
    """Factors rounded to a 7-bit mantissa."""


@dataclass(frozen=True, slots=True)
class _Form:
    """How cuBLAS multiplies a dtype.

    Attributes:
        kind: cudaDataType_t, from library_types.h.
        scalar: The dtype of alpha and beta.
        compute: cublasComputeType_t, from cublas_api.h; 0 for the chosen float32 precision.
    """

    kind: int
    scalar: type[np.generic]
    compute: int


_COMPUTE: Final = {Precision.FLOAT32: 68, Precision.TF32: 77, Precision.BFLOAT16: 75}
_FORMS: Final = {
    np.dtype(np.float16): _Form(2, np.float32, 68),  # accumulated in float32
    np.dtype(np.float32): _Form(0, np.float32, 0),
    np.dtype(np.float64): _Form(1, np.float64, 70),
}
DTYPES: Final = frozenset(_FORMS)
_DEFAULT_ALGORITHM: Final = -1
_OPERATION_N, _OPERATION_T = 0, 1
DEFAULT_PRECISION: Final = Precision.TF32
"""TensorFlow's, on Ampere and later."""

_CUPY_NAMES: Final = {
    Precision.FLOAT32: "COMPUTE_TYPE_FP32",
    Precision.TF32: "COMPUTE_TYPE_TF32",
    Precision.BFLOAT16: "COMPUTE_TYPE_BF16",
}


def precision(name: str) -> Precision:
    """Returns the precision of that name.

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
    """Sets the float32 precision of cupy's products (`matmul`, `dot`, `tensordot`, `einsum`).

    The setting is per process, as in cupy.

    Args:
        wanted: The precision.
        routines: The module of products; None for cupy's.
    """
    if routines is None:
        routines = importlib.import_module("cupy._core._routines_linalg")
    routines.set_compute_type(np.float32, getattr(routines, _CUPY_NAMES[wanted]))


_of_modules: Once[Any, GpuProducts] = Once()


def products(cupy: Any) -> GpuProducts:
    """Returns the products of this process, with TensorFlow's precision.

    Args:
        cupy: The module.
    """
    return _of_modules.get(cupy, lambda: GpuProducts(cupy))


class GpuProducts:
    """Matrix products into given arrays, on the current stream.

    Args:
        cupy: The module.
        wanted: How float32 is multiplied.
        library: The bindings of cuBLAS; None for the best available.
    """

    def __init__(
        self, cupy: Any, wanted: Precision = DEFAULT_PRECISION, library: Blas | None = None
    ) -> None:
        self._wanted = wanted
        self._blas = blas(cupy) if library is None else library

    def multiply(
        self,
        a: Any,
        b: Any,
        out: Any,
        transpose_a: bool = False,
        transpose_b: bool = False,
    ) -> None:
        """Fills `out` with the product, or with the products of two stacks of matrices.

        cuBLAS is column-major, so it computes the transposed product of what it sees as transposed
        matrices.

        Args:
            a: [rows, inner], or [count, rows, inner], of a dtype in `DTYPES`; C-contiguous as all
                three are. A stack of one goes with each matrix of the other.
            b: [inner, columns], or [count, inner, columns], of the same dtype.
            out: [rows, columns], or [count, rows, columns], likewise.
            transpose_a: Whether the matrices of `a` are transposed first.
            transpose_b: Whether those of `b` are.

        Raises:
            InvalidArgumentError: The shapes do not fit.
        """
        rows, inner = reversed(a.shape[-2:]) if transpose_a else a.shape[-2:]
        inner_b, columns = reversed(b.shape[-2:]) if transpose_b else b.shape[-2:]
        stacks = [each.shape[:-2] for each in (a, b, out)]
        fits = inner == inner_b and out.shape[-2:] == (rows, columns)
        if not fits or any(each not in (stacks[2], (1,)) for each in stacks[:2]):
            raise InvalidArgumentError(
                message=f"Matrices of shapes {a.shape} and {b.shape} (transposed: {transpose_a}, "
                f"{transpose_b}) have no product of shape {out.shape}"
            )
        if out.size == 0:
            return
        if inner == 0:
            out.fill(0)
            return
        form = _FORMS[np.dtype(out.dtype)]
        one, zero = (np.array(number, form.scalar) for number in (1, 0))  # read by the call
        turns = (_OPERATION_T if each else _OPERATION_N for each in (transpose_b, transpose_a))
        compute = form.compute or _COMPUTE[self._wanted]
        sizes = columns, rows, inner, one.ctypes.data
        count = out.size // (rows * columns)
        if count == 1:
            self._blas.gemm(
                *turns,
                *sizes,
                *(b.data.ptr, form.kind, b.shape[-1]),
                *(a.data.ptr, form.kind, a.shape[-1]),
                zero.ctypes.data,
                *(out.data.ptr, form.kind, columns),
                *(compute, _DEFAULT_ALGORITHM),
            )
            return
        step_a, step_b = (each.shape[-2] * each.shape[-1] * (len(each) > 1) for each in (a, b))
        self._blas.gemm_strided_batched(
            *turns,
            *sizes,
            *(b.data.ptr, form.kind, b.shape[-1], step_b),
            *(a.data.ptr, form.kind, a.shape[-1], step_a),
            zero.ctypes.data,
            *(out.data.ptr, form.kind, columns, rows * columns),
            *(count, compute, _DEFAULT_ALGORITHM),
        )
