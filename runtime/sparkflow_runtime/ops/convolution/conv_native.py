"""Machine code for convolution nodes, chosen by input shapes, and when not to use it.

A 1 × 1 convolution is a matrix product, and one over volumes whose windows see a single plane is
one over images. Others have their own kernels: Winograd where it pays off
(`codegen.winograd.winograd_kernels`), depthwise ones
(`codegen.depthwise.depthwise_kernels`), else direct convolution
(`codegen.tiles.convolution_kernels`), except where numpy is faster: filter gradients over images
that are too large for the cache, and input gradients of very few channels and many outputs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.depthwise import depthwise_kernels as depthwise
from sparkflow_runtime.codegen.tiles import convolution_kernels as convolution
from sparkflow_runtime.codegen.winograd import winograd_kernels as winograd
from sparkflow_runtime.dtypes import as_dtype
from sparkflow_runtime.ops.convolution.conv_arithmetic import MANY_OUTPUTS
from sparkflow_runtime.ops.kernels.by_shape import Chosen
from sparkflow_runtime.ops.native.channels_last import in_data_format
from sparkflow_runtime.ops.native.matrix_products import bind_product_out
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.windows import Windows, in_format

FORWARD, BY_IMAGE, BY_FILTER = range(3)
"""The members of a family: the convolution, its input gradient and its filter gradient."""
SUMS_BYTES: Final = 4 << 20
"""For larger filters over images, the gradient is faster as one large product.

Measured 2026-11-21 for 8 images of 7×7×512 and 512 filters of 3×3: 63 GFLOP/s, against 55. Not so
over volumes, whose windows have more elements: 66, against 86 for 2 volumes of 4×7×7×256 and 256
filters of 3×3×3 (2026-11-29).
"""
FEW_CHANNELS: Final = 2
"""Up to this many channels, numpy's input gradient is faster if it adds up products.

Measured 2026-11-29 on one AVX-512 core, for 8 to 64 outputs and one or two channels of images and
volumes: 0.2 against 0.5 ms for 1 channel and 32 outputs, 0.4 against 0.3 ms for 2 and 16.
"""
VARIABLE: Final = "TF_ENABLE_WINOGRAD_NONFUSED"
"""TensorFlow's variable for this choice, which it reads for GPUs: 0 or false disables it."""

_DIRECT = (convolution.forward, convolution.input_gradient, convolution.filter_gradient)
_DEPTHWISE = (depthwise.forward, depthwise.input_gradient, depthwise.filter_gradient)
_FILTERED = (winograd.forward, winograd.input_gradient, winograd.filter_gradient)


def filtering_is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether an environment allows Winograd convolutions."""
    return environ.get(VARIABLE, "").strip().lower() not in ("0", "false")


@dataclass(frozen=True, slots=True)
class Geometry:
    """One convolution.

    Attributes:
        images: [batch, ..., channels].
        filters: [..., depth, outputs].
        windows: Over the spatial dimensions.
    """

    images: Sequence[int]
    filters: Sequence[int]
    windows: Windows

    @property
    def groups(self) -> int:
        """Number of groups of channels, each with its own outputs."""
        depth = self.filters[-2]
        return self.images[-1] // depth if depth else 1

    def flat(self) -> Geometry:
        """The same convolution over images, if its windows see a single plane of volumes."""
        if len(self.windows) != 3 or not _is_pointwise(self.windows[:1]):
            return self
        batch, planes, *image = self.images
        return Geometry((batch * planes, *image), self.filters[1:], self.windows[1:])


class Chooser:
    """Chooses the kernels of one node.

    Args:
        member: `FORWARD`, `BY_IMAGE` or `BY_FILTER`.
        dtype: float32 or float64.
        data_format: The node's.
        depthwise: Whether every channel has its own filters.
        geometry: Checks the inputs and returns what they describe.
    """

    def __init__(
        self,
        member: int,
        dtype: np.dtype[Any],
        data_format: str,
        depthwise: bool,
        geometry: Callable[..., Geometry],
    ) -> None:
        self._member = member
        self._dtype = dtype
        self._data_format = data_format
        self._depthwise = depthwise
        self._geometry = geometry

    def __call__(self, *inputs: Array) -> Chosen | None:
        """Returns the kernel for inputs of these shapes; None if numpy should do it.

        Raises:
            InvalidArgumentError: They do not describe a convolution.
        """
        geometry = self._geometry(*inputs)
        images, filters, windows = geometry.images, geometry.filters, geometry.windows
        if min(filters) < 1 or geometry.groups > 1:
            return None
        kernel = self._kernel(geometry)
        if kernel is None:
            return None
        outputs = filters[-1] * (filters[-2] if self._depthwise else 1)
        dy = (images[0], *(window.count for window in windows), outputs)
        first, second = {FORWARD: (0, 1), BY_IMAGE: (2, 1), BY_FILTER: (0, 2)}[self._member]
        shapes: dict[int, Sequence[Sequence[int] | None]] = {
            FORWARD: (images, None, dy),
            BY_IMAGE: (dy, None, images),
            BY_FILTER: (images, dy, None),
        }
        *given, result = shapes[self._member]
        fill = in_data_format(kernel, self._data_format, self._dtype, given, result)
        return Chosen(
            filters if result is None else in_format(result, self._data_format),
            lambda inputs, out: fill((inputs[first], inputs[second]), out),
        )

    def _kernel(self, geometry: Geometry) -> convolution.Kernel | None:
        geometry = geometry.flat()
        images, filters, windows = geometry.images, geometry.filters, geometry.windows
        if self._depthwise:
            return _DEPTHWISE[self._member](self._dtype, images, filters, windows)
        if _is_pointwise(windows):
            return self._pointwise(filters)
        sizes = (images, filters, windows)
        if (
            filtering_is_wanted(os.environ)
            and winograd.is_possible(self._dtype, *sizes)
            and winograd.pays(*sizes, self._member)
        ):
            return _FILTERED[self._member](self._dtype, *sizes)
        if self._is_better_left(filters, len(windows) == 2):
            return None
        return _DIRECT[self._member](self._dtype, *sizes)

    def _is_better_left(self, filters: Sequence[int], is_flat: bool) -> bool:
        if self._member == FORWARD:
            return False
        if self._member == BY_FILTER:
            return is_flat and math.prod(filters) * self._dtype.itemsize > SUMS_BYTES
        *_, channels, outputs = filters
        return channels <= FEW_CHANNELS and outputs > MANY_OUTPUTS * channels

    def _pointwise(self, filters: Sequence[int]) -> convolution.Kernel:
        *_, channels, outputs = filters
        turn_left = _transposed if self._member == BY_FILTER else None
        turn_right = _transposed if self._member == BY_IMAGE else None
        product = bind_product_out(as_dtype(self._dtype), turn_left, turn_right)
        left_columns = outputs if self._member == BY_IMAGE else channels
        out_columns = channels if self._member == BY_IMAGE else outputs

        def kernel(left: Array, right: Array, out: Array) -> bool:
            product(
                left.reshape(-1, left_columns),
                right.reshape(-1, outputs),
                out.reshape(-1, out_columns),
            )
            return True

        return kernel


def _transposed(matrix: Array) -> Array:
    return matrix.T


def _is_pointwise(windows: Windows) -> bool:
    return all(
        (each.size, each.stride, each.before, each.after) == (1, 1, 0, 0) for each in windows
    )
