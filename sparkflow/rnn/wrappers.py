"""Cells made of cells: stacks, dropout, residual connections, devices, projections."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import tree

from sparkflow._api import export
from sparkflow.embedding.lookup import embedding_lookup
from sparkflow.graph.scopes import device, get_default_graph
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.layers.core import Dense
from sparkflow.ops.elementwise.elementwise import floor
from sparkflow.ops.nn.activation import dropout
from sparkflow.ops.random.random import random_uniform
from sparkflow.ops.shape import arrays
from sparkflow.rnn.cell import LSTMStateTuple, RNNCell
from sparkflow.variables.initializers import RandomUniform
from sparkflow.variables.variable_scope import get_variable, variable_scope


@export("nn.rnn_cell.MultiRNNCell")
class MultiRNNCell(RNNCell):
    """Cells one above the other: each gets the output of the one below.

    Args:
        cells: From the lowest to the highest.
        state_is_tuple: Whether the state is a tuple with one state per cell, or one tensor.

    Raises:
        ValueError: There are no cells, or states that are tuples in one tensor.
        TypeError: `cells` is not a list.
    """

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not isinstance(cells, list | tuple):
            raise TypeError(f"cells must be a list or tuple, but saw: {cells}.")
        self._cells = list(cells)
        self._state_is_tuple = state_is_tuple
        if not state_is_tuple and any(tree.is_nested(cell.state_size) for cell in cells):
            raise ValueError(
                "Some cells return tuples of states, but the flag state_is_tuple is not set.  "
                f"State sizes are: {[cell.state_size for cell in cells]}"
            )

    @property
    def state_size(self) -> Any:
        """The states' sizes."""
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """That of the highest cell."""
        return self._cells[-1].output_size

    @property
    def trainable_weights(self) -> list[Any]:
        """The cells' variables that optimizers change."""
        return [v for cell in self._cells for v in cell.trainable_weights]

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The cells' other variables."""
        return [v for cell in self._cells for v in cell.non_trainable_weights]

    trainable_variables = trainable_weights
    non_trainable_variables = non_trainable_weights

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """A state of zeros, made by each cell for itself."""
        with get_default_graph().name_scope(f"{type(self).__name__}ZeroState"):
            if self._state_is_tuple:
                return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)
            return super().zero_state(batch_size, dtype)

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]  # a cell takes its state too
        """Computes one step of every cell.

        Raises:
            ValueError: The state is not one per cell.
        """
        if self._state_is_tuple and not (tree.is_nested(state) and len(state) == len(self._cells)):
            raise ValueError(
                f"Expected state to be a tuple of length {len(self._cells)}, but received: {state}"
            )
        position, new_states = 0, []
        for index, cell in enumerate(self._cells):
            with variable_scope(f"cell_{index}"):
                if self._state_is_tuple:
                    mine = state[index]
                else:
                    mine = arrays.slice(state, [0, position], [-1, cell.state_size])
                    position += cell.state_size
                inputs, new = cell(inputs, mine)
                new_states.append(new)
        return inputs, tuple(new_states) if self._state_is_tuple else arrays.concat(new_states, 1)


class _Wrapper(RNNCell):
    """A cell that stands for another one."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self._cell = cell

    @property
    def wrapped_cell(self) -> Any:
        """The cell inside."""
        return self._cell

    @property
    def state_size(self) -> Any:
        """That of the cell inside."""
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        """That of the cell inside."""
        return self._cell.output_size

    @property
    def trainable_weights(self) -> list[Any]:
        """Those of the cell inside, and the wrapper's own."""
        return [*self._cell.trainable_weights, *self._trainable_weights]

    @property
    def non_trainable_weights(self) -> list[Any]:
        """Those of the cell inside."""
        found: list[Any] = self._cell.non_trainable_weights
        return found

    trainable_variables = trainable_weights
    non_trainable_variables = non_trainable_weights

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """That of the cell inside."""
        with get_default_graph().name_scope(f"{type(self).__name__}ZeroState"):
            return self._cell.zero_state(batch_size, dtype)


