"""Pooling with random window borders, which shrinks an image by a fraction (Graham 2014)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.dtypes import float32, float64, int32, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.random.random import RandomStream, stream_of
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, list_attr, type_attr
from sparkflow_runtime.ops.static import ints, shape_tensor
from sparkflow_runtime.shapes import Shape

HostArray = np.ndarray[Any, Any]

_T = type_attr(frozenset({float32, float64, int32, int64}))


def borders(
    generator: np.random.Generator, size: int, wanted: int, pseudo_random: bool
) -> HostArray:
    """[wanted + 1] int64: starts of the windows along one dimension, and the end of the last."""
    if pseudo_random:
        alpha, step = size / wanted, size // wanted
        most = min((step + 2) / alpha - 1, (size + 1 - step) / alpha - (wanted - 1))
        shift = generator.random() * most
        inner = np.ceil(alpha * (np.arange(1, wanted) + shift)).astype(np.int64) - 1
        return np.concatenate([[0], inner, [size]])
    steps = np.full(wanted, size // wanted, np.int64)
    steps[: size % wanted] += 1
    return np.concatenate([[0], np.cumsum(generator.permutation(steps))]).astype(np.int64)


class _Borders(RandomStream):
    """The random numbers of one node, and the borders that it keeps; `lock` guards both."""

    def __init__(self, seed: int, seed2: int) -> None:
        super().__init__(seed, seed2)
        self.kept: dict[tuple[int, ...], tuple[HostArray, HostArray]] = {}


def _windows(
    rows: HostArray, columns: HostArray, overlapping: bool
) -> list[tuple[int, int, slice, slice]]:
    """(i, j, rows, columns) of every window."""
    more = int(overlapping)  # the border belongs to both windows
    return [
        (i, j, slice(rows[i], rows[i + 1] + more), slice(columns[j], columns[j + 1] + more))
        for i in range(len(rows) - 1)
        for j in range(len(columns) - 1)
    ]


def _reduced(size: int | None, ratio: float) -> int | None:
    return None if size is None else int(size / ratio)


class _FractionalPool(Op):
    inputs = "value: T"
    outputs = "output: T, row_pooling_sequence: int64, col_pooling_sequence: int64"
    attrs = {
        "pooling_ratio": list_attr("float", minimum=4),
        "pseudo_random": bool_attr(False),
        "overlapping": bool_attr(False),
        "deterministic": bool_attr(False),
        "seed": int_attr(0),
        "seed2": int_attr(0),
        "T": _T,
    }
    stateful = True
    kernels = {"CPU": None}
    function: ClassVar[Callable[..., Any]]

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The sizes divided by the ratios, rounded down; the borders along rows and columns."""
        shape = node.with_rank(0, 4, "value")
        ratios = node.attrs["pooling_ratio"]
        if len(ratios) != 4 or ratios[0] != 1 or ratios[3] != 1 or min(ratios) < 1:
            raise InvalidArgumentError(
                message="pooling_ratio has 4 numbers of at least 1, the first and last of them 1, "
                f"got {list(ratios)}"
            )
        reduced = tuple(_reduced(dim, ratio) for dim, ratio in zip(shape, ratios, strict=True))
        return [reduced, *((None if d is None else d + 1,) for d in reduced[1:3])]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, whose borders are the same in all steps if `deterministic`."""
        attrs = node.attrs
        seeds = attrs["seed"], attrs["seed2"]
        stream = stream_of(context.session, node.name, _Borders, lambda: _Borders(*seeds))

        def kernel(value: Array) -> tuple[Array, ...]:
            _, height, width, _ = value.shape
            _, by_rows, by_columns, _ = attrs["pooling_ratio"]
            wanted = int(height / by_rows), int(width / by_columns)
            if min(wanted) < 1:
                raise InvalidArgumentError(
                    message=f"{height} x {width} pixels are too few for the pooling ratio "
                    f"{list(attrs['pooling_ratio'])}"
                )
            with stream.lock:
                places = stream.kept.get((height, width)) if attrs["deterministic"] else None
                if places is None:
                    generator, pseudo = stream.generator, attrs["pseudo_random"]
                    places = (
                        borders(generator, height, wanted[0], pseudo),
                        borders(generator, width, wanted[1], pseudo),
                    )
                    stream.kept[height, width] = places
            rows, columns = places
            shape = value.shape[0], len(rows) - 1, len(columns) - 1, value.shape[3]
            result = np.empty(shape, value.dtype)
            for i, j, down, across in _windows(rows, columns, attrs["overlapping"]):
                result[:, i, j] = type(self).function(value[:, down, across], axis=(1, 2))
            return result, rows, columns

        return kernel


@register
class FractionalMaxPool(_FractionalPool):
    """The largest element of every window."""

    function = np.max

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor, *_: Any) -> tuple[Any]:
        """To the largest elements."""
        y, rows, columns = op.outputs
        overlapping = op.attr("overlapping")
        x = op.inputs[0]
        return (g.FractionalMaxPoolGrad(x, y, dy, rows, columns, overlapping=overlapping),)


@register
class FractionalAvgPool(_FractionalPool):
    """The mean of every window."""

    function = np.mean

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor, *_: Any) -> tuple[Any]:
        """Shared by the elements of each window."""
        _, rows, columns = op.outputs
        overlapping = op.attr("overlapping")
        sizes = g.Cast(shape_tensor(g, op.inputs[0]), DstT=int64)
        return (g.FractionalAvgPoolGrad(sizes, dy, rows, columns, overlapping=overlapping),)


@register
class FractionalMaxPoolGrad(Op):
    """The gradient of `FractionalMaxPool`: to the first largest element of each window."""

    inputs = (
        "orig_input: T, orig_output: T, out_backprop: T, row_pooling_sequence: int64, "
        "col_pooling_sequence: int64"
    )
    outputs = "output: T"
    attrs = {"overlapping": bool_attr(False), "T": _T}
    kernels = {"CPU": None}
    gradient = not_differentiable
    infer = same_as(0)

    def compute(
        self,
        xp: Any,
        value: Array,
        output: Array,
        dy: Array,
        rows: Array,
        columns: Array,
        *,
        overlapping: bool,
    ) -> Array:
        """[batch, rows, columns, channels]."""
        result = np.zeros_like(value)
        batch, _, _, channels = value.shape
        of = np.arange(batch)[:, None], np.arange(channels)[None, :]
        for i, j, down, across in _windows(rows, columns, overlapping):
            window = value[:, down, across]
            flat = window.reshape(batch, -1, channels).argmax(axis=1)
            y, x = np.divmod(flat, window.shape[2])
            np.add.at(result, (of[0], y + down.start, x + across.start, of[1]), dy[:, i, j])
        return result


@register
class FractionalAvgPoolGrad(Op):
    """The gradient of `FractionalAvgPool`."""

    inputs = (
        "orig_input_tensor_shape: int64, out_backprop: T, row_pooling_sequence: int64, "
        "col_pooling_sequence: int64"
    )
    outputs = "output: T"
    attrs = {"overlapping": bool_attr(False), "T": _T}
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape given."""
        value = node.value(0)
        return [(None,) * 4 if value is None else tuple(ints(value))]

    def compute(
        self, xp: Any, shape: Array, dy: Array, rows: Array, columns: Array, *, overlapping: bool
    ) -> Array:
        """[batch, rows, columns, channels]."""
        result = np.zeros(tuple(ints(shape)), dy.dtype)
        for i, j, down, across in _windows(rows, columns, overlapping):
            window = result[:, down, across]
            window += dy[:, i : i + 1, j : j + 1] / dy.dtype.type(window.shape[1] * window.shape[2])
        return result
