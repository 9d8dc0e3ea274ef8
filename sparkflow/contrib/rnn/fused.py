"""Cells and networks that TensorFlow computes in one kernel; here they are the same mathematics."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import tree

import sparkflow as tf
from sparkflow.layers.base import Layer
from sparkflow.rnn.cell import LSTMStateTuple, RNNCell
from sparkflow.rnn.cells import GRUCell, depth_of
from sparkflow.rnn.looped import dynamic_rnn
from sparkflow.rnn.unrolled import static_rnn


def _lstm_weights(layer: Layer, input_shape: Any, units: int, peephole: bool) -> tuple[Any, ...]:
    kernel = layer.add_weight("kernel", [depth_of(input_shape) + units, 4 * units])
    bias = layer.add_weight("bias", [4 * units], initializer=tf.zeros_initializer())
    if not peephole:
        return kernel, bias
    names = ("w_i_diag", "w_f_diag", "w_o_diag")
    return kernel, bias, *[layer.add_weight(name, [units]) for name in names]


def _lstm_step(
    weights: Sequence[Any], forget_bias: float, clip: float | None, inputs: Any, state: Any
) -> tuple[Any, Any]:
    """One step of an LSTM with gates i, c, f, o."""
    kernel, bias, *diagonals = weights
    c, h = state
    gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, h], 1), kernel), bias)
    i, j, f, o = tf.split(gates, 4, axis=1)
    if diagonals:
        i, f = i + c * diagonals[0], f + c * diagonals[1]
    new_c = tf.tanh(j) * tf.sigmoid(i) + c * tf.sigmoid(f + forget_bias)
    if clip is not None and clip > 0:
        new_c = tf.clip_by_value(new_c, -clip, clip)
    if diagonals:
        o = o + new_c * diagonals[2]
    new_h = tf.tanh(new_c) * tf.sigmoid(o)
    return new_h, LSTMStateTuple(new_c, new_h)


class LSTMBlockCell(RNNCell):
    """The LSTM of `BasicLSTMCell`, with optional clipping and peepholes.

    Args:
        num_units: The size of c and h.
        forget_bias: Added to the forget gate.
        cell_clip: Bound of the absolute values of c; none when None.
        use_peephole: Let the gates see c.
        dtype: Dtype of the variables.
        reuse: Whether to use variables that exist in the scope.
        name: Name of the cell and of its variable scope.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: bool | None = None,
        name: str = "lstm_cell",
    ) -> None:
        super().__init__(_reuse=reuse, dtype=dtype, name=name)
        self._units = num_units
        self._forget_bias = forget_bias
        self._clip = cell_clip
        self._peephole = use_peephole

    @property
    def state_size(self) -> Any:
        """The sizes of c and h."""
        return LSTMStateTuple(self._units, self._units)

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._units

    def build(self, input_shape: Any) -> None:
        """Creates kernel, bias and peepholes."""
        self._weights = _lstm_weights(self, input_shape, self._units, self._peephole)
        self.built = True

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """Computes one step.

        Raises:
            ValueError: The state is no pair.
        """
        if len(state) != 2:
            raise ValueError("Expecting state to be a tuple with length 2.")
        return _lstm_step(self._weights, self._forget_bias, self._clip, inputs, state)


class GRUBlockCellV2(GRUCell):
    """The mathematics of `GRUCell`.

    Args:
        num_units: The size of the state.
        cell_size: The old name of `num_units`.
        reuse: Whether to use variables that exist in the scope.
        name: Name of the cell and of its variable scope.

    Raises:
        ValueError: Not one of both sizes is given.
    """

    def __init__(
        self,
        num_units: int | None = None,
        cell_size: int | None = None,
        reuse: bool | None = None,
        name: str = "gru_cell",
    ) -> None:
        if (num_units is None) == (cell_size is None):
            raise ValueError("GRUBlockCell requires exactly one of num_units and cell_size")
        super().__init__(num_units or cell_size or 0, reuse=reuse, name=name)


class GRUBlockCell(RNNCell):
    """The mathematics of `GRUCell`, with variables `w_ru`, `b_ru`, `w_c`, `b_c`.

    Args:
        num_units: The size of the state.
        cell_size: The old name of `num_units`.
        reuse: Whether to use variables that exist in the scope.
        name: Name of the cell and of its variable scope.

    Raises:
        ValueError: Not one of both sizes is given.
    """

    def __init__(
        self,
        num_units: int | None = None,
        cell_size: int | None = None,
        reuse: bool | None = None,
        name: str = "gru_cell",
    ) -> None:
        super().__init__(_reuse=reuse, name=name)
        if (num_units is None) == (cell_size is None):
            raise ValueError("GRUBlockCell requires exactly one of num_units and cell_size")
        self._units = num_units or cell_size or 0

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._units

    def build(self, input_shape: Any) -> None:
        """Creates kernels and biases."""
        units = self._units
        rows = depth_of(input_shape) + units
        ones, zeros = tf.constant_initializer(1.0), tf.zeros_initializer()
        self._w_ru = self.add_weight("w_ru", [rows, 2 * units])
        self._b_ru = self.add_weight("b_ru", [2 * units], initializer=ones)
        self._w_c = self.add_weight("w_c", [rows, units])
        self._b_c = self.add_weight("b_c", [units], initializer=zeros)
        self.built = True

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """Computes one step."""
        gates = tf.matmul(tf.concat([inputs, state], 1), self._w_ru)
        r, u = tf.split(tf.sigmoid(tf.nn.bias_add(gates, self._b_ru)), 2, axis=1)
        candidate = tf.matmul(tf.concat([inputs, r * state], 1), self._w_c)
        c = tf.tanh(tf.nn.bias_add(candidate, self._b_c))
        new_state = u * state + (1 - u) * c
        return new_state, new_state


