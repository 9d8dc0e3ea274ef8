"""Convolutional layers; separable ones are in `separable`, transposed ones in `transposed`."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.layers.base import Activation, Layer
from sparkflow.layers.input_spec import (
    InputSpec,
    normalized_format,
    normalized_padding,
    normalized_tuple,
    windows_of,
)
from sparkflow.ops.convolution import convolution
from sparkflow.ops.convolution.window_arguments import spatial_format
from sparkflow.ops.nn import activation as functions
from sparkflow.variables.initializers import Zeros


class Convolution(Layer):
    """activation(inputs convolved with kernel + bias) over `rank` spatial dimensions.

    Args:
        rank: The number of spatial dimensions.
        filters: The number of output channels.
        kernel_size: One number, or one per spatial dimension.
        strides: One number, or one per spatial dimension.
        padding: `valid` or `same`.
        data_format: `channels_last` or `channels_first`.
        dilation_rate: One number, or one per spatial dimension.
        activation: A function of a tensor, None for none.
        use_bias: Add a bias.
        kernel_initializer: As for `get_variable`.
        bias_initializer: As for `get_variable`.
        kernel_regularizer: As for `get_variable`.
        bias_regularizer: As for `get_variable`.
        activity_regularizer: A function of the result that gives a loss.
        kernel_constraint: As for `get_variable`.
        bias_constraint: As for `get_variable`.
        trainable: Whether optimizers change the variables.
        name: The variable scope; the class's name in snake case when None, made unique.
        kwargs: As for `Layer`.

    Raises:
        ValueError: An argument outside those.
    """

    def __init__(
        self,
        rank: int,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        activation: Activation | None = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = Zeros,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable, name, activity_regularizer=activity_regularizer, **kwargs)
        self.rank = rank
        self.filters = filters
        self.kernel_size = normalized_tuple(kernel_size, rank, "kernel_size")
        self.strides = normalized_tuple(strides, rank, "strides")
        self.padding = normalized_padding(padding)
        self.data_format = normalized_format(data_format)
        self.dilation_rate = normalized_tuple(dilation_rate, rank, "dilation_rate")
        self.activation = activation
        self.use_bias = use_bias
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.bias_regularizer = bias_regularizer
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.input_spec = InputSpec(ndim=rank + 2)
        self.kernel: Any = None
        self.bias: Any = None

    @property
    def layout(self) -> str:
        """The data format as the ops name it."""
        return spatial_format(self.rank, self.data_format == "channels_first")

    @property
    def channel_axis(self) -> int:
        """The dimension of the channels."""
        return 1 if self.data_format == "channels_first" else self.rank + 1

    def channels_of(self, input_shape: Any) -> int:
        """The number of channels of inputs, asked for from now on.

        Raises:
            ValueError: It is not known.
        """
        channels = TensorShape(input_shape)[self.channel_axis].value
        if channels is None:
            raise ValueError("The channel dimension of the inputs should be defined. Found `None`.")
        axis = 1 if self.data_format == "channels_first" else -1
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={axis: channels})
        return int(channels)

    def add_bias(self) -> None:
        """Makes `bias` where one is wanted."""
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                shape=[self.filters],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def build(self, input_shape: Any) -> None:
        """Makes `kernel` [..., channels, filters] and `bias` [filters]."""
        channels = self.channels_of(input_shape)
        self.kernel = self.add_weight(
            "kernel",
            shape=[*self.kernel_size, channels, self.filters],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.add_bias()
        self.built = True

    def call(self, inputs: Any, **kwargs: Any) -> Tensor:
        """[batch, ..., filters], or channels second."""
        arguments: dict[str, Any] = {
            "padding": self.padding.upper(),
            "data_format": self.layout,
            "dilations": list(self.dilation_rate),
        }
        if self.rank == 1:
            outputs = convolution.conv1d(inputs, self.kernel, self.strides[0], **arguments)
        elif self.rank == 2:
            outputs = convolution.conv2d(inputs, self.kernel, self.strides, **arguments)
        else:
            arguments["dilations"] = self._everywhere(self.dilation_rate)
            strides = self._everywhere(self.strides)
            outputs = convolution.conv3d(inputs, self.kernel, strides, **arguments)
        return self.finished(outputs)

    def _everywhere(self, sizes: tuple[int, ...]) -> list[int]:
        return [1, 1, *sizes] if self.data_format == "channels_first" else [1, *sizes, 1]

    def finished(self, outputs: Tensor) -> Tensor:
        """The outputs with bias and activation."""
        if self.use_bias:
            layout = "NCHW" if self.data_format == "channels_first" else "NHWC"
            outputs = functions.bias_add(outputs, self.bias, data_format=layout)
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The shape of the result."""
        shape = TensorShape(input_shape).with_rank(self.rank + 2).as_list()
        first = self.data_format == "channels_first"
        space = shape[2:] if first else shape[1:-1]
        sizes = [
            windows_of(size, kernel, stride, self.padding, dilation)
            for size, kernel, stride, dilation in zip(
                space, self.kernel_size, self.strides, self.dilation_rate, strict=True
            )
        ]
        if first:
            return TensorShape([shape[0], self.filters, *sizes])
        return TensorShape([shape[0], *sizes, self.filters])


