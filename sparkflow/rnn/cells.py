"""The cells of TensorFlow 1: basic, GRU, LSTM."""

from __future__ import annotations

import logging
from typing import Any

from sparkflow._api import export
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.layers import named
from sparkflow.layers.input_spec import InputSpec
from sparkflow.ops.elementwise.elementwise import add, multiply, sigmoid, tanh
from sparkflow.ops.linalg import linalg
from sparkflow.ops.nn.activation import bias_add
from sparkflow.ops.reduction import clip
from sparkflow.ops.shape import arrays
from sparkflow.rnn.cell import LayerRNNCell, LSTMStateTuple
from sparkflow.variables.initializers import Constant, Zeros
from sparkflow.variables.partitioners import fixed_size_partitioner

KERNEL, BIAS = "kernel", "bias"
_log = logging.getLogger(__name__)


def _activation(given: Any, default: Any) -> Any:
    return default if given is None else named.activation(given)


def depth_of(shape: Any) -> int:
    """The size of the last dimension of the inputs of a cell.

    Args:
        shape: Of the inputs, as a `TensorShape` or what makes one.

    Raises:
        ValueError: It is unknown.
    """
    size = TensorShape(shape).as_list()[-1]
    if size is None:
        raise ValueError(f"Expected inputs.shape[-1] to be known, saw shape: {shape}")
    return int(size)


@export("nn.rnn_cell.BasicRNNCell")
class BasicRNNCell(LayerRNNCell):
    """output = state = activation([input, state] · kernel + bias).

    Args:
        num_units: The size of the state.
        activation: tanh when None.
        reuse: Whether to use variables that exist in the scope.
        name: Name of the cell and of its variable scope.
        dtype: Dtype of the variables.
        kwargs: As for `Layer`.
    """

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = _activation(activation, tanh)

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units

    def build(self, input_shape: Any) -> None:
        """Creates kernel and bias."""
        rows = depth_of(input_shape) + self._num_units
        self._kernel = self.add_weight(KERNEL, [rows, self._num_units])
        self._bias = self.add_weight(BIAS, [self._num_units], initializer=Zeros())
        self.built = True

    def call(self, inputs: Any, state: Any = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]  # a cell takes its state too
        """Computes one step."""
        joined = linalg.matmul(arrays.concat([inputs, state], 1), self._kernel)
        output = self._activation(bias_add(joined, self._bias))
        return output, output


@export("nn.rnn_cell.GRUCell")
class GRUCell(LayerRNNCell):
    """A gated recurrent unit (Cho et al. 2014, arXiv:1406.1078).

    Args:
        num_units: The size of the state.
        activation: tanh when None.
        reuse: Whether to use variables that exist in the scope.
        kernel_initializer: For both kernels.
        bias_initializer: For both biases; ones for the gates and zeros for the candidate when None.
        name: Name of the cell and of its variable scope.
        dtype: Dtype of the variables.
        kwargs: As for `Layer`.
    """

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: bool | None = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = _activation(activation, tanh)
        self._kernel_initializer = named.initializer(kernel_initializer)
        self._bias_initializer = named.initializer(bias_initializer)

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units

    def build(self, input_shape: Any) -> None:
        """Creates the kernels and biases of gates and candidate."""
        units, rows = self._num_units, depth_of(input_shape) + self._num_units
        given = self._bias_initializer
        kernel = self._kernel_initializer
        self._gate_kernel = self.add_weight(
            f"gates/{KERNEL}", [rows, 2 * units], initializer=kernel
        )
        self._gate_bias = self.add_weight(
            f"gates/{BIAS}", [2 * units], initializer=Constant(1.0) if given is None else given
        )
        self._candidate_kernel = self.add_weight(
            f"candidate/{KERNEL}", [rows, units], initializer=kernel
        )
        self._candidate_bias = self.add_weight(
            f"candidate/{BIAS}", [units], initializer=Zeros() if given is None else given
        )
        self.built = True

    def call(self, inputs: Any, state: Any = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]  # a cell takes its state too
        """Computes one step."""
        gates = linalg.matmul(arrays.concat([inputs, state], 1), self._gate_kernel)
        reset, update = arrays.split(sigmoid(bias_add(gates, self._gate_bias)), 2, 1)
        candidate = linalg.matmul(arrays.concat([inputs, reset * state], 1), self._candidate_kernel)
        fresh = self._activation(bias_add(candidate, self._candidate_bias))
        new = update * state + (1 - update) * fresh
        return new, new