@export("nn.rnn_cell.DropoutWrapper")
class DropoutWrapper(_Wrapper):
    """A cell with dropout of its inputs, states and outputs (Gal & Ghahramani, arXiv:1512.05287).

    Args:
        cell: The cell inside.
        input_keep_prob: The share of inputs that is kept: a number or a scalar tensor.
        output_keep_prob: The same for outputs.
        state_keep_prob: The same for the states that go on; the c of LSTMs is always kept.
        variational_recurrent: Drop the same units in every step.
        input_size: The sizes of the inputs, for `variational_recurrent`.
        dtype: The dtype of inputs and states, for `variational_recurrent`.
        seed: Seed of the random numbers.
        dropout_state_filter_visitor: From a part of the state to whether to drop of it.

    Raises:
        TypeError: `cell` is not a cell.
        ValueError: A share is not in [0, 1], or what `variational_recurrent` needs is missing.
    """

    def __init__(
        self,
        cell: Any,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(cell)
        if not hasattr(cell, "state_size"):
            raise TypeError(f"The parameter cell is not a RNNCell: {cell!r}")
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError("dropout_state_filter_visitor must be callable")
        for prob, what in (
            (input_keep_prob, "input_keep_prob"),
            (state_keep_prob, "state_keep_prob"),
            (output_keep_prob, "output_keep_prob"),
        ):
            if isinstance(prob, int | float) and not 0.0 <= prob <= 1.0:
                raise ValueError(f"Parameter {what} must be between 0 and 1: {prob}")
        self._visitor = dropout_state_filter_visitor or _all_but_memory
        self._input_keep_prob = input_keep_prob
        self._output_keep_prob = output_keep_prob
        self._state_keep_prob = state_keep_prob
        self._seed = seed
        self._noise: dict[str, Any] | None = None
        if variational_recurrent:
            if dtype is None:
                raise ValueError("When variational_recurrent=True, dtype must be provided")
            self._noise = self._fixed_noise(input_size, dtype)

    def _fixed_noise(self, input_size: Any, dtype: Any) -> dict[str, Any]:
        noise = {
            "state": self._noise_like(self._cell.state_size, "state", dtype),
            "output": self._noise_like(self._cell.output_size, "output", dtype),
        }
        if not isinstance(self._input_keep_prob, float) or self._input_keep_prob < 1.0:
            if input_size is None:
                raise ValueError(
                    "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, "
                    "input_size must be provided"
                )
            noise["input"] = self._noise_like(input_size, "input", dtype)
        return noise

    def _noise_like(self, sizes: Any, salt: str, dtype: Any) -> list[Tensor]:
        made = []
        for index, size in enumerate(tree.flatten(sizes)):
            shape = [1, *TensorShape(size if isinstance(size, TensorShape) else [size]).as_list()]
            seed = self._seed_of(f"{salt}{index}")
            made.append(random_uniform(shape, seed=seed, dtype=dtype))
        return made

    def _seed_of(self, salt: str) -> int | None:
        if self._seed is None:
            return None
        text = f"{self._seed}{salt}".encode()
        # A seed per use: no secret, the digest only spreads.
        return int(hashlib.md5(text, usedforsecurity=False).hexdigest()[:8], 16) & 0x7FFFFFFF

    def _dropped(self, values: Any, salt: str, keep: Any, mask: Any = None) -> Any:
        if isinstance(keep, float | int) and keep >= 1.0:
            return values
        found = []
        flags = [True] * len(tree.flatten(values)) if mask is None else mask
        for index, (value, wanted) in enumerate(zip(tree.flatten(values), flags, strict=True)):
            if not wanted:
                found.append(value)
            elif self._noise is None:
                found.append(dropout(value, keep_prob=keep, seed=self._seed_of(f"{salt}{index}")))
            else:
                kept = floor(keep + self._noise[salt][index])
                scaled = value / keep * kept
                scaled.set_shape(value.shape)
                found.append(scaled)
        return tree.unflatten_as(values, found)

    def __call__(
        self, inputs: Any, state: Any, scope: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """One step of the cell inside, with dropout."""
        inputs = self._dropped(inputs, "input", self._input_keep_prob)
        output, new_state = self._cell(inputs, state, scope=scope)
        if not (isinstance(self._state_keep_prob, float) and self._state_keep_prob >= 1.0):
            mask = _flags(self._visitor, new_state)
            new_state = self._dropped(new_state, "state", self._state_keep_prob, mask)
        return self._dropped(output, "output", self._output_keep_prob), new_state


def _all_but_memory(part: Any) -> Any:
    """Which parts of a state lose units: all but the c of LSTMs and whole arrays of tensors."""
    if isinstance(part, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return True


def _flags(visitor: Callable[[Any], Any], state: Any) -> list[bool]:
    """A flag per tensor of the state."""
    answer = visitor(state)
    if tree.is_nested(answer):
        return [bool(each) for each in tree.flatten(answer)]
    if not tree.is_nested(state):
        return [bool(answer)]
    if not answer:
        return [False] * len(tree.flatten(state))
    parts = [state[key] for key in sorted(state)] if isinstance(state, dict) else list(state)
    return [flag for part in parts for flag in _flags(visitor, part)]


@export("nn.rnn_cell.ResidualWrapper")
class ResidualWrapper(_Wrapper):
    """A cell whose inputs are added to its outputs (Wu et al. 2016, arXiv:1609.08144).

    Args:
        cell: The cell inside.
        residual_fn: From inputs and outputs to the result; their sum when None.
    """

    def __init__(self, cell: Any, residual_fn: Callable[[Any, Any], Any] | None = None) -> None:
        super().__init__(cell)
        self._residual_fn = residual_fn

    def __call__(
        self, inputs: Any, state: Any, scope: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """One step of the cell inside, and the sum.

        Raises:
            ValueError: Inputs and outputs have different shapes.
        """
        outputs, new_state = self._cell(inputs, state, scope=scope)
        if self._residual_fn is not None:
            return self._residual_fn(inputs, outputs), new_state
        tree.map_structure(lambda i, o: i.shape.assert_is_compatible_with(o.shape), inputs, outputs)
        return tree.map_structure(lambda i, o: i + o, inputs, outputs), new_state


@export("nn.rnn_cell.DeviceWrapper")
class DeviceWrapper(_Wrapper):
    """A cell pinned to a device.

    Args:
        cell: The cell inside.
        device: As for `tf.device`.
    """

    def __init__(self, cell: Any, device: Any) -> None:
        super().__init__(cell)
        self._device = device

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """That of the cell inside, made there."""
        with device(self._device):
            return super().zero_state(batch_size, dtype)

    def __call__(
        self, inputs: Any, state: Any, scope: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """One step of the cell inside, there."""
        with device(self._device):
            return self._cell(inputs, state, scope=scope)


class InputProjectionWrapper(_Wrapper):
    """A cell whose inputs are projected first.

    Args:
        cell: The cell inside.
        num_proj: The size of the projection.
        activation: A function of the projection, None for none.
        input_size: Not used.
        reuse: Whether to use variables that exist.
    """

    def __init__(
        self,
        cell: Any,
        num_proj: int,
        activation: Any = None,
        input_size: Any = None,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(cell)
        self._projection = Dense(num_proj, activation, name="projection", _reuse=reuse)

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]  # a cell takes its state too
        """The projection and one step."""
        found: tuple[Any, Any] = self._cell(self._projection(inputs), state)
        return found


class OutputProjectionWrapper(_Wrapper):
    """A cell whose outputs are projected.

    Args:
        cell: The cell inside.
        output_size: The size of the projection.
        activation: A function of the projection, None for none.
        reuse: Whether to use variables that exist.
    """

    def __init__(
        self, cell: Any, output_size: int, activation: Any = None, reuse: bool | None = None
    ) -> None:
        super().__init__(cell)
        self._size = output_size
        self._projection = Dense(output_size, activation, name="projection", _reuse=reuse)

    @property
    def output_size(self) -> int:
        """The size of the projection."""
        return self._size

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]  # a cell takes its state too
        """Computes one step and the projection."""
        output, new_state = self._cell(inputs, state)
        return self._projection(output), new_state


class EmbeddingWrapper(_Wrapper):
    """A cell whose inputs are ids, looked up in a table of its own.

    Args:
        cell: The cell inside.
        embedding_classes: The number of ids.
        embedding_size: The size of a row.
        initializer: Of the table; uniform in ±√3 when None.
        reuse: Whether to use variables that exist.
    """

    def __init__(
        self,
        cell: Any,
        embedding_classes: int,
        embedding_size: int,
        initializer: Any = None,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(cell)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(
                "Both embedding_classes and embedding_size must be > 0: "
                f"{embedding_classes}, {embedding_size}."
            )
        self._shape = [embedding_classes, embedding_size]
        self._initializer = initializer

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]  # a cell takes its state too
        """The rows of the ids and one step."""
        initializer = self._initializer or RandomUniform(-(3**0.5), 3**0.5)
        table = get_variable("embedding", self._shape, initializer=initializer)
        rows = embedding_lookup(table, arrays.reshape(inputs, [-1]))
        found: tuple[Any, Any] = self._cell(rows, state)
        return found
