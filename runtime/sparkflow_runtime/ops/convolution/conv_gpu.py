"""Convolution nodes on a GPU by cuDNN, where it is available and supports them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sparkflow_runtime.device.gpu import Gpu
from sparkflow_runtime.device.gpu_convolution import Convolution, Sizes
from sparkflow_runtime.ops.convolution.conv_native import Geometry
from sparkflow_runtime.ops.native.gpu_transposing import GpuTransposer
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.windows import has_channels_last

_KINDS: Final = ("forward", "input_gradient", "filter_gradient")
"""cuDNN's functions by member of a family, see `conv_native`."""
# Filters [height, width, channels, outputs] in cuDNN's order, which follows the images'.
_TO_LAST: Final = (3, 0, 1, 2)
_FROM_LAST: Final = (1, 2, 3, 0)
_TO_FIRST: Final = (3, 2, 0, 1)
_FROM_FIRST: Final = (2, 3, 1, 0)


def bind(
    gpu: Gpu,
    member: int,
    data_format: str,
    geometry: Callable[..., Geometry],
    plain: Callable[..., Array],
) -> Callable[..., Array]:
    """Returns the kernel of a convolution of images, or of one of its gradients.

    Args:
        gpu: The GPU it runs on.
        member: Which member of its family.
        data_format: `NHWC` or `NCHW`.
        geometry: Checks the inputs and returns what they describe.
        plain: The kernel for what cuDNN does not support.
    """
    convolutions = gpu.convolutions()
    if convolutions is None:
        return plain
    last = has_channels_last(data_format)
    contiguous, empty = gpu.cupy.ascontiguousarray, gpu.cupy.empty
    transposed = GpuTransposer(gpu.cupy).transposed
    there, back = (_TO_LAST, _FROM_LAST) if last else (_TO_FIRST, _FROM_FIRST)

    def kernel(*inputs: Array) -> Array:
        dtype = inputs[-1].dtype
        wanted = _described(_KINDS[member], geometry(*inputs), last, dtype.name)
        if wanted is None:
            return plain(*inputs)
        first, second = (inputs[2], inputs[1]) if member == 1 else (inputs[0], inputs[-1])
        if member != 2:
            second = transposed(contiguous(second), there)
        sizes = (wanted.result, wanted.image, wanted.filters)[member]
        out = empty(_in_memory(sizes, last), dtype)
        if not convolutions.run(wanted, contiguous(first), contiguous(second), out):
            return plain(*inputs)
        return transposed(out, back) if member == 2 else out

    return kernel


def _described(kind: str, geometry: Geometry, last: bool, dtype: str) -> Convolution | None:
    """The convolution in cuDNN's order of sizes; None if it cannot be expressed."""
    batch, height, width, channels = geometry.images
    rows, columns, depth, outputs = geometry.filters
    along = geometry.windows
    if depth != channels:
        return None
    return Convolution(
        kind,
        (batch, channels, height, width),
        (outputs, channels, rows, columns),
        (batch, outputs, along[0].count, along[1].count),
        last,
        (along[0].stride, along[1].stride),
        (along[0].dilation, along[1].dilation),
        (along[0].before, along[1].before),
        (along[0].after, along[1].after),
        dtype,
    )


def _in_memory(sizes: Sizes, last: bool) -> Any:
    """The shape of an array of these sizes [n, channels, height, width]."""
    count, channels, height, width = sizes
    return (count, height, width, channels) if last else sizes
