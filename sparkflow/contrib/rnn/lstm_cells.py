"""More LSTMs: normalised, with coupled gates, with convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sparkflow as tf
from sparkflow.contrib.layers.normalization import layer_norm as _layer_norm
from sparkflow.contrib.rnn.linear import linear
from sparkflow.rnn.cell import LSTMStateTuple, RNNCell

Function = Callable[[Any], Any]


def _normalised(values: Any, scope: str, gain: float, shift: float, dtype: Any) -> Any:
    size = values.shape.as_list()[-1:]
    with tf.variable_scope(scope):
        tf.get_variable("gamma", size, dtype, tf.constant_initializer(gain))
        tf.get_variable("beta", size, dtype, tf.constant_initializer(shift))
    return _layer_norm(values, reuse=True, scope=scope)


class LayerNormBasicLSTMCell(RNNCell):
    """An LSTM with normalised gates (Ba et al. 2016) and dropout of what is new.

    Args:
        num_units: The size of c and h.
        forget_bias: Added to the forget gate.
        input_size: Not used.
        activation: Of candidate and state.
        layer_norm: Whether to normalise.
        norm_gain: The first scale of the normalisation.
        norm_shift: The first offset of the normalisation.
        dropout_keep_prob: The share of the candidate that is kept: a number or a tensor.
        dropout_prob_seed: As for `tf.nn.dropout`.
        reuse: Whether to use variables that exist in the scope.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Function = tf.tanh,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._units = num_units
        self._forget_bias = forget_bias
        self._activation = activation
        self._normalise = layer_norm
        self._gain = norm_gain
        self._shift = norm_shift
        self._keep = dropout_keep_prob
        self._seed = dropout_prob_seed

    @property
    def state_size(self) -> Any:
        """The sizes of c and h."""
        return LSTMStateTuple(self._units, self._units)

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._units

    def _norm(self, values: Any, scope: str) -> Any:
        if not self._normalise:
            return values
        return _normalised(values, scope, self._gain, self._shift, values.dtype)

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """Computes one step."""
        c, h = state
        gates = linear([inputs, h], 4 * self._units, not self._normalise)
        i, j, f, o = tf.split(gates, 4, axis=1)
        i, j = self._norm(i, "input"), self._norm(j, "transform")
        f, o = self._norm(f, "forget"), self._norm(o, "output")
        candidate = self._activation(j)
        if not isinstance(self._keep, float) or self._keep < 1:
            candidate = tf.nn.dropout(candidate, self._keep, seed=self._seed)
        new_c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * candidate
        new_c = self._norm(new_c, "state")
        new_h = self._activation(new_c) * tf.sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)


