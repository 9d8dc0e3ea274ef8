"""A slow interpreter of fused kernels: the reference for generated code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.kernel import REDUCTIONS, Axes, Instruction, Kernel
from sparkflow_runtime.device.special import special_functions
from sparkflow_runtime.dtypes import DType

Array: TypeAlias = npt.NDArray[Any]


def run(kernel: Kernel, sizes: Sequence[int], *arrays: Any) -> list[Array]:
    """Returns the outputs of a kernel.

    float32's exponential functions and sums are computed in float64 and rounded: generated code
    should approximate them.

    Args:
        kernel: The kernel.
        sizes: The sizes of the iteration space.
        *arrays: One per input, of the dimensions along which it varies.

    Returns:
        One new array per output, of the dimensions along which it varies.

    Raises:
        ValueError: The number, the shape or the dtype of the arrays is not the kernel's.
    """
    if len(arrays) != len(kernel.inputs) or len(sizes) != kernel.rank:
        raise ValueError(
            f"The kernel takes {len(kernel.inputs)} arrays and {kernel.rank} sizes, got "
            f"{len(arrays)} and {len(sizes)}"
        )
    values = [
        _spread(np.asarray(array), operand.dtype, operand.axes, sizes)
        for array, operand in zip(arrays, kernel.inputs, strict=True)
    ]
    for instruction in kernel.instructions:
        with np.errstate(all="ignore"):
            values.append(_value(instruction, [values[a] for a in instruction.arguments], sizes))
    found = []
    for number in kernel.outputs:
        axes = kernel.value_axes[number]
        flat = tuple(size for size, varies in zip(sizes, axes, strict=True) if varies)
        full = tuple(size if varies else 1 for size, varies in zip(sizes, axes, strict=True))
        found.append(np.array(np.broadcast_to(values[number], full).reshape(flat)))
    return found


def _spread(array: Array, dtype: DType, axes: Axes, sizes: Sequence[int]) -> Array:
    """Returns an input with all dimensions, with size 1 where it does not vary."""
    expected = tuple(size for size, varies in zip(sizes, axes, strict=True) if varies)
    if array.shape != expected or array.dtype != dtype.as_numpy_dtype:
        raise ValueError(
            f"The kernel takes {dtype.name} of shape {expected}, got {array.dtype} {array.shape}"
        )
    return array.reshape(
        tuple(size if varies else 1 for size, varies in zip(sizes, axes, strict=True))
    )


def _value(instruction: Instruction, arguments: list[Array], sizes: Sequence[int]) -> Array:
    name, kind = instruction.function, instruction.dtype.as_numpy_dtype
    if name == "constant":
        return np.full((1,) * len(sizes), instruction.value, kind)
    if name == "index":
        dimension = instruction.over.index(True)
        shape = [-1 if each == dimension else 1 for each in range(len(sizes))]
        return np.arange(sizes[dimension], dtype=kind).reshape(shape)
    if name == "cast":
        return arguments[0].astype(kind)
    if name in REDUCTIONS:
        return _reduced(instruction, arguments[0], sizes)
    if name in _PRECISELY:
        return np.asarray(_PRECISELY[name](arguments[0].astype(np.float64))).astype(kind)
    return np.asarray(getattr(np, name)(*arguments))


def _sigmoid(x: Array) -> Array:
    return np.asarray(special_functions(np).expit(x))


_PRECISELY: Final[dict[str, Callable[[Array], Any]]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": special_functions(np).erf,
    "sigmoid": _sigmoid,
}


def _reduced(instruction: Instruction, value: Array, sizes: Sequence[int]) -> Array:
    over = tuple(i for i, gone in enumerate(instruction.over) if gone)
    shape = [
        size if gone else length
        for size, gone, length in zip(sizes, instruction.over, value.shape, strict=True)
    ]
    whole = np.broadcast_to(value, shape)
    kind = np.dtype(instruction.dtype.as_numpy_dtype)
    if instruction.function == "reduce_sum":
        wide = np.float64 if instruction.dtype is dtypes.float32 else kind
        return np.asarray(whole.sum(axis=over, dtype=wide, keepdims=True)).astype(kind)
    if instruction.function == "reduce_prod":
        return np.asarray(whole.prod(axis=over, dtype=kind, keepdims=True))
    if instruction.dtype is dtypes.bool_:
        truth = np.any if instruction.function == "reduce_max" else np.all
        return np.asarray(truth(whole, axis=over, keepdims=True))
    limits: Any = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    infinite = kind.kind == "f"
    if instruction.function == "reduce_max":
        least = -np.inf if infinite else limits.min
        return np.asarray(whole.max(axis=over, keepdims=True, initial=least))
    most = np.inf if infinite else limits.max
    return np.asarray(whole.min(axis=over, keepdims=True, initial=most))
