"""Matrix products for kernels: machine code if available, else the array module's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.tiles.gemm import bind_gemm
from sparkflow_runtime.dtypes import DType, bfloat16, float32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernels.transposing import contiguous
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.static import bracketed

Turn = Callable[[Array], Array]
"""How a factor is transformed before multiplication: transposed or adjoint."""
_LEAST_EXACT: Final = 64
"""Minimum size of an integer factor; below it, numpy is as fast."""
_FEW_PRODUCTS: Final = 1 << 14
"""The same for the number of multiplications."""


def product(
    xp: Any, a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False
) -> Array:
    """The product of two matrices, either optionally transposed, by BLAS.

    Args:
        xp: numpy or cupy.
        a: [rows, inner].
        b: [inner, columns].
        transpose_a: Whether `a` is [inner, rows].
        transpose_b: Whether `b` is [columns, inner].
    """
    rows, columns = a.shape[1 if transpose_a else 0], b.shape[0 if transpose_b else 1]
    out = xp.empty((rows, columns), a.dtype)
    multiply_into(xp, a, b, out, transpose_a, transpose_b)
    return out


def multiply_into(
    xp: Any,
    a: Array,
    b: Array,
    out: Array,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> None:
    """Fills the contiguous `out` with the product of two matrices, or of two stacks of them.

    See `product`, and of stacks on a GPU `GpuProducts.multiply`.
    """
    if xp is not np:
        from sparkflow_runtime.device import gpu_products

        if np.dtype(out.dtype) in gpu_products.DTYPES:
            contiguous = xp.ascontiguousarray
            gpu_products.products(xp).multiply(
                contiguous(a), contiguous(b), out, transpose_a, transpose_b
            )
            return
    left = a.swapaxes(-1, -2) if transpose_a else a
    right = b.swapaxes(-1, -2) if transpose_b else b
    xp.matmul(left, right, out=out)


def bind_product(
    xp: Any, dtype: DType, turn_left: Turn | None, turn_right: Turn | None
) -> Callable[[Array, Array], Array]:
    """Returns a function that multiplies two stacks of matrices.

    It raises InvalidArgumentError if sizes do not match.

    Args:
        xp: The array module.
        dtype: The dtype of the factors. Transposed real factors are not copied.
        turn_left: How the left factor is transformed; None for not at all.
        turn_right: The same for the right one.
    """
    native = _native(dtype, turn_left, turn_right) if xp is np else None
    row, column = (-1 if turn_left else -2), (-2 if turn_right else -1)

    def general(left: Array, right: Array) -> Array:
        first, second = _turned(left, right, turn_left, turn_right)
        try:
            if xp is np and _are_exact_as_floats(first, second):
                return _as_floats(first, second)
            return xp.matmul(first, second)
        except ValueError as error:
            raise _misfit(first, second) from error

    if native is None:
        return general

    def multiply(left: Array, right: Array) -> Array:
        sizes = (left.shape[row], right.shape[column])
        lead, other = left.shape[:-2], right.shape[:-2]
        if lead != other:
            try:
                lead = np.broadcast_shapes(lead, other)
            except ValueError as error:
                raise _misfit(*_turned(left, right, turn_left, turn_right)) from error
        out = np.empty(lead + sizes, left.dtype)
        if native(left, right, out) or _in_order(native, left, right, out):
            return out
        return general(left, right)

    return multiply


def _are_exact_as_floats(first: Array, second: Array) -> bool:
    """Whether all sums of products of these integers are exact in float64, and faster there."""
    if first.dtype.kind not in "iu" or first.ndim < 2 or second.ndim < 2:
        return False
    inner = int(first.shape[-1])
    if min(first.size, second.size) < _LEAST_EXACT or first.size * second.shape[-1] < _FEW_PRODUCTS:
        return False
    largest = [max(int(each.max()), -int(each.min())) for each in (first, second)]
    return largest[0] * largest[1] * inner < (1 << 53)


def _as_floats(first: Array, second: Array) -> Array:
    """The product of integers through BLAS in float64, sixteen times as fast as numpy's."""
    made = np.matmul(first.astype(np.float64), second.astype(np.float64))
    return made.astype(np.int64).astype(first.dtype)  # through int64, in which sums wrap around


def bind_product_out(
    dtype: DType, turn_left: Turn | None, turn_right: Turn | None
) -> Callable[[Array, Array, Array], None]:
    """The same for numpy arrays, into the third array."""
    native = _native(dtype, turn_left, turn_right)

    def general(left: Array, right: Array, out: Array) -> None:
        first, second = _turned(left, right, turn_left, turn_right)
        try:
            if _are_exact_as_floats(first, second):
                np.copyto(out, _as_floats(first, second))
            elif first.ndim == second.ndim == 2:
                np.dot(first, second, out)  # takes half of `matmul`'s time on small ones
            else:
                np.matmul(first, second, out)
        except ValueError as error:
            raise _misfit(first, second) from error

    if native is None:
        return general

    def fill(left: Array, right: Array, out: Array) -> None:
        if not (native(left, right, out) or _in_order(native, left, right, out)):
            general(left, right, out)

    return fill


def _in_order(native: Callable[..., bool], left: Array, right: Array, out: Array) -> bool:
    """Retries with copies if machine code does not support the strides of a stack."""
    factors = left, right
    if out.ndim < 3 or any(type(each) is not np.ndarray for each in factors):
        return False
    copies = [contiguous(each) for each in factors]
    if all(copy is each for copy, each in zip(copies, factors, strict=True)):
        return False
    return native(*copies, out)


def bind_product_into(
    dtype: DType, turns_left: bool, turns_right: bool, adds: bool
) -> Callable[..., None]:
    """Returns a function of two matrices, an optional scale, and a numpy array for the product.

    The scale is an array of one element. The function does not check sizes.

    Args:
        dtype: float32 or float64, of all of them.
        turns_left: Whether the left matrix is transposed.
        turns_right: The same for the right one.
        adds: Whether the product is added to the array instead of replacing it.
    """
    native = bind_gemm(dtype, turns_left, turns_right, adds)

    def fill(left: Array, right: Array, *rest: Array) -> None:
        *scale, out = rest
        scale = [np.asarray(each) for each in scale]
        if native is not None and native(left, right, out, *scale):
            return
        product = np.matmul(left.T if turns_left else left, right.T if turns_right else right)
        for each in scale:
            product *= each
        if adds:
            out += product
        else:
            out[...] = product

    return fill


def _native(
    dtype: DType, turn_left: Turn | None, turn_right: Turn | None
) -> Callable[..., bool] | None:
    # Its kernels receive float32, see `bfloat16`.
    dtype = float32 if dtype is bfloat16 else dtype
    return bind_gemm(dtype, turn_left is not None, turn_right is not None)


def _turned(
    left: Array, right: Array, turn_left: Turn | None, turn_right: Turn | None
) -> tuple[Array, Array]:
    return (
        turn_left(left) if turn_left is not None else left,
        turn_right(right) if turn_right is not None else right,
    )


def _misfit(left: Array, right: Array) -> InvalidArgumentError:
    return InvalidArgumentError(
        message=f"Matrix size-incompatible: In[0]: {bracketed(left.shape)}, "
        f"In[1]: {bracketed(right.shape)}"
    )
