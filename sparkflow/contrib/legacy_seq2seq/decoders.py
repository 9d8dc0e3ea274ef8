"""Decoders over a list of steps, over vectors and over ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tree

import sparkflow as tf


def rnn_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    cell: Any,
    loop_function: Callable[[Any, int], Any] | None = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """A cell over a list of steps.

    Args:
        decoder_inputs: Per step [batch, size].
        initial_state: The first state.
        cell: The cell.
        loop_function: From the last output and the number of the step to the input; the given
            inputs but the first are not used then.
        scope: The variable scope; `rnn_decoder` when None.

    Returns:
        The outputs per step, and the last state.
    """
    with tf.variable_scope(scope or "rnn_decoder"):
        state, outputs, previous = initial_state, [], None
        for index, inputs in enumerate(decoder_inputs):
            if loop_function is not None and previous is not None:
                with tf.variable_scope("loop_function", reuse=True):
                    inputs = loop_function(previous, index)
            if index > 0:
                tf.get_variable_scope().reuse_variables()
            output, state = cell(inputs, state)
            outputs.append(output)
            if loop_function is not None:
                previous = output
    return outputs, state


def extract_argmax_and_embed(
    embedding: Any, output_projection: Any = None, update_embedding: bool = True
) -> Callable[[Any, int], Any]:
    """A loop function: the embedding of the likeliest id.

    Args:
        embedding: The table.
        output_projection: Weights and biases that are applied to the output first.
        update_embedding: Let gradients flow into the embedding.
    """

    def loop(previous: Any, _: int) -> Any:
        if output_projection is not None:
            previous = tf.nn.xw_plus_b(previous, output_projection[0], output_projection[1])
        found = tf.nn.embedding_lookup(embedding, tf.argmax(previous, 1))
        return found if update_embedding else tf.stop_gradient(found)

    return loop


def embedding_rnn_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """`rnn_decoder` over ids.

    Args:
        decoder_inputs: Per step [batch] int32.
        initial_state: The first state.
        cell: The cell.
        num_symbols: The number of ids.
        embedding_size: The size of the embeddings.
        output_projection: Weights and biases of a projection of the outputs, None for none.
        feed_previous: Feed the likeliest id instead of the given one.
        update_embedding_for_previous: Let gradients flow into embeddings of such ids.
        scope: The variable scope.

    Returns:
        The outputs per step, and the last state.
    """
    with tf.variable_scope(scope or "embedding_rnn_decoder"):
        check_projection(output_projection, num_symbols)
        table = tf.get_variable("embedding", [num_symbols, embedding_size])
        function = (
            extract_argmax_and_embed(table, output_projection, update_embedding_for_previous)
            if feed_previous
            else None
        )
        embedded = [tf.nn.embedding_lookup(table, each) for each in decoder_inputs]
        return rnn_decoder(embedded, initial_state, cell, function)


def check_projection(output_projection: Any, num_symbols: int) -> None:
    """Passes where the biases of a projection have one element per id.

    Raises:
        ValueError: They have not.
    """
    if output_projection is not None:
        biases = tf.convert_to_tensor(output_projection[1])
        biases.shape.assert_is_compatible_with(tf.TensorShape([num_symbols]))


def fed(decode: Callable[[bool, Any], Any], state: Any, feed_previous: Any) -> tuple[Any, Any]:
    """A decoder that is fed its own outputs, or not, or as a tensor says in every step."""
    if isinstance(feed_previous, bool):
        found: tuple[Any, Any] = decode(feed_previous, state)
        return found
    structure: list[Any] = []

    def branch(previous: bool) -> list[Any]:
        with tf.variable_scope(tf.get_variable_scope(), reuse=True if structure else None):
            outputs, last = decode(previous, state)
        structure[:] = [len(outputs), last]
        return [*outputs, *tree.flatten(last)]

    flat = tf.cond(feed_previous, lambda: branch(True), lambda: branch(False))
    count, last = structure
    return list(flat[:count]), tree.unflatten_as(last, list(flat[count:]))
