"""Decoders with attention (Vinyals et al. 2014, arXiv:1412.7449)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import tree

import sparkflow as tf
from sparkflow.contrib.legacy_seq2seq.decoders import (
    check_projection,
    extract_argmax_and_embed,
    fed,
)
from sparkflow.contrib.rnn import static_rnn
from sparkflow.contrib.rnn.linear import linear
from sparkflow.rnn.wrappers import EmbeddingWrapper, OutputProjectionWrapper


def attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    output_size: int | None = None,
    num_heads: int = 1,
    loop_function: Callable[[Any, int], Any] | None = None,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """A cell over a list of steps that reads from `attention_states` after each.

    Args:
        decoder_inputs: Per step [batch, size].
        initial_state: The first state.
        attention_states: [batch, length, size].
        cell: The cell.
        output_size: The size of the outputs; the cell's when None.
        num_heads: How often to read.
        loop_function: From the last output and the number of the step to the input.
        dtype: Of the first reading.
        scope: The variable scope; `attention_decoder` when None.
        initial_state_attention: Read with the first state before the first step.

    Returns:
        The outputs per step, and the last state.

    Raises:
        ValueError: There are no inputs, no heads, or an unknown size.
    """
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    attention_states = tf.convert_to_tensor(attention_states)
    if attention_states.shape.dims[2].value is None:
        raise ValueError(f"Shape[2] of attention_states must be known: {attention_states.shape}")
    output_size = cell.output_size if output_size is None else output_size
    with tf.variable_scope(scope or "attention_decoder", dtype=dtype) as opened:
        dtype = opened.dtype
        batch = tf.shape(decoder_inputs[0])[0]
        size = attention_states.shape.dims[2].value
        length = attention_states.shape.dims[1].value or tf.shape(attention_states)[1]
        hidden = tf.reshape(attention_states, [-1, length, 1, size])
        features, vectors = [], []
        for head in range(num_heads):
            kernel = tf.get_variable(f"AttnW_{head}", [1, 1, size, size], dtype=dtype)
            features.append(tf.nn.conv2d(hidden, kernel, [1, 1, 1, 1], "SAME"))
            vectors.append(tf.get_variable(f"AttnV_{head}", [size], dtype=dtype))

        def attention(query: Any) -> list[Any]:
            query = tf.concat(tree.flatten(query), 1)
            reads = []
            for head in range(num_heads):
                with tf.variable_scope(f"Attention_{head}"):
                    y = tf.reshape(linear(query, size, True), [-1, 1, 1, size])
                    y = tf.cast(y, dtype)
                    scores = tf.reduce_sum(vectors[head] * tf.tanh(features[head] + y), [2, 3])
                    weights = tf.reshape(tf.nn.softmax(scores), [-1, length, 1, 1])
                    read = tf.reduce_sum(weights * hidden, [1, 2])
                    reads.append(tf.reshape(read, [-1, size]))
            return reads

        state, outputs, previous = initial_state, [], None
        reads: list[Any] = []
        for _ in range(num_heads):
            read = tf.zeros(tf.stack([batch, size]), dtype=dtype)
            read.set_shape([None, size])
            reads.append(read)
        if initial_state_attention:
            reads = attention(initial_state)
        for index, inputs in enumerate(decoder_inputs):
            if index > 0:
                tf.get_variable_scope().reuse_variables()
            if loop_function is not None and previous is not None:
                with tf.variable_scope("loop_function", reuse=True):
                    inputs = loop_function(previous, index)
            width = inputs.shape.as_list()[1]
            output, state = cell(linear([inputs, *reads], width, True), state)
            if index == 0 and initial_state_attention:
                with tf.variable_scope(tf.get_variable_scope(), reuse=True):
                    reads = attention(state)
            else:
                reads = attention(state)
            with tf.variable_scope("AttnOutputProjection"):
                output = linear([tf.cast(output, dtype), *reads], output_size, True)
            if loop_function is not None:
                previous = output
            outputs.append(output)
    return outputs, state


def embedding_attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_size: int | None = None,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """`attention_decoder` over ids; arguments as there and for `embedding_rnn_decoder`."""
    output_size = cell.output_size if output_size is None else output_size
    check_projection(output_projection, num_symbols)
    with tf.variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        table = tf.get_variable("embedding", [num_symbols, embedding_size])
        function = (
            extract_argmax_and_embed(table, output_projection, update_embedding_for_previous)
            if feed_previous
            else None
        )
        return attention_decoder(
            [tf.nn.embedding_lookup(table, each) for each in decoder_inputs],
            initial_state,
            attention_states,
            cell,
            output_size=output_size,
            num_heads=num_heads,
            loop_function=function,
            initial_state_attention=initial_state_attention,
        )


def embedding_attention_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """An encoder over ids, and a decoder that reads from its outputs.

    Arguments as for `embedding_rnn_seq2seq` and `attention_decoder`.
    """
    with tf.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as opened:
        dtype = opened.dtype
        encoder = EmbeddingWrapper(
            copy.deepcopy(cell),
            embedding_classes=num_encoder_symbols,
            embedding_size=embedding_size,
        )
        encoded, state = static_rnn(encoder, encoder_inputs, dtype=dtype)
        top = [tf.reshape(each, [-1, 1, cell.output_size]) for each in encoded]
        memory = tf.concat(top, 1)
        size = None
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
            size = num_decoder_symbols
        return fed(
            lambda previous, start: embedding_attention_decoder(
                decoder_inputs,
                start,
                memory,
                cell,
                num_decoder_symbols,
                embedding_size,
                num_heads=num_heads,
                output_size=size,
                output_projection=output_projection,
                feed_previous=previous,
                initial_state_attention=initial_state_attention,
            ),
            state,
            feed_previous,
        )
