"""`tf.layers`: a layer and its variables in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow.initializers import Zeros
from sparkflow.ops import activation as functions, arrays, convolution, elementwise, linalg
from sparkflow.variables.variable_scope import get_variable, variable_scope

Activation = Callable[[Tensor], Tensor]


def dense(
    inputs: Any,
    units: int,
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
    """activation(inputs · kernel + bias), with variables `kernel` and `bias` of its own.

    Args:
        inputs: [..., features] floating point; features known.
        units: The size of the last dimension of the result.
        activation: A function of a tensor, None for none.
        use_bias: Add a bias.
        kernel_initializer: As for `get_variable`.
        bias_initializer: As for `get_variable`.
        kernel_regularizer: As for `get_variable`.
        bias_regularizer: As for `get_variable`.
        activity_regularizer: Not supported.
        kernel_constraint: As for `get_variable`.
        bias_constraint: As for `get_variable`.
        trainable: Whether optimizers change the variables.
        name: The variable scope; `dense`, `dense_1`, ... when None.
        reuse: Share the variables of the layer of that name.

    Returns:
        [..., units].

    Raises:
        ValueError: The number of features is not known, or `activity_regularizer` is given.
    """
    _refuse_activity_regularizer(activity_regularizer)
    tensor = convert_to_tensor(inputs, name="inputs")
    features = tensor.shape[-1].value if tensor.shape.ndims else None
    if features is None:
        raise ValueError(
            "The last dimension of the inputs to `Dense` should be defined. Found `None`."
        )
    with variable_scope(name, default_name="dense", values=[tensor], reuse=reuse):
        kernel = get_variable(
            "kernel",
            [features, units],
            tensor.dtype.base,
            kernel_initializer,
            kernel_regularizer,
            trainable,
            constraint=kernel_constraint,
        )
        if tensor.shape.ndims == 2:
            outputs = linalg.matmul(tensor, kernel)
        else:
            outputs = linalg.tensordot(tensor, kernel, 1)
            outputs.set_shape([*tensor.shape[:-1], units])
        if use_bias:
            bias = get_variable(
                "bias",
                [units],
                tensor.dtype.base,
                bias_initializer,
                bias_regularizer,
                trainable,
                constraint=bias_constraint,
            )
            outputs = functions.bias_add(outputs, bias)
        return outputs if activation is None else activation(outputs)


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
    """activation(inputs convolved with kernel + bias), with variables of its own.

    Args:
        inputs: [batch, height, width, channels], or channels second for `channels_first`.
        filters: The number of output channels.
        kernel_size: One number, or height and width.
        strides: One number, or one for height and one for width.
        dilation_rate: One number, or one for height and one for width.
        padding: `valid` or `same`.
        data_format: `channels_last` or `channels_first`.
        activation: As for `dense`.
        use_bias: As for `dense`.
        trainable: As for `dense`.
        name: As for `dense`.
        reuse: As for `dense`.
        kernel_initializer: As for `dense`.
        bias_initializer: As for `dense`.
        kernel_regularizer: As for `dense`.
        bias_regularizer: As for `dense`.
        activity_regularizer: As for `dense`.
        kernel_constraint: As for `dense`.
        bias_constraint: As for `dense`.

    Raises:
        ValueError: The number of channels is not known.
    """
    _refuse_activity_regularizer(activity_regularizer)
    tensor = convert_to_tensor(inputs, name="inputs")
    layout = _layout(data_format)
    channels = tensor.shape[1 if layout == "NCHW" else 3].value
    if channels is None:
        raise ValueError("The channel dimension of the inputs should be defined. Found `None`.")
    size = _two(kernel_size)
    with variable_scope(name, default_name="conv2d", values=[tensor], reuse=reuse):
        kernel = get_variable(
            "kernel",
            [*size, channels, filters],
            tensor.dtype.base,
            kernel_initializer,
            kernel_regularizer,
            trainable,
            constraint=kernel_constraint,
        )
        outputs = convolution.conv2d(
            tensor,
            kernel,
            strides=_two(strides),
            padding=padding.upper(),
            data_format=layout,
            dilations=_two(dilation_rate),
        )
        if use_bias:
            bias = get_variable(
                "bias",
                [filters],
                tensor.dtype.base,
                bias_initializer,
                bias_regularizer,
                trainable,
                constraint=bias_constraint,
            )
            outputs = functions.bias_add(outputs, bias, data_format=layout)
        return outputs if activation is None else activation(outputs)


def max_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The largest element of every window; arguments as for `conv2d`."""
    return convolution.max_pool(
        inputs, _two(pool_size), _two(strides), padding.upper(), _layout(data_format), name
    )


def average_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The mean of every window; arguments as for `conv2d`."""
    return convolution.avg_pool(
        inputs, _two(pool_size), _two(strides), padding.upper(), _layout(data_format), name
    )


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Tensor:
    """`inputs` with the share `rate` of elements set to 0 and the rest scaled up, in training.

    Args:
        inputs: Floating point.
        rate: The share that is dropped.
        noise_shape: As for `tf.nn.dropout`.
        seed: As for `tf.nn.dropout`.
        training: True, False, or a bool tensor.
        name: Name of the scope.
    """
    tensor = convert_to_tensor(inputs, name="inputs")
    if isinstance(training, Tensor):
        known = constant_value(training)
        if known is None:
            share = elementwise.cast(training, tensor.dtype.base) * rate
            return functions.dropout(
                tensor, rate=share, noise_shape=noise_shape, seed=seed, name=name
            )
        training = bool(known)
    if not training:
        return tensor
    return functions.dropout(tensor, rate=rate, noise_shape=noise_shape, seed=seed, name=name)


def flatten(inputs: Any, name: str | None = None) -> Tensor:
    """[batch, ...] as [batch, features]."""
    tensor = convert_to_tensor(inputs, name="inputs")
    rest = tensor.shape[1:].num_elements() if tensor.shape.ndims else None
    batch = tensor.shape[0].value if tensor.shape.ndims else None
    with tensor.graph.as_default(), tensor.graph.name_scope(name or "flatten"):
        if rest is not None:
            return arrays.reshape(tensor, [-1, rest] if rest else [arrays.shape(tensor)[0], 0])
        result = arrays.reshape(tensor, [arrays.shape(tensor)[0], -1])
        result.set_shape([batch, None])
        return result


def _refuse_activity_regularizer(regularizer: Any) -> None:
    if regularizer is not None:
        raise ValueError(
            "activity_regularizer is not supported; add its loss with tf.losses.add_loss"
        )


def _two(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else [int(each) for each in value]


def _layout(data_format: str) -> str:
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(
            f"The `data_format` argument must be one of "
            f"'channels_first', 'channels_last'. Received: {data_format}"
        )
    return "NHWC" if data_format == "channels_last" else "NCHW"
