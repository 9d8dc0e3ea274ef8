"""Pooling layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.layers.base import Layer
from sparkflow.layers.functional import functional
from sparkflow.layers.input_spec import (
    InputSpec,
    normalized_format,
    normalized_padding,
    normalized_tuple,
    windows_of,
)
from sparkflow.ops.convolution.window_arguments import spatial_format
from sparkflow.ops.pooling import pooling


class _Pooling(Layer):
    """A pooling layer. Its documentation goes on with that of the arguments, which all share.

    Args:
        pool_size: The size of a window: one number, or one per spatial dimension.
        strides: One number, or one per spatial dimension.
        padding: `valid` or `same`.
        data_format: `channels_last` or `channels_first`.
        name: The layer's name.
        kwargs: As for `Layer`.
    """

    _rank: ClassVar[int]
    _function: ClassVar[Callable[..., Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _, *arguments = (_Pooling.__doc__ or "").partition("\n\n")
        cls.__doc__ = (cls.__doc__ or "") + "".join(arguments)

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.pool_size = normalized_tuple(pool_size, self._rank, "pool_size")
        self.strides = normalized_tuple(strides, self._rank, "strides")
        self.padding = normalized_padding(padding)
        self.data_format = normalized_format(data_format)
        self.input_spec = InputSpec(ndim=self._rank + 2)

    def call(self, inputs: Any, **kwargs: Any) -> Tensor:
        """The pooled inputs."""
        layout = spatial_format(self._rank, self.data_format == "channels_first")
        result: Tensor = self._function(
            inputs, self.pool_size, self.strides, self.padding.upper(), data_format=layout
        )
        return result

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The shape of the result."""
        shape = TensorShape(input_shape).with_rank(self._rank + 2).as_list()
        start = 2 if self.data_format == "channels_first" else 1
        for i, (size, stride) in enumerate(zip(self.pool_size, self.strides, strict=True)):
            shape[start + i] = windows_of(shape[start + i], size, stride, self.padding)
        return TensorShape(shape)


class MaxPooling1D(_Pooling):
    """The largest element of every window of sequences [batch, width, channels]."""

    _rank = 1
    _function = staticmethod(pooling.max_pool1d)


class MaxPooling2D(_Pooling):
    """The largest element of every window of images [batch, height, width, channels]."""

    _rank = 2
    _function = staticmethod(pooling.max_pool)


class MaxPooling3D(_Pooling):
    """The largest element of every window of volumes [batch, depth, height, width, channels]."""

    _rank = 3
    _function = staticmethod(pooling.max_pool3d)


class AveragePooling1D(_Pooling):
    """The mean of every window of sequences [batch, width, channels]."""

    _rank = 1
    _function = staticmethod(pooling.avg_pool1d)


class AveragePooling2D(_Pooling):
    """The mean of every window of images [batch, height, width, channels]."""

    _rank = 2
    _function = staticmethod(pooling.avg_pool)


class AveragePooling3D(_Pooling):
    """The mean of every window of volumes [batch, depth, height, width, channels]."""

    _rank = 3
    _function = staticmethod(pooling.avg_pool3d)


max_pooling1d = functional("max_pooling1d", MaxPooling1D, 1, has_variables=False)
max_pooling2d = functional("max_pooling2d", MaxPooling2D, 2, has_variables=False)
max_pooling3d = functional("max_pooling3d", MaxPooling3D, 3, has_variables=False)
average_pooling1d = functional("average_pooling1d", AveragePooling1D, 1, has_variables=False)
average_pooling2d = functional("average_pooling2d", AveragePooling2D, 2, has_variables=False)
average_pooling3d = functional("average_pooling3d", AveragePooling3D, 3, has_variables=False)
MaxPool1D = MaxPooling1D
MaxPool2D = MaxPooling2D
MaxPool3D = MaxPooling3D
AveragePool1D = AveragePooling1D
AveragePool2D = AveragePooling2D
AveragePool3D = AveragePooling3D
max_pool1d = max_pooling1d
max_pool2d = max_pooling2d
max_pool3d = max_pooling3d
average_pool1d = average_pooling1d
average_pool2d = average_pooling2d
average_pool3d = average_pooling3d
