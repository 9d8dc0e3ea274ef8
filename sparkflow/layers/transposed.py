"""Transposed convolutional layers: from small images to large ones."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.layers.base import Activation
from sparkflow.layers.convolutional import Convolution
from sparkflow.layers.functional import functional
from sparkflow.ops.convolution import transposed_convolution
from sparkflow.ops.shape import arrays
from sparkflow.variables.initializers import Zeros


class _Transposed(Convolution):
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
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
            filters, kernel_size, strides, padding, data_format, 1, activation, use_bias,
            kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
            activity_regularizer, kernel_constraint, bias_constraint, trainable, name, **kwargs,
        )  # fmt: skip

    def build(self, input_shape: Any) -> None:
        """Creates `kernel` [..., filters, channels] and `bias` [filters]."""
        channels = self.channels_of(input_shape)
        self.kernel = self.add_weight(
            "kernel",
            shape=[*self.kernel_size, self.filters, channels],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.add_bias()
        self.built = True

    def call(self, inputs: Any, **kwargs: Any) -> Tensor:
        """[batch, ..., filters], or channels second."""
        first = self.data_format == "channels_first"
        static = inputs.shape.as_list()
        known = self.compute_output_shape(inputs.shape)
        sizes = arrays.shape(inputs)
        axes = range(2, self.rank + 2) if first else range(1, self.rank + 1)
        space = [
            self._grown(sizes[axis] if static[axis] is None else static[axis], i)
            for i, axis in enumerate(axes)
        ]
        batch = sizes[0] if static[0] is None else static[0]
        shape = [batch, self.filters, *space] if first else [batch, *space, self.filters]
        symbolic = any(isinstance(each, Tensor) for each in shape)
        strides = [1, 1, *self.strides] if first else [1, *self.strides, 1]
        function: Any = (
            transposed_convolution.conv2d_transpose
            if self.rank == 2
            else transposed_convolution.conv3d_transpose
        )
        outputs = function(
            inputs,
            self.kernel,
            arrays.stack(shape) if symbolic else shape,
            strides,
            self.padding.upper(),
            self.layout,
        )
        outputs.set_shape(known)
        return self.finished(outputs)

    def _grown(self, size: Any, index: int) -> Any:
        kernel, stride = self.kernel_size[index], self.strides[index]
        size = size * stride
        return size + max(kernel - stride, 0) if self.padding == "valid" else size

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The shape of the result."""
        shape = TensorShape(input_shape).with_rank(self.rank + 2).as_list()
        first = self.data_format == "channels_first"
        space = shape[2:] if first else shape[1:-1]
        sizes = [None if size is None else self._grown(size, i) for i, size in enumerate(space)]
        if first:
            return TensorShape([shape[0], self.filters, *sizes])
        return TensorShape([shape[0], *sizes, self.filters])


class Conv2DTranspose(_Transposed, rank=2):
    """Transposed convolution of images [batch, height, width, channels].

    Arguments as for `Convolution`; there is no dilation.
    """


class Conv3DTranspose(_Transposed, rank=3):
    """Transposed convolution of volumes.

    Arguments as for `Convolution`; there is no dilation.
    """


conv2d_transpose = functional("conv2d_transpose", Conv2DTranspose, 2)
conv3d_transpose = functional("conv3d_transpose", Conv3DTranspose, 3)
Convolution2DTranspose = Deconvolution2D = Deconv2D = Conv2DTranspose
Convolution3DTranspose = Deconvolution3D = Deconv3D = Conv3DTranspose
convolution2d_transpose = deconvolution2d = deconv2d = conv2d_transpose
convolution3d_transpose = deconvolution3d = deconv3d = conv3d_transpose
