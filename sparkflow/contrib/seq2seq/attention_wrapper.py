"""A cell with attention to a memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import sparkflow as tf
from sparkflow.layers.core import Dense
from sparkflow.rnn.cell import RNNCell


class AttentionWrapperState(NamedTuple):
    """The state of an `AttentionWrapper`.

    Attributes:
        cell_state: That of the cell inside.
        attention: What was read last [batch, size].
        time: The number of steps, a scalar.
        alignments: The last weights, a tuple of them for several mechanisms.
        alignment_history: All weights, as TensorArrays.
        attention_state: The states of the mechanisms.
    """

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **kwargs: Any) -> AttentionWrapperState:
        """A copy with other fields, such as `cell_state`."""
        return self._replace(**kwargs)


def _attend(
    mechanism: Any, cell_output: Any, attention_state: Any, attention_layer: Any
) -> tuple[Any, Any, Any]:
    alignments, next_state = mechanism(cell_output, state=attention_state)
    context = tf.matmul(tf.expand_dims(alignments, 1), mechanism.values)
    context = tf.squeeze(context, [1])
    if attention_layer is None:
        return context, alignments, next_state
    return attention_layer(tf.concat([cell_output, context], 1)), alignments, next_state


class AttentionWrapper(RNNCell):
    """A cell that sees what it read last beside its input, and reads from a memory after each step.

    Args:
        cell: The cell inside.
        attention_mechanism: A mechanism, or a list of them.
        attention_layer_size: The size of a layer over output and what was read (one per mechanism
            for a list); None for none.
        alignment_history: Keep the weights of all steps.
        cell_input_fn: From input and what was read to the cell's input; both joined when None.
        output_attention: Output what was read, instead of the cell's output.
        initial_cell_state: The first state of the cell inside.
        name: The variable scope.
        attention_layer: Layers, instead of `attention_layer_size`.
        attention_fn: Replaces the computation of what is read.

    Raises:
        ValueError: Both size and layer are given, or not as many as there are mechanisms.
    """

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[[Any, Any], Any] | None = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
        attention_fn: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(name=name)
        self._several = isinstance(attention_mechanism, list | tuple)
        self._mechanisms = tuple(attention_mechanism) if self._several else (attention_mechanism,)
        if attention_layer_size is not None and attention_layer is not None:
            raise ValueError("Only one of attention_layer_size and attention_layer should be set")
        self._layers = self._attention_layers(attention_layer_size, attention_layer)
        self._attention_size = self._size_of_attention()
        self._cell = cell
        self._history = alignment_history
        self._cell_input = cell_input_fn or (lambda x, read: tf.concat([x, read], -1))
        self._output_attention = output_attention
        self._initial_cell_state = initial_cell_state
        self._attend = attention_fn or _attend

    def _attention_layers(self, sizes: Any, layers: Any) -> tuple[Any, ...] | None:
        if sizes is None and layers is None:
            return None
        given = layers if sizes is None else sizes
        chosen = tuple(given) if isinstance(given, list | tuple) else (given,)
        if len(chosen) != len(self._mechanisms):
            raise ValueError(
                f"If provided, attention_layer_size or attention_layer must contain exactly one "
                f"per attention_mechanism, saw: {len(chosen)} vs {len(self._mechanisms)}"
            )
        if sizes is None:
            return chosen
        return tuple(
            Dense(size, name="attention_layer", use_bias=False, dtype=mechanism.dtype)
            for size, mechanism in zip(chosen, self._mechanisms, strict=True)
        )

    def _size_of_attention(self) -> int:
        if self._layers is None:
            return sum(each.values.shape.as_list()[-1] for each in self._mechanisms)
        return sum(each.units for each in self._layers)

    @property
    def output_size(self) -> Any:
        """The size of what was read, or of the cell's output."""
        return self._attention_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> Any:
        """The sizes of the state, an `AttentionWrapperState`."""
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            attention=self._attention_size,
            time=tf.TensorShape([]),
            alignments=self._one_or_all([each.alignments_size for each in self._mechanisms]),
            alignment_history=self._one_or_all([() for _ in self._mechanisms]),
            attention_state=self._one_or_all([each.state_size for each in self._mechanisms]),
        )

    def _one_or_all(self, values: Any) -> Any:
        return tuple(values) if self._several else next(iter(values))

    def _all(self, values: Any) -> Any:
        return values if self._several else (values,)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The first state."""
        with tf.name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            cell_state = self._initial_cell_state
            if cell_state is None:
                cell_state = self._cell.zero_state(batch_size, dtype)
            alignments = [each.initial_alignments(batch_size, dtype) for each in self._mechanisms]
            history = [
                tf.TensorArray(dtype, size=0, dynamic_size=True, element_shape=each.shape)
                if self._history
                else ()
                for each in alignments
            ]
            read = tf.zeros([batch_size, self._attention_size], dtype)
            states = [each.initial_state(batch_size, dtype) for each in self._mechanisms]
            return AttentionWrapperState(
                cell_state=cell_state,
                attention=read,
                time=tf.zeros([], dtype=tf.int32),
                alignments=self._one_or_all(alignments),
                alignment_history=self._one_or_all(history),
                attention_state=self._one_or_all(states),
            )

    def call(self, inputs: Any, state: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """Computes one step.

        Raises:
            TypeError: The state is no `AttentionWrapperState`.
        """
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(
                "Expected state to be instance of AttentionWrapperState. Received type "
                f"{type(state)} instead."
            )
        output, cell_state = self._cell(self._cell_input(inputs, state.attention), state.cell_state)
        reads, weights, states, histories = [], [], [], []
        previous_states = self._all(state.attention_state)
        previous_history = self._all(state.alignment_history)
        for index, mechanism in enumerate(self._mechanisms):
            layer = self._layers[index] if self._layers else None
            read, alignments, following = self._attend(
                mechanism, output, previous_states[index], layer
            )
            reads.append(read)
            weights.append(alignments)
            states.append(following)
            kept = previous_history[index]
            histories.append(kept.write(state.time, alignments) if self._history else ())
        attention = tf.concat(reads, 1)
        next_state = AttentionWrapperState(
            cell_state=cell_state,
            attention=attention,
            time=state.time + 1,
            alignments=self._one_or_all(weights),
            alignment_history=self._one_or_all(histories),
            attention_state=self._one_or_all(states),
        )
        return attention if self._output_attention else output, next_state