class CoupledInputForgetGateLSTMCell(RNNCell):
    """An LSTM whose input gate is what the forget gate leaves (Greff et al. 2015).

    Args:
        num_units: The size of c.
        use_peepholes: Let the gates see c.
        initializer: Of the kernels.
        num_proj: The size of h after a projection; none when None.
        proj_clip: Bound of the absolute values of the projection.
        num_unit_shards: Not used: the kernel is one variable.
        num_proj_shards: Not used: the projection is one variable.
        forget_bias: Added to the forget gate.
        state_is_tuple: Whether the state is an `LSTMStateTuple`, or one tensor.
        activation: Of candidate and state.
        reuse: Whether to use variables that exist in the scope.
        layer_norm: Whether to normalise the gates.
        norm_gain: The first scale of the normalisation.
        norm_shift: The first offset of the normalisation.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int = 1,
        num_proj_shards: int = 1,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Function = tf.tanh,
        reuse: bool | None = None,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._units = num_units
        self._peepholes = use_peepholes
        self._initializer = initializer
        self._projected = num_proj
        self._proj_clip = proj_clip
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = activation
        self._normalise = layer_norm
        self._gain = norm_gain
        self._shift = norm_shift

    @property
    def state_size(self) -> Any:
        """The sizes of c and h."""
        if self._state_is_tuple:
            return LSTMStateTuple(self._units, self.output_size)
        return self._units + self.output_size

    @property
    def output_size(self) -> int:
        """The size of h."""
        return self._projected or self._units

    def _norm(self, values: Any, scope: str) -> Any:
        if not self._normalise:
            return values
        return _normalised(values, scope, self._gain, self._shift, values.dtype)

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """Computes one step."""
        units = self._units
        c, h = state if self._state_is_tuple else tf.split(state, [units, self.output_size], 1)
        dtype = inputs.dtype
        rows = inputs.shape.as_list()[1] + self.output_size
        kernel = tf.get_variable("W_0", [rows, 3 * units], dtype, self._initializer)
        bias = tf.get_variable("B", [3 * units], dtype, tf.zeros_initializer())
        gates = tf.matmul(tf.concat([inputs, h], 1), kernel)
        if not self._normalise:
            gates = tf.nn.bias_add(gates, bias)
        j, f, o = tf.split(gates, 3, axis=1)
        j, f, o = self._norm(j, "transform"), self._norm(f, "forget"), self._norm(o, "output")
        if self._peepholes:
            f = f + tf.get_variable("W_F_diag", [units], dtype, self._initializer) * c
        kept = tf.sigmoid(f + self._forget_bias)
        new_c = self._norm(kept * c + (1 - kept) * self._activation(j), "state")
        if self._peepholes:
            o = o + tf.get_variable("W_O_diag", [units], dtype, self._initializer) * new_c
        new_h = tf.sigmoid(o) * self._activation(new_c)
        if self._projected is not None:
            shape = [units, self._projected]
            new_h = tf.matmul(new_h, tf.get_variable("W_P_0", shape, dtype, self._initializer))
            if self._proj_clip is not None:
                new_h = tf.clip_by_value(new_h, -self._proj_clip, self._proj_clip)
        if self._state_is_tuple:
            return new_h, LSTMStateTuple(new_c, new_h)
        return new_h, tf.concat([new_c, new_h], 1)


class ConvLSTMCell(RNNCell):
    """An LSTM whose products are convolutions (Shi et al. 2015, arXiv:1506.04214).

    Args:
        conv_ndims: The number of spatial dimensions: 1, 2 or 3.
        input_shape: The shape of the inputs, without the batch.
        output_channels: The number of channels of c and h.
        kernel_shape: The size of the window.
        use_bias: Add a bias.
        skip_connection: Join the inputs to the output.
        forget_bias: Added to the forget gate.
        initializers: Of the kernel.
        name: Name of the cell and of its variable scope.

    Raises:
        ValueError: `input_shape` has another number of dimensions.
    """

    def __init__(
        self,
        conv_ndims: int,
        input_shape: Sequence[int],
        output_channels: int,
        kernel_shape: Sequence[int],
        use_bias: bool = True,
        skip_connection: bool = False,
        forget_bias: float = 1.0,
        initializers: Any = None,
        name: str = "conv_lstm_cell",
    ) -> None:
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(f"Invalid input_shape {input_shape} for conv_ndims={conv_ndims}.")
        self._dims = conv_ndims
        self._shape = list(input_shape)
        self._channels = output_channels
        self._window = list(kernel_shape)
        self._use_bias = use_bias
        self._skip = skip_connection
        self._forget_bias = forget_bias
        self._initializers = initializers

    @property
    def state_size(self) -> Any:
        """The shapes of c and h."""
        size = tf.TensorShape([*self._shape[:-1], self._channels])
        return LSTMStateTuple(size, size)

    @property
    def output_size(self) -> Any:
        """The shape of the output."""
        joined = self._shape[-1] if self._skip else 0
        return tf.TensorShape([*self._shape[:-1], self._channels + joined])

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """Computes one step."""
        c, h = state
        joined = tf.concat([inputs, h], axis=-1)
        width = 4 * self._channels
        shape = [*self._window, joined.shape.as_list()[-1], width]
        kernel = tf.get_variable("kernel", shape, inputs.dtype, self._initializers)
        gates = tf.nn.convolution(joined, kernel, "SAME")
        if self._use_bias:
            gates = gates + tf.get_variable("biases", [width], inputs.dtype, tf.zeros_initializer())
        i, j, f, o = tf.split(gates, 4, axis=-1)
        new_c = tf.sigmoid(f + self._forget_bias) * c + tf.sigmoid(i) * tf.tanh(j)
        output = tf.tanh(new_c) * tf.sigmoid(o)
        new_state = LSTMStateTuple(new_c, output)
        return tf.concat([output, inputs], axis=-1) if self._skip else output, new_state


class Conv1DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` over one dimension."""

    def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` over two dimensions."""

    def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` over three dimensions."""

    def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=3, name=name, **kwargs)
