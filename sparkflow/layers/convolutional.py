"""Convolutional layers; separable ones are in `separable`, transposed ones in `transposed`."""

from __future__ import annotations

from types import FunctionType
from typing import Any, ClassVar

from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.layers import named
from sparkflow.layers.base import Activation, Layer
from sparkflow.layers.functional import functional
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
from sparkflow.ops.shape import arrays
from sparkflow.variables.initializers import Zeros


class Convolution(Layer):
    """activation(inputs convolved with kernel + bias) over `rank` spatial dimensions.

    Subclasses say their rank; one step in each of those dimensions is then the default.

    Args:
        filters: The number of output channels.
        kernel_size: One number, or one per spatial dimension.
        strides: One number, or one per spatial dimension.
        padding: `valid` or `same`; of sequences also `causal`: no output sees what comes after it.
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

    rank: ClassVar[int]

    def __init_subclass__(cls, rank: int | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if rank is not None:
            cls.rank = rank
            if rank > 1:
                cls.__init__ = _with_steps(cls, rank)  # type: ignore[method-assign]  # other defaults

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
        super().__init__(trainable, name, activity_regularizer=activity_regularizer, **kwargs)
        rank = self.rank
        self.filters = filters
        self.kernel_size = normalized_tuple(kernel_size, rank, "kernel_size")
        self.strides = normalized_tuple(strides, rank, "strides")
        self.padding = normalized_padding(padding, rank)
        self.data_format = normalized_format(data_format)
        self.dilation_rate = normalized_tuple(dilation_rate, rank, "dilation_rate")
        self.activation = named.activation(activation)
        self.use_bias = use_bias
        self.kernel_initializer = named.initializer(kernel_initializer)
        self.bias_initializer = named.initializer(bias_initializer)
        self.kernel_regularizer = named.regularizer(kernel_regularizer)
        self.bias_regularizer = named.regularizer(bias_regularizer)
        self.kernel_constraint = named.constraint(kernel_constraint)
        self.bias_constraint = named.constraint(bias_constraint)
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
        """Creates `kernel` [..., channels, filters] and `bias` [filters]."""
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
        inputs, padding = self.padded(inputs)
        arguments: dict[str, Any] = {
            "padding": padding,
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

    def padded(self, inputs: Any) -> tuple[Any, str]:
        """The inputs, led by zeros where windows see no later values, and the op's `padding`."""
        if self.padding != "causal":
            return inputs, self.padding.upper()
        along = [(self.kernel_size[0] - 1) * self.dilation_rate[0], 0]
        first = self.data_format == "channels_first"
        widths = [[0, 0], [0, 0], along] if first else [[0, 0], along, [0, 0]]
        return arrays.pad(inputs, widths), "VALID"

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
        padding = "same" if self.padding == "causal" else self.padding
        sizes = [
            windows_of(size, kernel, stride, padding, dilation)
            for size, kernel, stride, dilation in zip(
                space, self.kernel_size, self.strides, self.dilation_rate, strict=True
            )
        ]
        if first:
            return TensorShape([shape[0], self.filters, *sizes])
        return TensorShape([shape[0], *sizes, self.filters])


def _with_steps(kind: type[Convolution], rank: int) -> Any:
    """The `__init__` of so many dimensions: `strides` and `dilation_rate` are 1 in each."""
    method: Any = kind.__init__
    code = method.__code__
    names = code.co_varnames[code.co_argcount - len(method.__defaults__) : code.co_argcount]
    defaults = tuple(
        (1,) * rank if name in ("strides", "dilation_rate") else default
        for name, default in zip(names, method.__defaults__, strict=True)
    )
    made = FunctionType(code, method.__globals__, "__init__", defaults, method.__closure__)
    made.__annotations__ = method.__annotations__
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    return made


class Conv1D(Convolution, rank=1):
    """Convolution of sequences [batch, width, channels].

    Arguments as for `Convolution`.
    """


class Conv2D(Convolution, rank=2):
    """Convolution of images [batch, height, width, channels].

    Arguments as for `Convolution`.
    """


class Conv3D(Convolution, rank=3):
    """Convolution of volumes [batch, depth, height, width, channels].

    Arguments as for `Convolution`.
    """


conv1d = functional("conv1d", Conv1D, 1)
conv2d = functional("conv2d", Conv2D, 2)
conv3d = functional("conv3d", Conv3D, 3)
Convolution1D = Conv1D
Convolution2D = Conv2D
Convolution3D = Conv3D
convolution1d = conv1d
convolution2d = conv2d
convolution3d = conv3d
