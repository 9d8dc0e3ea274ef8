"""Support for kernels that fill given arrays; see `Op.bind_out`.

`bind_filling_kernel` returns such a kernel for a node. The rest helps ops to implement theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.narrow import is_widened
from sparkflow_runtime.ops.op import Array, NodeView, Op

_R = TypeVar("_R")
_MANY = 1 << 14
"""Fewer elements are copied by numpy before a faster way is found."""


def bind_filling_kernel(
    op: Op, node: NodeView, context: KernelContext
) -> Callable[..., Any] | None:
    """Returns the kernel of `Op.bind_out`, for every dtype and device.

    Returns:
        None on a GPU, where pooled memory costs nothing, and for dtypes computed in a wider type.
    """
    if context.xp is not np or is_widened(op, node):
        return None
    return op.bind_out(node, context)


def copying(kernel: Callable[..., Any], inputs: int) -> Callable[..., None]:
    """Turns a kernel that returns views of its inputs into one that copies them into arrays."""

    def run(*arrays: Array) -> None:
        views = kernel(*arrays[:inputs])
        if isinstance(views, tuple):
            for out, view in zip(arrays[inputs:], views, strict=True):
                _copy(view, out)
        else:
            _copy(views, arrays[inputs])

    return run


def dense_array(array: Any, dtype: Any) -> Array:
    """Returns a host array in C order and of this dtype: the given one, or a copy."""
    if getattr(array, "size", 1) < _MANY:
        return np.ascontiguousarray(array, dtype)
    # Imported here, since it imports code generators.
    from sparkflow_runtime.ops.kernels.transposing import contiguous

    return contiguous(np.asarray(array, dtype))


def _copy(view: Array, out: Array) -> None:
    if view.size < _MANY or view.flags.c_contiguous:
        np.copyto(out, view)
        return
    # Imported here, since it imports code generators.
    from sparkflow_runtime.ops.kernels.transposing import fill

    fill(view, out)


def remembering(read: Callable[..., _R]) -> Callable[..., _R]:
    """Caches the result of `read(shape, *numbers)` of one to three constants.

    Constants are recognised by identity and by being read-only, like arrays of `Const`. It is for
    indices, axes and sizes, which can take longer to read than to use.
    """
    last: tuple[tuple[int, ...], Array, Array | None, Array | None, _R] | None = None

    def remembered(
        shape: tuple[int, ...], one: Array, two: Array | None = None, three: Array | None = None
    ) -> _R:
        nonlocal last
        known = last
        if (
            known is not None
            and known[1] is one
            and known[2] is two
            and known[3] is three
            and known[0] == shape
        ):
            return known[4]
        numbers = [each for each in (one, two, three) if each is not None]
        result = read(shape, *numbers)
        if all(isinstance(each, np.ndarray) and not each.flags.writeable for each in numbers):
            last = shape, one, two, three, result
        return result

    return remembered
