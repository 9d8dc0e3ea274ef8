"""`RNNCell`, the base of all cells, and the state of LSTMs."""

from __future__ import annotations

from typing import Any, NamedTuple

import tree

from sparkflow._api import export
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import convert_to_tensor, get_default_graph
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.layers.base import Layer
from sparkflow.ops.shape import arrays
from sparkflow.ops.shape.constants import zeros
from sparkflow.variables.variable_scope import get_variable_scope, variable_scope
from sparkflow_runtime.dtypes import DType, as_dtype


@export("nn.rnn_cell.LSTMStateTuple")
class LSTMStateTuple(NamedTuple):
    """The state of an LSTM cell: c, its memory, and h, its output."""

    c: Any
    h: Any

    @property
    def dtype(self) -> DType:
        """The dtype of both.

        Raises:
            TypeError: They differ.
        """
        if self.c.dtype is not self.h.dtype:
            raise TypeError(f"Inconsistent internal state: {self.c.dtype} vs {self.h.dtype}")
        found: DType = self.c.dtype
        return found


def with_batch(batch: Any, size: Any) -> tuple[Any, TensorShape]:
    """The shape of a state: as a tensor or list to make it, and as far as it is known.

    Args:
        batch: The batch size, an integer or a scalar tensor.
        size: The size without the batch: an integer, or a shape.
    """
    rest = TensorShape(size if isinstance(size, TensorShape | list | tuple) else [size])
    if isinstance(batch, Symbolic):
        batch = convert_to_tensor(batch)
    known = batch if not isinstance(batch, Tensor) else get_static(batch)
    static = TensorShape([known]).concatenate(rest)
    if isinstance(batch, Tensor):
        return arrays.concat([arrays.reshape(batch, [1]), rest.as_list()], 0), static
    return static.as_list(), static


def get_static(batch: Tensor) -> int | None:
    """The batch size where the graph tells it."""
    value = constant_value(batch)
    return None if value is None else int(value)


def zero_states(sizes: Any, batch: Any, dtype: Any) -> Any:
    """Zeros in the structure of `sizes`."""

    def zero(size: Any) -> Tensor:
        shape, static = with_batch(batch, size)
        tensor: Tensor = zeros(shape, dtype)
        tensor.set_shape(static)
        return tensor

    return map_sizes(zero, sizes)


def map_sizes(function: Any, sizes: Any) -> Any:
    """`function` of every size in a structure; a `TensorShape` is one size."""
    return tree.map_structure(function, sizes)


@export("nn.rnn_cell.RNNCell")
class RNNCell(Layer):
    """One step of a recurrent network: from inputs and a state to an output and the next state.

    Subclasses give `state_size` and `output_size` and either `call(inputs, state)` with variables
    made in `build`, or `__call__(inputs, state, scope)` with variables from `get_variable`.
    """

    def __init__(
        self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(trainable=trainable, name=name, dtype=dtype, **kwargs)
        # As in TensorFlow, the cell's name is counted by its variable scope only.
        self._cell_scope: Any = None

    def __call__(
        self, inputs: Any, state: Any, scope: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """One step.

        Args:
            inputs: [batch, input size].
            state: Tensors [batch, size] in the structure of `state_size`.
            scope: The variable scope to use.
            args: Passed to `call`.
            kwargs: Passed to `call`.

        Returns:
            The output [batch, output size] and the next state.
        """
        if scope is not None:
            with variable_scope(scope) as opened:
                return super().__call__(inputs, state, *args, scope=opened, **kwargs)
        if self._cell_scope is None:
            self._cell_scope = get_variable_scope()
        with variable_scope(self._cell_scope, auxiliary_name_scope=False):
            return super().__call__(inputs, state, *args, **kwargs)

    @property
    def state_size(self) -> Any:
        """The sizes of the state: integers or shapes, nested as the state is."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> Any:
        """The size of the output: an integer or a shape."""
        raise NotImplementedError("Abstract method")

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """A state of zeros.

        Args:
            batch_size: An integer or a scalar tensor.
            dtype: The dtype of its tensors.
        """
        graph = get_default_graph()
        with graph.name_scope(f"{type(self).__name__}ZeroState"):
            return zero_states(self.state_size, batch_size, as_dtype(dtype))

    def get_initial_state(
        self, inputs: Any = None, batch_size: Any = None, dtype: Any = None
    ) -> Any:
        """A state of zeros that fits `inputs`, or the given batch size and dtype."""
        if inputs is not None:
            batch_size, dtype = arrays.shape(inputs)[0], inputs.dtype
        return self.zero_state(batch_size, dtype)


class LayerRNNCell(RNNCell):
    """A cell that makes its variables in `build`.

    Its scope is a layer's: a second cell of the same name in the same scope gets a number.
    """

    def __call__(
        self, inputs: Any, state: Any, scope: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """One step, see `RNNCell`."""
        return Layer.__call__(self, inputs, state, *args, scope=scope, **kwargs)
