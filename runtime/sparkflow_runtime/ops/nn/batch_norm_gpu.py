"""Batch normalisation on a GPU: one pass over the images per dependent reduction.

In training the images are read for their mean, for their variance (the mean of squares minus the
square of the mean would cancel), and to be normalised; the gradient reads them for the sums and
once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.gpu.cuda import CudaProgram
from sparkflow_runtime.codegen.ir.builder import KernelBuilder, Value
from sparkflow_runtime.codegen.ir.expressions import apply
from sparkflow_runtime.codegen.ir.kernel import Kernel
from sparkflow_runtime.device.gpu import Gpu
from sparkflow_runtime.device.gpu_kernels import GpuKernel
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.windows import has_channels_last

Run = Callable[..., None]

_FACTOR: Final = "scale / sqrt(variance + epsilon)"
_NORMAL: Final = "(x - mean) / sqrt(variance + epsilon)"


@dataclass(frozen=True, slots=True)
class _Form:
    """The dimensions of a kernel: [rows, channels], or [pictures, channels, places].

    Attributes:
        dtype: The dtype of all arrays.
        last: Whether channels are the last dimension.
    """

    dtype: DType
    last: bool

    @property
    def rank(self) -> int:
        return 2 if self.last else 3

    @property
    def over(self) -> tuple[bool, ...]:
        """All but the channels."""
        return (True, False) if self.last else (True, False, True)

    def sizes(self, images: Sequence[int]) -> tuple[int, ...]:
        if self.last:
            return int(np.prod(images[:-1])), images[-1]
        return images[0], images[1], int(np.prod(images[2:]))

    def count(self, images: Sequence[int]) -> int:
        """The elements of a channel."""
        sizes = self.sizes(images)
        return sizes[0] if self.last else sizes[0] * sizes[2]


class _Maker:
    """One kernel, whose inputs are the images and vectors in the order in which they are named."""

    def __init__(self, form: _Form, images: Sequence[str], vectors: Sequence[str]) -> None:
        self._form = form
        self._builder = KernelBuilder(form.rank)
        everything, channel = (True,) * form.rank, tuple(not flag for flag in form.over)
        self._known: dict[str, Value] = {
            name: self._builder.input(form.dtype, axes)
            for names, axes in ((images, everything), (vectors, channel))
            for name in names
        }

    def constant(self, name: str, value: float) -> None:
        self._known[name] = self._builder.constant(value, self._form.dtype)

    def name(self, name: str, expression: str) -> None:
        """The name that later expressions use for it."""
        self._known[name] = apply(self._builder, expression, self._known)

    def sum(self, expression: str) -> None:
        """An output: the sum per channel."""
        value = apply(self._builder, expression, self._known)
        self._builder.output(self._builder.reduce("reduce_sum", value, self._form.over))

    def output(self, expression: str) -> None:
        self._builder.output(apply(self._builder, expression, self._known))

    def kernel(self) -> Kernel:
        return self._builder.build()


def _total(form: _Form) -> Kernel:
    made = _Maker(form, ["x"], [])
    made.sum("x")
    return made.kernel()


def _squares(form: _Form, count: int) -> Kernel:
    made = _Maker(form, ["x"], ["total"])
    made.constant("share", 1 / count)
    made.name("less", "x - total * share")
    made.sum("less * less")
    return made.kernel()


def _normalised(form: _Form, count: int, epsilon: float, average: float) -> Kernel:
    """The images, then the mean and variance to return and those kept for the gradient."""
    given = [] if average == 1 else ["given_mean", "given_variance"]
    made = _Maker(form, ["x"], ["total", "squares", "scale", "offset", *given])
    made.constant("share", 1 / count)
    made.constant("unbiased", count / max(count - 1, 1))
    made.constant("epsilon", epsilon)
    made.constant("average", average)
    made.name("mean", "total * share")
    made.name("variance", "squares * share")
    made.output(f"(x - mean) * ({_FACTOR}) + offset")
    if average == 1:
        made.output("mean")
        made.output("variance * unbiased")
    else:
        made.output("given_mean + (mean - given_mean) * average")
        made.output("given_variance + (variance * unbiased - given_variance) * average")
    made.output("mean")
    made.output("variance")
    return made.kernel()


def _with_given(form: _Form, epsilon: float) -> Kernel:
    made = _Maker(form, ["x"], ["scale", "offset", "mean", "variance"])
    made.constant("epsilon", epsilon)
    made.output(f"(x - mean) * ({_FACTOR}) + offset")
    return made.kernel()


def _sums_back(form: _Form, epsilon: float) -> Kernel:
    """The gradients of offset and scale."""
    made = _Maker(form, ["dy", "x"], ["mean", "variance"])
    made.constant("epsilon", epsilon)
    made.sum("dy")
    made.sum(f"dy * ({_NORMAL})")
    return made.kernel()


def _back(form: _Form, count: int, epsilon: float, is_training: bool) -> Kernel:
    """The gradient of the images."""
    made = _Maker(form, ["dy", "x"], ["scale", "mean", "variance", "dscale", "doffset"])
    made.constant("epsilon", epsilon)
    made.constant("share", 1 / count)
    slope = f"dy - doffset * share - ({_NORMAL}) * (dscale * share)" if is_training else "dy"
    made.output(f"({slope}) * ({_FACTOR})")
    return made.kernel()


class _Kernels:
    """Kernels for images of a shape, bound on first use; compiled ones are cached.

    Args:
        gpu: The GPU they run on.
        form: Their dimensions.
        make: Returns the kernels' descriptions, given the number of elements per channel.
    """

    def __init__(self, gpu: Gpu, form: _Form, make: Callable[[int], Sequence[Kernel]]) -> None:
        self._cupy = gpu.cupy
        self._form = form
        self._make = make
        self._bound: dict[tuple[int, ...], list[Callable[..., bool]]] = {}

    def of(self, images: tuple[int, ...]) -> list[Callable[..., bool]]:
        found = self._bound.get(images)
        if found is None:
            made = self._make(self._form.count(images))
            found = [self._bind(kernel, images) for kernel in made]
            self._bound[images] = found
        return found

    def _bind(self, kernel: Kernel, images: tuple[int, ...]) -> Callable[..., bool]:
        return GpuKernel(self._cupy, CudaProgram(kernel)).bind(self._form.sizes(images))


def bind(gpu: Gpu, dtype: DType, attrs: Mapping[str, Any], plain: Run) -> Run:
    """Returns the kernel that fills given arrays with normalised images and statistics.

    Args:
        gpu: The GPU it runs on.
        dtype: The dtype of images and vectors.
        attrs: The node's attributes.
        plain: The fallback kernel: for images without elements, or of another rank.
    """
    form = _Form(dtype, has_channels_last(attrs["data_format"]))
    epsilon, contiguous, empty = attrs["epsilon"], gpu.cupy.ascontiguousarray, gpu.cupy.empty
    average = float(attrs["exponential_avg_factor"])

    def make(count: int) -> Sequence[Kernel]:
        if not attrs["is_training"]:
            return [_with_given(form, epsilon)]
        last = _normalised(form, count, epsilon, average)
        return [_total(form), _squares(form, count), last]

    kernels = _Kernels(gpu, form, make)

    def run(
        x: Array, scale: Array, offset: Array, mean: Array, variance: Array, *outs: Any
    ) -> None:
        done = False
        if x.size and x.ndim == len(attrs["data_format"]):
            given = map(contiguous, (x, scale, offset, mean, variance))
            done = (train if attrs["is_training"] else infer)(*given, *outs)
        if not done:
            plain(x, scale, offset, mean, variance, *outs)

    def infer(
        x: Array, scale: Array, offset: Array, mean: Array, variance: Array, *outs: Any
    ) -> bool:
        (normalise,) = kernels.of(x.shape)
        if not normalise(x, scale, offset, mean, variance, outs[0]):
            return False
        for out, value in zip(outs[1:5], (mean, variance) * 2, strict=True):
            out[...] = value
        return True

    def train(
        x: Array, scale: Array, offset: Array, mean: Array, variance: Array, *outs: Any
    ) -> bool:
        add_up, square, normalise = kernels.of(x.shape)
        total, squares = empty(scale.shape, scale.dtype), empty(scale.shape, scale.dtype)
        given = () if average == 1 else (mean, variance)
        return (
            add_up(x, total)
            and square(x, total, squares)
            and normalise(x, total, squares, scale, offset, *given, *outs[:5])
        )

    return run


def bind_gradient(gpu: Gpu, dtype: DType, attrs: Mapping[str, Any], plain: Run) -> Run:
    """Returns the kernel that fills given arrays with the gradients of images, scale and offset.

    Args:
        gpu: The GPU it runs on.
        dtype: The dtype of images and vectors.
        attrs: The node's attributes.
        plain: The fallback kernel: for images without elements.
    """
    form = _Form(dtype, has_channels_last(attrs["data_format"]))
    epsilon, contiguous = attrs["epsilon"], gpu.cupy.ascontiguousarray
    training = attrs["is_training"]
    kernels = _Kernels(
        gpu, form, lambda count: [_sums_back(form, epsilon), _back(form, count, epsilon, training)]
    )

    def run(*arrays: Array) -> None:
        done = False
        if arrays[1].size:
            dy, x, scale, mean, variance = map(contiguous, arrays[:5])
            dx, dscale, doffset = arrays[-5:-2]
            add_up, back = kernels.of(x.shape)
            done = add_up(dy, x, mean, variance, doffset, dscale)
            done = done and back(dy, x, scale, mean, variance, dscale, doffset, dx)
        if not done:
            plain(*arrays)

    return run
