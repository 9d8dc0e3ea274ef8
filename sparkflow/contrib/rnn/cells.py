"""More cells: update gates, intersections, found by search, highways, without recurrence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sparkflow as tf
from sparkflow.contrib.rnn.linear import linear
from sparkflow.rnn.cell import LSTMStateTuple, RNNCell
from sparkflow.rnn.cells import depth_of

Function = Callable[[Any], Any]


class UGRNNCell(RNNCell):
    """A recurrent network with one gate (Collins et al. 2016, arXiv:1611.09913).

    Args:
        num_units: The size of the state.
        initializer: Of the kernel.
        forget_bias: Added to the gate, so that it starts open.
        activation: Of the candidate.
        reuse: Whether to use variables that exist in the scope.
    """

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        forget_bias: float = 1.0,
        activation: Function = tf.tanh,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._units = num_units
        self._initializer = initializer
        self._forget_bias = forget_bias
        self._activation = activation

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._units

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """Computes one step."""
        both = linear([inputs, state], 2 * self._units, True, None, self._initializer)
        gate, candidate = tf.split(both, 2, axis=1)
        gate = tf.sigmoid(gate + self._forget_bias)
        new_state = gate * state + (1.0 - gate) * self._activation(candidate)
        return new_state, new_state


class IntersectionRNNCell(RNNCell):
    """Gates in depth and in time (Collins et al. 2016, arXiv:1611.09913).

    Args:
        num_units: The size of state and output.
        num_in_proj: Project inputs of another size to this one, which must be `num_units`.
        initializer: Of the kernels.
        forget_bias: Added to the gates.
        y_activation: Of the candidate for the output.
        reuse: Whether to use variables that exist in the scope.
    """

    def __init__(
        self,
        num_units: int,
        num_in_proj: int | None = None,
        initializer: Any = None,
        forget_bias: float = 1.0,
        y_activation: Function = tf.nn.relu,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._units = num_units
        self._projected = num_in_proj
        self._initializer = initializer
        self._forget_bias = forget_bias
        self._y_activation = y_activation

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._units

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """Computes one step.

        Raises:
            ValueError: The inputs have another size, and there is no projection.
        """
        units = self._units
        if inputs.shape.dims[1].value != units:
            if not self._projected:
                raise ValueError(
                    "Must have input size == output size for Intersection RNN. To fix, num_in_proj "
                    "should be set to num_units at cell init."
                )
            with tf.variable_scope("in_projection"):
                inputs = linear(inputs, self._projected, True, None, self._initializer)
        gates = linear([inputs, state], 4 * units, True, None, self._initializer)
        gate_h, h, gate_y, y = tf.split(gates, 4, axis=1)
        gate_h = tf.sigmoid(gate_h + self._forget_bias)
        gate_y = tf.sigmoid(gate_y + self._forget_bias)
        new_state = gate_h * state + (1.0 - gate_h) * tf.tanh(h)
        return gate_y * inputs + (1.0 - gate_y) * self._y_activation(y), new_state


class NASCell(RNNCell):
    """The cell found by architecture search (Zoph and Le 2016, arXiv:1611.01578).

    Args:
        num_units: The size of c.
        num_proj: The size of the output after a projection; none when None.
        use_bias: Add biases.
        reuse: Whether to use variables that exist in the scope.
        kwargs: As for `RNNCell`.
    """

    def __init__(
        self,
        num_units: int,
        num_proj: int | None = None,
        use_bias: bool = False,
        reuse: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, **kwargs)
        self._units = num_units
        self._projected = num_proj
        self._use_bias = use_bias

    @property
    def state_size(self) -> Any:
        """The sizes of c and m."""
        return LSTMStateTuple(self._units, self.output_size)

    @property
    def output_size(self) -> int:
        """The size of the output."""
        return self._projected or self._units

    def build(self, input_shape: Any) -> None:
        """Creates the kernels and the bias."""
        width = 8 * self._units
        self._recurrent = self.add_weight("recurrent_kernel", [self.output_size, width])
        self._kernel = self.add_weight("kernel", [depth_of(input_shape), width])
        if self._use_bias:
            self._bias = self.add_weight("bias", [width], initializer=tf.zeros_initializer())
        if self._projected:
            self._projection = self.add_weight("projection_weights", [self._units, self._projected])
        self.built = True

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """Computes one step."""
        c, m = state
        m_matrix = tf.matmul(m, self._recurrent)
        if self._use_bias:
            m_matrix = tf.nn.bias_add(m_matrix, self._bias)
        x = tf.split(tf.matmul(inputs, self._kernel), 8, axis=1)
        h = tf.split(m_matrix, 8, axis=1)
        first = [
            tf.sigmoid(x[0] + h[0]),
            tf.nn.relu(x[1] + h[1]),
            tf.sigmoid(x[2] + h[2]),
            tf.nn.relu(x[3] * h[3]),
            tf.tanh(x[4] + h[4]),
            tf.sigmoid(x[5] + h[5]),
            tf.tanh(x[6] + h[6]),
            tf.sigmoid(x[7] + h[7]),
        ]
        new_c = tf.tanh(tf.tanh(first[0] * first[1]) + c) * tf.tanh(first[2] + first[3])
        other = tf.tanh(tf.tanh(first[4] * first[5]) + tf.sigmoid(first[6] + first[7]))
        new_m = tf.tanh(new_c * other)
        if self._projected:
            new_m = tf.matmul(new_m, self._projection)
        return new_m, LSTMStateTuple(new_c, new_m)


class SRUCell(RNNCell):
    """A simple recurrent unit (Lei et al. 2017, arXiv:1709.02755).

    Args:
        num_units: The size of the state, and of the inputs.
        activation: Of the state; tanh when None.
        reuse: Whether to use variables that exist in the scope.
        name: Name of the cell and of its variable scope.
        kwargs: As for `RNNCell`.
    """

    def __init__(
        self,
        num_units: int,
        activation: Function | None = None,
        reuse: bool | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, **kwargs)
        self._units = num_units
        self._activation = activation or tf.tanh

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._units

    def build(self, input_shape: Any) -> None:
        """Creates kernel and bias."""
        self._kernel = self.add_weight("kernel", [depth_of(input_shape), 4 * self._units])
        self._bias = self.add_weight("bias", [2 * self._units], initializer=tf.zeros_initializer())
        self.built = True

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """Computes one step."""
        x, f, r, highway = tf.split(tf.matmul(inputs, self._kernel), 4, axis=1)
        gates = tf.sigmoid(tf.nn.bias_add(tf.concat([f, r], 1), self._bias))
        f, r = tf.split(gates, 2, axis=1)
        c = f * state + (1.0 - f) * x
        return r * self._activation(c) + (1.0 - r) * highway, c


class IndRNNCell(RNNCell):
    """Independent recurrent units (Li et al. 2018, arXiv:1803.04831).

    Args:
        num_units: The size of the state.
        activation: tanh when None.
        reuse: Whether to use variables that exist in the scope.
        name: Name of the cell and of its variable scope.
        dtype: Dtype of the variables.
    """

    def __init__(
        self,
        num_units: int,
        activation: Function | None = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._units = num_units
        self._activation = activation or tf.tanh

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._units

    def build(self, input_shape: Any) -> None:
        """Creates the kernels and the bias."""
        self._w = self.add_weight("input_kernel", [depth_of(input_shape), self._units])
        self._u = self.add_weight(
            "recurrent_kernel",
            [self._units],
            initializer=tf.random_uniform_initializer(minval=-1.0, maxval=1.0),
        )
        self._bias = self.add_weight("bias", [self._units], initializer=tf.zeros_initializer())
        self.built = True

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """Computes one step."""
        gates = tf.matmul(inputs, self._w) + state * self._u
        output = self._activation(tf.nn.bias_add(gates, self._bias))
        return output, output


class HighwayWrapper(RNNCell):
    """A cell whose output is mixed with its input by gates (Srivastava et al. 2015).

    Args:
        cell: The cell inside.
        couple_carry_transform_gates: Let the transform gate be what the carry gate leaves.
        carry_bias_init: The first bias of the carry gate.
    """

    def __init__(
        self,
        cell: Any,
        couple_carry_transform_gates: bool = True,
        carry_bias_init: float = 1.0,
    ) -> None:
        super().__init__()
        self._cell = cell
        self._coupled = couple_carry_transform_gates
        self._bias = carry_bias_init

    @property
    def state_size(self) -> Any:
        """The sizes of the cell inside."""
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        """The size of the cell inside."""
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The first state of the cell inside."""
        return self._cell.zero_state(batch_size, dtype)

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """One step, and the mixing."""
        outputs, new_state = self._cell(inputs, state)
        inputs.shape.assert_is_compatible_with(outputs.shape)
        carry = self._gate("carry", inputs, self._bias)
        transform = 1 - carry if self._coupled else self._gate("transform", inputs, -self._bias)
        return inputs * carry + outputs * transform, new_state

    def _gate(self, name: str, inputs: Any, bias: float) -> Any:
        size = inputs.shape.as_list()[-1]
        dtype = inputs.dtype.base_dtype
        weights = tf.get_variable(f"{name}_w", [size, size], dtype=dtype)
        biases = tf.get_variable(
            f"{name}_b", [size], dtype=dtype, initializer=tf.constant_initializer(bias)
        )
        return tf.sigmoid(tf.nn.xw_plus_b(inputs, weights, biases))
