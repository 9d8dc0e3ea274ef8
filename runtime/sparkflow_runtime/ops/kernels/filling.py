"""What kernels that fill given arrays share; see `Op.bind_out`.

`bind_filling_kernel` says which nodes have such a kernel. The rest helps ops to write theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.narrow import is_widened
from sparkflow_runtime.ops.op import Array, NodeView, Op

_R = TypeVar("_R")


def bind_filling_kernel(
    op: Op, node: NodeView, context: KernelContext
) -> Callable[..., Any] | None:
    """What `Op.bind_out` gives, for every dtype and device.

    Returns:
        None on a GPU, whose pool has memory at no cost, and for what is computed in a wider type.
    """
    if context.xp is not np or is_widened(op, node):
        return None
    return op.bind_out(node, context)


def copying(kernel: Callable[..., Any], inputs: int) -> Callable[..., None]:
    """From a kernel that returns views of its so many inputs, one that copies them into arrays."""

    def run(*arrays: Array) -> None:
        views = kernel(*arrays[:inputs])
        if isinstance(views, tuple):
            for out, view in zip(arrays[inputs:], views, strict=True):
                np.copyto(out, view)
        else:
            np.copyto(arrays[inputs], views)

    return run


def remembering(read: Callable[..., _R]) -> Callable[..., _R]:
    """`read(shape, *numbers)` that remembers what it made of constants.

    It tells constants by identity and by being read-only, as arrays of `Const` are. It is for
    indexes, axes and sizes, whose reading can take longer than what is done with them.
    """
    last: tuple[tuple[int, ...], tuple[Array, ...], _R] | None = None

    def remembered(shape: tuple[int, ...], *numbers: Array) -> _R:
        nonlocal last
        known = last
        if (
            known is not None
            and known[0] == shape
            and all(one is other for one, other in zip(known[1], numbers, strict=True))
        ):
            return known[2]
        result = read(shape, *numbers)
        if all(isinstance(each, np.ndarray) and not each.flags.writeable for each in numbers):
            last = shape, numbers, result
        return result

    return remembered
