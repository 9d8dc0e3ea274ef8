"""A cell that attends to its own last outputs."""

from __future__ import annotations

from typing import Any

import tree

import sparkflow as tf
from sparkflow.contrib.rnn.linear import linear
from sparkflow.rnn.cell import RNNCell


class AttentionCellWrapper(RNNCell):
    """A cell with attention to its last `attn_length` outputs (Bahdanau et al. 2014).

    Args:
        cell: The cell inside.
        attn_length: The number of outputs it attends to.
        attn_size: The size of an output; that of the cell when None.
        attn_vec_size: The size of the features; `attn_size` when None.
        input_size: The size the inputs are projected to; that of the inputs when None.
        state_is_tuple: Whether the state is a tuple, or one tensor.
        reuse: Whether to use variables that exist in the scope.

    Raises:
        ValueError: `attn_length` is not positive, or the states do not fit together.
    """

    def __init__(
        self,
        cell: Any,
        attn_length: int,
        attn_size: int | None = None,
        attn_vec_size: int | None = None,
        input_size: int | None = None,
        state_is_tuple: bool = True,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        if tree.is_nested(cell.state_size) and not state_is_tuple:
            raise ValueError(
                "Cell returns tuple of states, but the flag state_is_tuple is not set. State size "
                f"is: {cell.state_size}"
            )
        if attn_length <= 0:
            raise ValueError(f"attn_length should be greater than zero, got {attn_length}")
        self._cell = cell
        self._length = attn_length
        self._size = attn_size or cell.output_size
        self._vec_size = attn_vec_size or self._size
        self._input_size = input_size
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self) -> Any:
        """The sizes of the cell's state, of the attention and of the outputs kept."""
        size = (self._cell.state_size, self._size, self._size * self._length)
        return size if self._state_is_tuple else sum(size)

    @property
    def output_size(self) -> int:
        """The size of an output."""
        return self._size

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """Computes one step."""
        if self._state_is_tuple:
            cell_state, attns, kept = state
        else:
            cell_state, attns, kept = tf.split(
                state, [self._cell.state_size, self._size, self._size * self._length], 1
            )
        kept = tf.reshape(kept, [-1, self._length, self._size])
        size = self._input_size or inputs.shape.as_list()[1]
        output, new_state = self._cell(linear([inputs, attns], size, True), cell_state)
        query = tf.concat(tree.flatten(new_state), 1) if self._state_is_tuple else new_state
        new_attns, rest = self._attention(query, kept)
        with tf.variable_scope("attn_output_projection"):
            output = linear([output, new_attns], self._size, True)
        kept = tf.concat([rest, tf.expand_dims(output, 1)], 1)
        kept = tf.reshape(kept, [-1, self._length * self._size])
        whole = (new_state, new_attns, kept)
        return output, whole if self._state_is_tuple else tf.concat(list(whole), 1)

    def _attention(self, query: Any, states: Any) -> tuple[Any, Any]:
        with tf.variable_scope("attention"):
            k = tf.get_variable("attn_w", [1, 1, self._size, self._vec_size])
            v = tf.get_variable("attn_v", [self._vec_size])
            hidden = tf.reshape(states, [-1, self._length, 1, self._size])
            features = tf.nn.conv2d(hidden, k, [1, 1, 1, 1], "SAME")
            y = tf.reshape(linear(query, self._vec_size, True), [-1, 1, 1, self._vec_size])
            scores = tf.reduce_sum(v * tf.tanh(features + y), [2, 3])
            weights = tf.reshape(tf.nn.softmax(scores), [-1, self._length, 1, 1])
            read = tf.reshape(tf.reduce_sum(weights * hidden, [1, 2]), [-1, self._size])
            return read, states[:, 1:, :]