@export("nn.rnn_cell.BasicLSTMCell")
class BasicLSTMCell(LayerRNNCell):
    """An LSTM without peepholes, clipping and projection (Zaremba et al. 2014, arXiv:1409.2329).

    Args:
        num_units: The sizes of c and h.
        forget_bias: Added to the forget gate, so that it starts open.
        state_is_tuple: Whether the state is an `LSTMStateTuple`, or one tensor [batch, 2 units].
        activation: tanh when None.
        reuse: Whether to use variables that exist in the scope.
        name: Name of the cell and of its variable scope.
        dtype: Dtype of the variables.
        kwargs: As for `Layer`.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        _warn_of_joined_state(self, state_is_tuple)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = _activation(activation, tanh)

    @property
    def state_size(self) -> Any:
        """The sizes of c and h."""
        units = self._num_units
        return LSTMStateTuple(units, units) if self._state_is_tuple else 2 * units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units

    def build(self, input_shape: Any) -> None:
        """Creates kernel and bias of all four gates."""
        units = self._num_units
        self._kernel = self.add_weight(KERNEL, [depth_of(input_shape) + units, 4 * units])
        self._bias = self.add_weight(BIAS, [4 * units], initializer=Zeros())
        self.built = True

    def call(self, inputs: Any, state: Any = None) -> tuple[Tensor, Any]:  # type: ignore[override]  # a cell takes its state too
        """Computes one step."""
        c, h = state if self._state_is_tuple else arrays.split(state, 2, 1)
        gates = bias_add(linalg.matmul(arrays.concat([inputs, h], 1), self._kernel), self._bias)
        i, j, f, o = arrays.split(gates, 4, 1)
        # Functions, not operators: frozen graphs are asked for their nodes' names, `Mul_2` say.
        kept = multiply(c, sigmoid(add(f, self._forget_bias)))
        new_c = add(kept, multiply(sigmoid(i), self._activation(j)))
        new_h = multiply(self._activation(new_c), sigmoid(o))
        if self._state_is_tuple:
            return new_h, LSTMStateTuple(new_c, new_h)
        return new_h, arrays.concat([new_c, new_h], 1)


def _warn_of_joined_state(cell: Any, state_is_tuple: bool) -> None:
    if not state_is_tuple:
        _log.warning(
            "%s: Using a concatenated state is slower and will soon be deprecated. Use "
            "state_is_tuple=True.",
            cell,
        )


@export("nn.rnn_cell.LSTMCell")
class LSTMCell(LayerRNNCell):
    """An LSTM with optional peepholes, clipping and projection (Sak et al. 2014, arXiv:1402.1128).

    Args:
        num_units: The size of c.
        use_peepholes: Let the gates see c.
        cell_clip: Bound of the absolute values of c.
        initializer: For kernel, projection and peepholes.
        num_proj: The size of h after a projection; none when None.
        proj_clip: Bound of the absolute values of the projection.
        num_unit_shards: In how many variables the kernel is kept.
        num_proj_shards: In how many variables the projection is kept.
        forget_bias: Added to the forget gate.
        state_is_tuple: Whether the state is an `LSTMStateTuple`, or one tensor.
        activation: tanh when None.
        reuse: Whether to use variables that exist in the scope.
        name: Name of the cell and of its variable scope.
        dtype: Dtype of the variables.
        kwargs: As for `Layer`.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        _warn_of_joined_state(self, state_is_tuple)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = named.initializer(initializer)
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._num_unit_shards = num_unit_shards
        self._num_proj_shards = num_proj_shards
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = _activation(activation, tanh)

    @property
    def state_size(self) -> Any:
        """The sizes of c and h."""
        if self._state_is_tuple:
            return LSTMStateTuple(self._num_units, self.output_size)
        return self._num_units + self.output_size

    @property
    def output_size(self) -> int:
        """The size of h."""
        return self._num_proj or self._num_units

    def build(self, input_shape: Any) -> None:
        """Creates kernel, bias, peepholes and projection."""
        units, rows = self._num_units, depth_of(input_shape) + self.output_size
        self._kernel = self.add_weight(
            KERNEL,
            [rows, 4 * units],
            initializer=self._initializer,
            partitioner=_sharded(self._num_unit_shards),
        )
        self._bias = self.add_weight(BIAS, [4 * units], initializer=Zeros())
        if self._use_peepholes:
            self._w_f_diag, self._w_i_diag, self._w_o_diag = (
                self.add_weight(name, [units], initializer=self._initializer)
                for name in ("w_f_diag", "w_i_diag", "w_o_diag")
            )
        if self._num_proj is not None:
            self._proj_kernel = self.add_weight(
                f"projection/{KERNEL}",
                [units, self._num_proj],
                initializer=self._initializer,
                partitioner=_sharded(self._num_proj_shards),
            )
        self.built = True

    def call(self, inputs: Any, state: Any = None) -> tuple[Tensor, Any]:  # type: ignore[override]  # a cell takes its state too
        """Computes one step."""
        if self._state_is_tuple:
            c, h = state
        else:
            c, h = arrays.split(state, [self._num_units, self.output_size], 1)
        gates = bias_add(linalg.matmul(arrays.concat([inputs, h], 1), self._kernel), self._bias)
        i, j, f, o = arrays.split(gates, 4, 1)
        if self._use_peepholes:
            kept = sigmoid(f + self._forget_bias + self._w_f_diag * c) * c
            new_c = kept + sigmoid(i + self._w_i_diag * c) * self._activation(j)
        else:
            new_c = sigmoid(f + self._forget_bias) * c + sigmoid(i) * self._activation(j)
        if self._cell_clip is not None:
            new_c = clip.clip_by_value(new_c, -self._cell_clip, self._cell_clip)
        opened = sigmoid(o + self._w_o_diag * new_c) if self._use_peepholes else sigmoid(o)
        new_h = opened * self._activation(new_c)
        if self._num_proj is not None:
            new_h = linalg.matmul(new_h, self._proj_kernel)
            if self._proj_clip is not None:
                new_h = clip.clip_by_value(new_h, -self._proj_clip, self._proj_clip)
        if self._state_is_tuple:
            return new_h, LSTMStateTuple(new_c, new_h)
        return new_h, arrays.concat([new_c, new_h], 1)


def _sharded(shards: int | None) -> Any:
    return None if shards is None else fixed_size_partitioner(shards)
