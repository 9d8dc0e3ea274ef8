"""Grayscale dilation: the maximum of window plus filter, and its gradients.

As in TensorFlow, there is no second derivative.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparkflow_runtime.dtypes import REAL, as_dtype
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.convolution.conv_arithmetic import covering
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import list_attr, string_attr, type_attr
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.ops.windows import Layout, Windows, offsets, pad_images, within
from sparkflow_runtime.shapes import Shape

_ATTRS = {
    "T": type_attr(REAL),
    "strides": list_attr("int", minimum=4),
    "rates": list_attr("int", minimum=4),
    "padding": string_attr(allowed=frozenset({"SAME", "VALID"})),
}


def _layout(attrs: Mapping[str, Any]) -> Layout:
    return Layout.of({**attrs, "dilations": attrs["rates"]})


def _windows(layout: Layout, images: Sequence[int], filters: Sequence[int]) -> Windows:
    if len(images) != 4 or len(filters) != 3 or images[3] != filters[2]:
        raise InvalidArgumentError(
            message=f"input and filter must have the same depth: input shape {bracketed(images)}, "
            f"filter shape {bracketed(filters)}"
        )
    return layout.windows(images[1:3], filters[:2])


def _sums(
    xp: Any, images: Array, filters: Array, windows: Windows
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], Array]]:
    """(place, index, window element plus filter element) per place of the filter."""
    lowest = -xp.inf if images.dtype.kind == "f" else as_dtype(images.dtype).min
    padded = pad_images(xp, images, windows, lowest)
    floats = images.dtype.kind == "f"
    inside = None if floats else pad_images(xp, xp.ones(images.shape, bool), windows, False)
    for place, index in offsets(windows):
        sums = padded[index] + filters[place]
        if inside is not None:  # integers have no infinity
            sums = xp.where(inside[index], sums, lowest)
        yield place, index, sums.astype(images.dtype, copy=False)


def _dilated(xp: Any, images: Array, filters: Array, windows: Windows) -> Array:
    parts = (sums for _, _, sums in _sums(xp, images, filters, windows))
    result = next(parts)
    for part in parts:
        xp.maximum(result, part, out=result)
    return result


class _Dilation(Op):
    attrs = _ATTRS

    def windows(self, images: Array, filters: Array, attrs: Mapping[str, Any]) -> Windows:
        """The windows of the filter over the images."""
        return _windows(_layout(attrs), images.shape, filters.shape)


@register
class Dilation2D(_Dilation):
    """out[b, i, j, c] = max over y, x of input[b, i·s + y·r, j·s + x·r, c] + filter[y, x, c]."""

    inputs = "input: T, filter: T"
    outputs = "output: T"

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, rows, columns, channels)."""
        layout = _layout(node.attrs)
        batch, height, width, channels = node.with_rank(0, 4, "input")
        rows, columns, depth = node.with_rank(1, 3, "filter")
        if None not in (channels, depth) and channels != depth:
            raise InvalidArgumentError(
                message=f"Dimensions must be equal, but are {channels} and {depth}"
            )
        counts = layout.count(height, 0, rows), layout.count(width, 1, columns)
        return [(batch, *counts, depth if channels is None else channels)]

    def compute(
        self,
        xp: Any,
        images: Array,
        filters: Array,
        *,
        strides: list[int],
        rates: list[int],
        padding: str,
    ) -> Array:
        """The maxima."""
        attrs = {"strides": strides, "rates": rates, "padding": padding}
        return _dilated(xp, images, filters, self.windows(images, filters, attrs))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """The two ops below."""
        attrs = {name: op.attr(name) for name in _ATTRS if name != "T"}
        images, filters = op.inputs
        return (
            g.Dilation2DBackpropInput(images, filters, dy, **attrs),
            g.Dilation2DBackpropFilter(images, filters, dy, **attrs),
        )


class _DilationGrad(_Dilation):
    inputs = "input: T, filter: T, out_backprop: T"

    def compute(
        self,
        xp: Any,
        images: Array,
        filters: Array,
        dy: Array,
        *,
        strides: list[int],
        rates: list[int],
        padding: str,
    ) -> Array:
        """The gradient."""
        attrs = {"strides": strides, "rates": rates, "padding": padding}
        return self.routed_to(xp, images, filters, dy, self.windows(images, filters, attrs))

    def routed_to(
        self, xp: Any, images: Array, filters: Array, dy: Array, windows: Windows
    ) -> Array:
        """The gradients of the windows at the elements that were their maxima."""
        raise NotImplementedError

    def routed(
        self, xp: Any, images: Array, filters: Array, dy: Array, windows: Windows
    ) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], Array]]:
        """(place, index, the gradient of the windows whose first maximum is at the place)."""
        best = _dilated(xp, images, filters, windows)
        free = xp.ones(best.shape, bool)
        for place, index, sums in _sums(xp, images, filters, windows):
            mask = (sums == best) & free
            free ^= mask
            yield place, index, xp.where(mask, dy, dy.dtype.type(0))


@register
class Dilation2DBackpropInput(_DilationGrad):
    """Each output's gradient at the image element that was its maximum."""

    outputs = "in_backprop: T"
    infer = same_as(0, 4, "input")

    def routed_to(
        self, xp: Any, images: Array, filters: Array, dy: Array, windows: Windows
    ) -> Array:
        """The gradient."""
        dims = images.shape[1:3]
        result = xp.zeros((len(images), *covering(windows, dims), images.shape[3]), images.dtype)
        for _, index, part in self.routed(xp, images, filters, dy, windows):
            result[index] += part
        return result[within(windows, dims)]


@register
class Dilation2DBackpropFilter(_DilationGrad):
    """Each output's gradient at the filter element that was in its maximum."""

    outputs = "filter_backprop: T"
    infer = same_as(1, 3, "filter")

    def routed_to(
        self, xp: Any, images: Array, filters: Array, dy: Array, windows: Windows
    ) -> Array:
        """The gradient."""
        result = xp.zeros(filters.shape, filters.dtype)
        for place, _, part in self.routed(xp, images, filters, dy, windows):
            result[place] = part.sum(axis=(0, 1, 2), dtype=filters.dtype)
        return result
