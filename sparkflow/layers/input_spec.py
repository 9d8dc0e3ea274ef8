"""Requirements on the inputs of a layer, and checks of the arguments that layers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import as_dtype


class InputSpec:
    """Ranks, sizes and the dtype that a layer asks of an input.

    Args:
        dtype: The dtype, None for any.
        shape: The shape, with None for any size.
        ndim: The rank.
        max_ndim: The largest rank.
        min_ndim: The smallest rank.
        axes: Sizes by dimension.
    """

    def __init__(
        self,
        dtype: Any = None,
        shape: Sequence[int | None] | None = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: Mapping[int, int | None] | None = None,
    ) -> None:
        self.dtype = None if dtype is None else as_dtype(dtype).name
        self.shape = shape
        self.ndim = len(shape) if shape is not None else ndim
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.axes = dict(axes or {})

    def __repr__(self) -> str:
        named = ("dtype", "shape", "ndim", "max_ndim", "min_ndim", "axes")
        given = [f"{name}={getattr(self, name)}" for name in named if getattr(self, name)]
        return f"InputSpec({', '.join(given)})"

    def check(self, tensor: Tensor, index: int, layer: str) -> None:
        """Passes for an input that is what the layer asks for.

        Raises:
            ValueError: It is not; the text names what was found.
        """
        text = f"Input {index} of layer {layer} is incompatible with the layer: "
        rank = tensor.shape.ndims
        if rank is None:
            if None not in (self.ndim, self.min_ndim, self.max_ndim):
                raise ValueError(f"{text}its rank is undefined, but the layer requires one.")
            return
        shape = tensor.shape.as_list()
        if self.ndim is not None and rank != self.ndim:
            raise ValueError(
                f"{text}expected ndim={self.ndim}, found ndim={rank}. Full shape received: {shape}"
            )
        if self.max_ndim is not None and rank > self.max_ndim:
            raise ValueError(f"{text}expected max_ndim={self.max_ndim}, found ndim={rank}")
        if self.min_ndim is not None and rank < self.min_ndim:
            raise ValueError(
                f"{text}: expected min_ndim={self.min_ndim}, found ndim={rank}. "
                f"Full shape received: {shape}"
            )
        if self.dtype is not None and tensor.dtype.base.name != self.dtype:
            raise ValueError(f"{text}expected dtype={self.dtype}, found dtype={tensor.dtype.name}")
        for axis, size in self.axes.items():
            if size is not None and shape[axis] not in (size, None):
                raise ValueError(
                    f"{text}expected axis {axis} of input shape to have value {size} but received "
                    f"input with shape {shape}"
                )
        for size, found in zip(self.shape or (), shape, strict=False):
            if size is not None and found is not None and size != found:
                raise ValueError(f"{text}expected shape={self.shape}, found shape={shape}")


def normalized_tuple(value: Any, count: int, name: str) -> tuple[int, ...]:
    """`count` integers from one or from as many.

    Raises:
        ValueError: The value is neither.
    """
    if isinstance(value, int):
        return (value,) * count
    try:
        given = tuple(int(each) for each in value)
    except (TypeError, ValueError):
        given = ()
    if len(given) != count:
        raise ValueError(
            f"The `{name}` argument must be a tuple of {count} integers. Received: {value}"
        )
    return given


def normalized_padding(value: Any, rank: int = 0) -> str:
    """`valid` or `same`, or `causal` where the windows are those of sequences.

    Args:
        value: What was given.
        rank: Over how many dimensions a convolution goes; 0 for another layer.

    Raises:
        ValueError: It is none of those.
    """
    padding = str(value).lower()
    if padding not in ("valid", "same") and (padding != "causal" or rank != 1):
        raise ValueError(
            'The `padding` argument must be a list/tuple or one of "valid", "same" (or "causal", '
            f"only for `Conv1D). Received: {padding}"
        )
    return padding


def normalized_format(value: Any) -> str:
    """`channels_last` or `channels_first`.

    Raises:
        ValueError: It is neither.
    """
    data_format = "channels_last" if value is None else str(value).lower()
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(
            "The `data_format` argument must be one of "
            f'"channels_first", "channels_last". Received: {value}'
        )
    return data_format


def windows_of(
    size: int | None, kernel: int, stride: int, padding: str, dilation: int = 1
) -> int | None:
    """The number of windows over a dimension."""
    if size is None:
        return None
    extent = (kernel - 1) * dilation + 1
    room = size if padding == "same" else size - extent + 1
    return -(-room // stride)
