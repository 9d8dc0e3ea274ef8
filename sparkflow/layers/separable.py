"""Convolutional layers that treat channels apart, then mix them."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.tensor import Tensor
from sparkflow.layers import named
from sparkflow.layers.base import Activation
from sparkflow.layers.convolutional import Convolution
from sparkflow.layers.functional import functional
from sparkflow.ops.convolution import convolution
from sparkflow.ops.shape import arrays
from sparkflow.variables.initializers import Zeros


class _Separable(Convolution):
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Activation | None = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        bias_initializer: Any = Zeros,
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            filters, kernel_size, strides, padding, data_format, dilation_rate, activation,
            use_bias, None, bias_initializer, None, bias_regularizer, activity_regularizer, None,
            bias_constraint, trainable, name, **kwargs,
        )  # fmt: skip
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer = named.initializer(depthwise_initializer)
        self.pointwise_initializer = named.initializer(pointwise_initializer)
        self.depthwise_regularizer = named.regularizer(depthwise_regularizer)
        self.pointwise_regularizer = named.regularizer(pointwise_regularizer)
        self.depthwise_constraint = named.constraint(depthwise_constraint)
        self.pointwise_constraint = named.constraint(pointwise_constraint)
        self.depthwise_kernel: Any = None
        self.pointwise_kernel: Any = None

    def build(self, input_shape: Any) -> None:
        """Creates `depthwise_kernel`, `pointwise_kernel` and `bias`."""
        channels = self.channels_of(input_shape)
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel",
            shape=[*self.kernel_size, channels, self.depth_multiplier],
            initializer=self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
        )
        self.pointwise_kernel = self.add_weight(
            "pointwise_kernel",
            shape=[*(1,) * self.rank, channels * self.depth_multiplier, self.filters],
            initializer=self.pointwise_initializer,
            regularizer=self.pointwise_regularizer,
            constraint=self.pointwise_constraint,
        )
        self.add_bias()
        self.built = True

    def call(self, inputs: Any, **kwargs: Any) -> Tensor:
        """[batch, ..., filters], or channels second."""
        first = self.data_format == "channels_first"
        inputs, padding = self.padded(inputs)
        flat = self.rank == 1
        axis = 2 if first else 1
        deep, point = self.depthwise_kernel, self.pointwise_kernel
        strides, rates = self.strides, self.dilation_rate
        if flat:
            inputs = arrays.expand_dims(inputs, axis)
            deep, point = arrays.expand_dims(deep, 0), arrays.expand_dims(point, 0)
            strides, rates = (1, *strides), (1, *rates)
            # TensorFlow's depthwise kernel takes equal strides only; the other one has no effect.
            strides = (strides[1], strides[1])
        outputs = convolution.separable_conv2d(
            inputs,
            deep,
            point,
            [1, 1, *strides] if first else [1, *strides, 1],
            padding,
            rate=rates,
            data_format="NCHW" if first else "NHWC",
        )
        return self.finished(arrays.squeeze(outputs, [axis]) if flat else outputs)


class SeparableConv1D(_Separable, rank=1):
    """Separable convolution of sequences [batch, width, channels].

    Arguments as for `Convolution`, the kernel's in two parts.
    """


class SeparableConv2D(_Separable, rank=2):
    """Separable convolution of images [batch, height, width, channels].

    Arguments as for `Convolution`, the kernel's in two parts.
    """


separable_conv1d = functional("separable_conv1d", SeparableConv1D, 1)
separable_conv2d = functional("separable_conv2d", SeparableConv2D, 2)
SeparableConvolution1D = SeparableConv1D
SeparableConvolution2D = SeparableConv2D
separable_convolution2d = separable_conv2d