class FusedRNNCell(abc.ABC):
    """A network over all steps at once, from inputs [time, batch, size]."""

    @abc.abstractmethod
    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """The outputs [time, batch, units] and the last state.

        Args:
            inputs: [time, batch, size], or a list of [batch, size].
            initial_state: The first state; zeros of `dtype` when None.
            dtype: The dtype of the first state.
            sequence_length: [batch] integers: from there on outputs are zeros and states stay.
            scope: The variable scope.
        """


class FusedRNNCellAdaptor(FusedRNNCell):
    """A cell as a network over all steps.

    Args:
        cell: The cell.
        use_dynamic_rnn: Run a loop, instead of one copy of the nodes per step.
    """

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        self._cell = cell
        self._dynamic = use_dynamic_rnn

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """See `FusedRNNCell`."""
        listed = isinstance(inputs, list)
        if self._dynamic:
            outputs, state = dynamic_rnn(
                self._cell,
                tf.stack(inputs) if listed else inputs,
                sequence_length=sequence_length,
                initial_state=initial_state,
                dtype=dtype,
                time_major=True,
                scope=scope,
            )
            return tf.unstack(outputs) if listed else outputs, state
        steps, state = static_rnn(
            self._cell,
            inputs if listed else tf.unstack(inputs),
            initial_state=initial_state,
            dtype=dtype,
            sequence_length=sequence_length,
            scope=scope,
        )
        return steps if listed else tf.stack(steps), state


class TimeReversedFusedRNN(FusedRNNCell):
    """A network over the steps from the last to the first.

    Args:
        cell: A `FusedRNNCell`.
    """

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """See `FusedRNNCell`."""

        def turned(tensor: Any) -> Any:
            if sequence_length is None:
                return tf.reverse(tensor, [0])
            return tf.reverse_sequence(tensor, sequence_length, seq_axis=0, batch_axis=1)

        outputs, state = self._cell(
            tree.map_structure(turned, inputs),
            initial_state=initial_state,
            dtype=dtype,
            sequence_length=sequence_length,
            scope=scope,
        )
        return tree.map_structure(turned, outputs), state


class LSTMBlockFusedCell(Layer):
    """`LSTMBlockCell` over all steps of [time, batch, size].

    Args:
        num_units: The size of c and h.
        forget_bias: Added to the forget gate.
        cell_clip: Bound of the absolute values of c; none when None.
        use_peephole: Let the gates see c.
        reuse: Whether to use variables that exist in the scope.
        dtype: Dtype of the variables.
        name: Name of the network and of its variable scope.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: bool | None = None,
        dtype: Any = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._units = num_units
        self._forget_bias = forget_bias
        self._clip = cell_clip
        self._peephole = use_peephole

    @property
    def num_units(self) -> int:
        """The number of units."""
        return self._units

    def build(self, input_shape: Any) -> None:
        """Creates kernel, bias and peepholes."""
        shape = input_shape[0] if isinstance(input_shape, list) else input_shape
        self._weights = _lstm_weights(self, shape, self._units, self._peephole)
        self.built = True

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """See `FusedRNNCell`."""
        found: tuple[Any, Any] = super().__call__(
            inputs,
            scope=scope,
            initial_state=initial_state,
            dtype=dtype,
            sequence_length=sequence_length,
        )
        return found

    def call(self, inputs: Any, **kwargs: Any) -> tuple[Any, Any]:
        """All steps."""
        listed = isinstance(inputs, list)
        dtype = kwargs.get("dtype") or (inputs[0] if listed else inputs).dtype
        return FusedRNNCellAdaptor(_Step(self), use_dynamic_rnn=True)(
            inputs, kwargs.get("initial_state"), dtype, kwargs.get("sequence_length")
        )


class _Step:
    """One step of a network, with the network's variables."""

    def __init__(self, network: LSTMBlockFusedCell) -> None:
        self._network = network
        self.output_size = network._units
        self.state_size = LSTMStateTuple(network._units, network._units)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        zeros = tf.zeros([batch_size, self.output_size], dtype)
        return LSTMStateTuple(zeros, zeros)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        network = self._network
        return _lstm_step(network._weights, network._forget_bias, network._clip, inputs, state)


LSTMBlockWrapper = LSTMBlockFusedCell