class Conv1D(Convolution):
    """Convolution of sequences [batch, width, channels].

    Arguments as for `Convolution`.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        activation: Activation | None = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = Zeros,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            1, filters, kernel_size, strides, padding, data_format, dilation_rate, activation,
            use_bias, kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
            activity_regularizer, kernel_constraint, bias_constraint, trainable, name, **kwargs,
        )  # fmt: skip


class Conv2D(Convolution):
    """Convolution of images [batch, height, width, channels].

    Arguments as for `Convolution`.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = (1, 1),
        activation: Activation | None = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = Zeros,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            2, filters, kernel_size, strides, padding, data_format, dilation_rate, activation,
            use_bias, kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
            activity_regularizer, kernel_constraint, bias_constraint, trainable, name, **kwargs,
        )  # fmt: skip


class Conv3D(Convolution):
    """Convolution of volumes [batch, depth, height, width, channels].

    Arguments as for `Convolution`.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = (1, 1, 1),
        activation: Activation | None = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = Zeros,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            3, filters, kernel_size, strides, padding, data_format, dilation_rate, activation,
            use_bias, kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
            activity_regularizer, kernel_constraint, bias_constraint, trainable, name, **kwargs,
        )  # fmt: skip


def conv1d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = 1,
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = Zeros,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """A `Conv1D` layer applied to sequences [batch, width, channels]."""
    tensor = convert_to_tensor(inputs)
    layer = Conv1D(
        filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias,
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
        activity_regularizer, kernel_constraint, bias_constraint, trainable, name,
        dtype=tensor.dtype.base, _reuse=reuse, _scope=name,
    )  # fmt: skip
    result: Tensor = layer(tensor)
    return result


def conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = (1, 1),
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = Zeros,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """A `Conv2D` layer applied to images [batch, height, width, channels]."""
    tensor = convert_to_tensor(inputs)
    layer = Conv2D(
        filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias,
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
        activity_regularizer, kernel_constraint, bias_constraint, trainable, name,
        dtype=tensor.dtype.base, _reuse=reuse, _scope=name,
    )  # fmt: skip
    result: Tensor = layer(tensor)
    return result


def conv3d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = (1, 1, 1),
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = Zeros,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """A `Conv3D` layer applied to volumes [batch, depth, height, width, channels]."""
    tensor = convert_to_tensor(inputs)
    layer = Conv3D(
        filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias,
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
        activity_regularizer, kernel_constraint, bias_constraint, trainable, name,
        dtype=tensor.dtype.base, _reuse=reuse, _scope=name,
    )  # fmt: skip
    result: Tensor = layer(tensor)
    return result


Convolution1D = Conv1D
Convolution2D = Conv2D
Convolution3D = Conv3D
convolution1d = conv1d
convolution2d = conv2d
convolution3d = conv3d
