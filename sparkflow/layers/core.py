"""Dense layers, dropout and flattening."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.layers import named
from sparkflow.layers.base import Activation, Layer
from sparkflow.layers.input_spec import InputSpec, normalized_format
from sparkflow.layers.training import smart_cond
from sparkflow.ops.control import ordering as control
from sparkflow.ops.linalg import linalg
from sparkflow.ops.nn import activation as functions
from sparkflow.ops.shape import arrays
from sparkflow.variables.initializers import Zeros


class Dense(Layer):
    """activation(inputs · kernel + bias), with variables `kernel` and `bias`.

    Args:
        units: The size of the last dimension of the result.
        activation: A function of a tensor or its name, None for none.
        use_bias: Add a bias.
        kernel_initializer: As for `get_variable`, or a name.
        bias_initializer: As for `get_variable`.
        kernel_regularizer: As for `get_variable`.
        bias_regularizer: As for `get_variable`.
        activity_regularizer: A function of the result that gives a loss.
        kernel_constraint: As for `get_variable`.
        bias_constraint: As for `get_variable`.
        trainable: Whether optimizers change the variables.
        name: The variable scope; `dense`, `dense_1`, ... when None.
        kwargs: As for `Layer`.
    """

    def __init__(
        self,
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
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable, name, activity_regularizer=activity_regularizer, **kwargs)
        self.units = int(units)
        self.activation = named.activation(activation)
        self.use_bias = use_bias
        self.kernel_initializer = named.initializer(kernel_initializer)
        self.bias_initializer = named.initializer(bias_initializer)
        self.kernel_regularizer = named.regularizer(kernel_regularizer)
        self.bias_regularizer = named.regularizer(bias_regularizer)
        self.kernel_constraint = named.constraint(kernel_constraint)
        self.bias_constraint = named.constraint(bias_constraint)
        self.input_spec = InputSpec(min_ndim=2)
        self.kernel: Any = None
        self.bias: Any = None

    def build(self, input_shape: Any) -> None:
        """Creates `kernel` [features, units] and `bias` [units].

        Raises:
            TypeError: The inputs are not real or complex floating point.
            ValueError: The number of features is not known.
        """
        if self._dtype is not None and not (self._dtype.is_floating or self._dtype.is_complex):
            raise TypeError(
                "Unable to build `Dense` layer with non-floating point dtype "
                f"<dtype: '{self._dtype.name}'>"
            )
        features = TensorShape(input_shape)[-1].value
        if features is None:
            raise ValueError(
                "The last dimension of the inputs to `Dense` should be defined. Found `None`."
            )
        self.input_spec = InputSpec(min_ndim=2, axes={-1: features})
        self.kernel = self.add_weight(
            "kernel",
            shape=[features, self.units],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                shape=[self.units],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        self.built = True

    def call(self, inputs: Any, **kwargs: Any) -> Tensor:
        """[..., units]."""
        rank = inputs.shape.ndims
        if rank is not None and rank > 2:
            outputs = linalg.tensordot(inputs, self.kernel, [[rank - 1], [0]])
            outputs.set_shape([*inputs.shape[:-1], self.units])
        else:
            outputs = linalg.matmul(inputs, self.kernel)
        if self.use_bias:
            outputs = functions.bias_add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """[..., units].

        Raises:
            ValueError: The number of features is not known.
        """
        shape = TensorShape(input_shape).with_rank_at_least(2)
        if shape[-1].value is None:
            raise ValueError(
                "The innermost dimension of input_shape must be defined, but saw: "
                f"{tuple(shape.as_list())}"
            )
        result: TensorShape = shape[:-1].concatenate(self.units)
        return result


class Dropout(Layer):
    """Sets the share `rate` of elements to 0 in training and scales the others up.

    Args:
        rate: The share that is dropped.
        noise_shape: As for `tf.nn.dropout`.
        seed: As for `tf.nn.dropout`.
        name: The layer's name.
        kwargs: As for `Layer`.
    """

    def __init__(
        self,
        rate: Any = 0.5,
        noise_shape: Any = None,
        seed: int | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed

    def call(self, inputs: Any, training: Any = False, **kwargs: Any) -> Tensor:
        """The inputs in inference, see the class for training."""

        def dropped() -> Tensor:
            return functions.dropout(
                inputs, noise_shape=self.noise_shape, seed=self.seed, rate=self.rate
            )

        result: Tensor = smart_cond(training, dropped, lambda: control.identity(inputs))
        return result

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The same."""
        return TensorShape(input_shape)


class Flatten(Layer):
    """[batch, ...] as [batch, features].

    Args:
        data_format: `channels_last` or `channels_first`, which is transposed.
        kwargs: As for `Layer`.
    """

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = normalized_format(data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Any, **kwargs: Any) -> Tensor:
        """[batch, features]."""
        rank = inputs.shape.ndims
        if self.data_format == "channels_first" and rank is not None and rank > 1:
            inputs = arrays.transpose(inputs, [0, *range(2, rank), 1])
        shape = inputs.shape
        features = shape[1:].num_elements() if rank is not None else None
        batch = shape[0].value if rank else None
        if features:
            result = arrays.reshape(inputs, [-1 if batch is None else batch, features])
        elif batch is not None and batch > 0:
            result = arrays.reshape(inputs, [batch, -1])
        elif features == 0:
            result = arrays.reshape(inputs, [arrays.shape(inputs)[0], 0])
        else:
            result = arrays.reshape(inputs, [arrays.shape(inputs)[0], -1])
        result.set_shape(self.compute_output_shape(shape))
        return result

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """[batch, features]."""
        shape = TensorShape(input_shape)
        if shape.ndims is None:
            return TensorShape([None, None])
        return TensorShape([shape[0], shape[1:].num_elements()])


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
    """A `Dense` layer applied to `inputs`: [..., units].

    Args:
        inputs: [..., features] floating point; features known.
        units: As for `Dense`; so are the others.
        activation: See there.
        use_bias: See there.
        kernel_initializer: See there.
        bias_initializer: See there.
        kernel_regularizer: See there.
        bias_regularizer: See there.
        activity_regularizer: See there.
        kernel_constraint: See there.
        bias_constraint: See there.
        trainable: See there.
        name: See there.
        reuse: Share the variables of the layer of that name.
    """
    tensor = convert_to_tensor(inputs)
    layer = Dense(
        units, activation, use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
        bias_regularizer, activity_regularizer, kernel_constraint, bias_constraint, trainable,
        name, dtype=tensor.dtype.base, _scope=name, _reuse=reuse,
    )  # fmt: skip
    result: Tensor = layer(tensor)
    return result


fully_connected = dense


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Tensor:
    """A `Dropout` layer applied to `inputs`; `training` may be a bool tensor."""
    result: Tensor = Dropout(rate, noise_shape, seed, name)(inputs, training=training)
    return result


def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Tensor:
    """A `Flatten` layer applied to `inputs`."""
    result: Tensor = Flatten(name=name, data_format=data_format)(inputs)
    return result
