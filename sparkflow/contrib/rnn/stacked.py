"""Layers of networks that run in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sparkflow as tf
from sparkflow.rnn.looped import bidirectional_dynamic_rnn
from sparkflow.rnn.unrolled import static_bidirectional_rnn


def _check(
    cells_fw: Any, cells_bw: Any, states_fw: Any, states_bw: Any
) -> tuple[Sequence[Any], Sequence[Any]]:
    for name, cells in (("cells_fw", cells_fw), ("cells_bw", cells_bw)):
        if not isinstance(cells, list) or not cells:
            raise ValueError(f"{name} must be a list of cells (one per layer), at least one.")
    if len(cells_fw) != len(cells_bw):
        raise ValueError("Forward and Backward cells must have the same depth.")
    for name, states in (("initial_states_fw", states_fw), ("initial_states_bw", states_bw)):
        if states is not None and (
            not isinstance(states, list | tuple) or len(states) != len(cells_fw)
        ):
            raise ValueError(f"{name} must be a list of state tensors (one per layer).")
    none = [None] * len(cells_fw)
    return states_fw or none, states_bw or none


def stack_bidirectional_rnn(
    cells_fw: Any,
    cells_bw: Any,
    inputs: Sequence[Any],
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    """Layers of `tf.nn.static_bidirectional_rnn`, each over the joined outputs of the one before.

    Args:
        cells_fw: A cell per layer.
        cells_bw: A cell per layer.
        inputs: Per step a tensor [batch, size].
        initial_states_fw: A first state per layer.
        initial_states_bw: A first state per layer.
        dtype: The dtype of the first states.
        sequence_length: [batch] integers.
        scope: The variable scope; `stack_bidirectional_rnn` when None.

    Returns:
        The joined outputs of the last layer per step; the last states per layer, both ways.

    Raises:
        ValueError: Not as many cells or states both ways.
    """
    states_fw, states_bw = _check(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    outputs, last_fw, last_bw = list(inputs), [], []
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for index, (forwards, backwards) in enumerate(zip(cells_fw, cells_bw, strict=True)):
            with tf.variable_scope(f"cell_{index}") as cell_scope:
                outputs, fw, bw = static_bidirectional_rnn(
                    forwards,
                    backwards,
                    outputs,
                    initial_state_fw=states_fw[index],
                    initial_state_bw=states_bw[index],
                    sequence_length=sequence_length,
                    dtype=dtype,
                    scope=cell_scope,
                )
            last_fw.append(fw)
            last_bw.append(bw)
    return outputs, tuple(last_fw), tuple(last_bw)


def stack_bidirectional_dynamic_rnn(
    cells_fw: Any,
    cells_bw: Any,
    inputs: Any,
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Layers of `tf.nn.bidirectional_dynamic_rnn`, each over the joined outputs of the one before.

    Args:
        cells_fw: A cell per layer.
        cells_bw: A cell per layer.
        inputs: [batch, time, size].
        initial_states_fw: A first state per layer.
        initial_states_bw: A first state per layer.
        dtype: The dtype of the first states.
        sequence_length: [batch] integers.
        parallel_iterations: As for `tf.nn.dynamic_rnn`.
        time_major: Inputs and outputs are [time, batch, size].
        scope: The variable scope; `stack_bidirectional_rnn` when None.
        swap_memory: As for `tf.nn.dynamic_rnn`.

    Returns:
        The joined outputs of the last layer; the last states per layer, both ways.

    Raises:
        ValueError: Not as many cells or states both ways.
    """
    states_fw, states_bw = _check(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    outputs, last_fw, last_bw = inputs, [], []
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for index, (forwards, backwards) in enumerate(zip(cells_fw, cells_bw, strict=True)):
            with tf.variable_scope(f"cell_{index}"):
                both, (fw, bw) = bidirectional_dynamic_rnn(
                    forwards,
                    backwards,
                    outputs,
                    initial_state_fw=states_fw[index],
                    initial_state_bw=states_bw[index],
                    sequence_length=sequence_length,
                    dtype=dtype,
                    parallel_iterations=parallel_iterations,
                    swap_memory=swap_memory,
                    time_major=time_major,
                )
                outputs = tf.concat(both, 2)
            last_fw.append(fw)
            last_bw.append(bw)
    return outputs, tuple(last_fw), tuple(last_bw)


def transpose_batch_time(x: Any) -> Any:
    """The tensor with its first two dimensions exchanged.

    Raises:
        ValueError: It has less than two.
    """
    x = tf.convert_to_tensor(x)
    rank = x.shape.ndims
    if rank is not None and rank < 2:
        raise ValueError(f"Expected input tensor {x} to have rank at least 2, but saw {x.shape}")
    if rank is None:
        rest = tf.concat([[1, 0], tf.range(2, tf.rank(x))], 0)
        return tf.transpose(x, rest)
    return tf.transpose(x, [1, 0, *range(2, rank)])
