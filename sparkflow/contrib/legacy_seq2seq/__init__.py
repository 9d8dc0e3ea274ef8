"""`tf.contrib.legacy_seq2seq`: sequences to sequences over lists of steps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import sparkflow as tf
from sparkflow.contrib.legacy_seq2seq.attention import (
    attention_decoder,
    embedding_attention_decoder,
    embedding_attention_seq2seq,
)
from sparkflow.contrib.legacy_seq2seq.decoders import (
    embedding_rnn_decoder,
    extract_argmax_and_embed,
    fed,
    rnn_decoder,
)
from sparkflow.contrib.rnn import static_rnn
from sparkflow.rnn.wrappers import EmbeddingWrapper, OutputProjectionWrapper

__all__ = [
    "attention_decoder",
    "basic_rnn_seq2seq",
    "embedding_attention_decoder",
    "embedding_attention_seq2seq",
    "embedding_rnn_decoder",
    "embedding_rnn_seq2seq",
    "embedding_tied_rnn_seq2seq",
    "model_with_buckets",
    "one2many_rnn_seq2seq",
    "rnn_decoder",
    "sequence_loss",
    "sequence_loss_by_example",
    "tied_rnn_seq2seq",
]
Steps = Sequence[Any]


def basic_rnn_seq2seq(
    encoder_inputs: Steps,
    decoder_inputs: Steps,
    cell: Any,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """An encoder, and a decoder of the same kind that starts from its last state.

    Args:
        encoder_inputs: Per step [batch, size].
        decoder_inputs: Per step [batch, size].
        cell: The cell.
        dtype: Of the first state.
        scope: The variable scope.

    Returns:
        The outputs per step, and the last state.
    """
    with tf.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Steps,
    decoder_inputs: Steps,
    cell: Any,
    loop_function: Callable[[Any, int], Any] | None = None,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """As `basic_rnn_seq2seq`, encoder and decoder sharing their variables."""
    with tf.variable_scope("combined_tied_rnn_seq2seq"):
        opened = scope or "tied_rnn_seq2seq"
        _, state = static_rnn(cell, encoder_inputs, dtype=dtype, scope=opened)
        tf.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, opened)


def embedding_rnn_seq2seq(
    encoder_inputs: Steps,
    decoder_inputs: Steps,
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """As `basic_rnn_seq2seq` over ids.

    Args:
        encoder_inputs: Per step [batch] int32.
        decoder_inputs: Per step [batch] int32.
        cell: The cell.
        num_encoder_symbols: The number of ids of the encoder.
        num_decoder_symbols: The number of ids of the decoder.
        embedding_size: The size of the embeddings.
        output_projection: Weights and biases of a projection of the outputs; None for one inside.
        feed_previous: Feed the decoder its own ids: a flag or a boolean tensor.
        dtype: Of the first state.
        scope: The variable scope.

    Returns:
        The outputs per step, and the last state.
    """
    with tf.variable_scope(scope or "embedding_rnn_seq2seq") as opened:
        if dtype is not None:
            opened.set_dtype(dtype)
        else:
            dtype = opened.dtype
        encoder = EmbeddingWrapper(
            copy.deepcopy(cell),
            embedding_classes=num_encoder_symbols,
            embedding_size=embedding_size,
        )
        _, state = static_rnn(encoder, encoder_inputs, dtype=dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
        return fed(
            lambda previous, start: embedding_rnn_decoder(
                decoder_inputs,
                start,
                cell,
                num_decoder_symbols,
                embedding_size,
                output_projection=output_projection,
                feed_previous=previous,
            ),
            state,
            feed_previous,
        )


def embedding_tied_rnn_seq2seq(
    encoder_inputs: Steps,
    decoder_inputs: Steps,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_decoder_symbols: int | None = None,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """As `embedding_rnn_seq2seq`, encoder and decoder sharing cell and embeddings.

    Args:
        encoder_inputs: Per step [batch] int32.
        decoder_inputs: Per step [batch] int32.
        cell: The cell.
        num_symbols: The number of ids.
        embedding_size: The size of the embeddings.
        num_decoder_symbols: The size of the outputs; `num_symbols` when None.
        output_projection: Weights and biases of a projection of the outputs; None for one inside.
        feed_previous: Feed the decoder its own ids: a flag or a boolean tensor.
        dtype: Of the first state.
        scope: The variable scope.

    Returns:
        The outputs per step, and the last state.
    """
    with tf.variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as opened:
        dtype = opened.dtype
        table = tf.get_variable("embedding", [num_symbols, embedding_size], dtype=dtype)
        encoded = [tf.nn.embedding_lookup(table, each) for each in encoder_inputs]
        decoded = [tf.nn.embedding_lookup(table, each) for each in decoder_inputs]
        size = num_symbols if num_decoder_symbols is None else num_decoder_symbols
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, size)

        def decode(previous: bool, _: Any) -> Any:
            function = extract_argmax_and_embed(table, output_projection) if previous else None
            return tied_rnn_seq2seq(encoded, decoded, cell, function, dtype)

        return fed(decode, None, feed_previous)


def one2many_rnn_seq2seq(
    encoder_inputs: Steps,
    decoder_inputs_dict: dict[str, Steps],
    enc_cell: Any,
    dec_cells_dict: dict[str, Any],
    num_encoder_symbols: int,
    num_decoder_symbols_dict: dict[str, int],
    embedding_size: int,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One encoder and several decoders by name; arguments as for `embedding_rnn_seq2seq`."""
    outputs, states = {}, {}
    with tf.variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as opened:
        encoder = EmbeddingWrapper(
            enc_cell, embedding_classes=num_encoder_symbols, embedding_size=embedding_size
        )
        _, state = static_rnn(encoder, encoder_inputs, dtype=opened.dtype)
        for name, inputs in decoder_inputs_dict.items():
            size = num_decoder_symbols_dict[name]
            with tf.variable_scope(f"one2many_decoder_{name}"):
                cell = OutputProjectionWrapper(dec_cells_dict[name], size)

                def decode(
                    previous: bool,
                    start: Any,
                    inputs: Any = inputs,
                    cell: Any = cell,
                    size: int = size,
                ) -> Any:
                    return embedding_rnn_decoder(
                        inputs, start, cell, size, embedding_size, feed_previous=previous
                    )

                outputs[name], states[name] = fed(decode, state, feed_previous)
    return outputs, states


def sequence_loss_by_example(
    logits: Steps,
    targets: Steps,
    weights: Steps,
    average_across_timesteps: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """The weighted cross entropy of each sequence [batch].

    Args:
        logits: Per step [batch, classes].
        targets: Per step [batch] integers.
        weights: Per step [batch].
        average_across_timesteps: Divide by the weights of the sequence.
        softmax_loss_function: From `labels` and `logits` to losses.
        name: The name scope.

    Raises:
        ValueError: Lists of different lengths.
    """
    if not len(logits) == len(targets) == len(weights):
        raise ValueError(
            "Lengths of logits, weights, and targets must be the same "
            f"{len(logits)}, {len(weights)}, {len(targets)}."
        )
    with tf.name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        losses = []
        for logit, target, weight in zip(logits, targets, weights, strict=True):
            if softmax_loss_function is None:
                labels = tf.reshape(target, [-1])
                loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logit)
            else:
                loss = softmax_loss_function(labels=target, logits=logit)
            losses.append(loss * weight)
        total = tf.add_n(losses)
        if average_across_timesteps:
            total = total / (tf.add_n([tf.convert_to_tensor(each) for each in weights]) + 1e-12)
        return total


def sequence_loss(
    logits: Steps,
    targets: Steps,
    weights: Steps,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """The sum of `sequence_loss_by_example`, or its mean with `average_across_batch`."""
    with tf.name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        losses = sequence_loss_by_example(
            logits, targets, weights, average_across_timesteps, softmax_loss_function
        )
        cost = tf.reduce_sum(losses)
        if not average_across_batch:
            return cost
        return cost / tf.cast(tf.shape(targets[0])[0], cost.dtype)


def model_with_buckets(
    encoder_inputs: Steps,
    decoder_inputs: Steps,
    targets: Steps,
    weights: Steps,
    buckets: Sequence[tuple[int, int]],
    seq2seq: Callable[[Any, Any], tuple[Any, Any]],
    softmax_loss_function: Callable[..., Any] | None = None,
    per_example_loss: bool = False,
    name: str | None = None,
) -> tuple[list[Any], list[Any]]:
    """A model per pair of lengths, sharing variables.

    Args:
        encoder_inputs: Per step, as many as the longest bucket has.
        decoder_inputs: The same.
        targets: The same.
        weights: The same.
        buckets: Pairs of lengths.
        seq2seq: From both inputs to outputs and state.
        softmax_loss_function: From `labels` and `logits` to losses.
        per_example_loss: Losses [batch] instead of scalars.
        name: The name scope.

    Returns:
        Outputs and losses, per bucket.

    Raises:
        ValueError: There are less steps than the last bucket has.
    """
    longest_source, longest_target = buckets[-1]
    for what, given, wanted in (
        ("encoder_inputs", encoder_inputs, longest_source),
        ("targets", targets, longest_target),
        ("weights", weights, longest_target),
    ):
        if len(given) < wanted:
            raise ValueError(
                f"Length of {what} ({len(given)}) must be at least that of last bucket ({wanted})."
            )
    outputs, losses = [], []
    loss = sequence_loss_by_example if per_example_loss else sequence_loss
    everything = [*encoder_inputs, *decoder_inputs, *targets, *weights]
    with tf.name_scope(name, "model_with_buckets", everything):
        for index, (source, target) in enumerate(buckets):
            with tf.variable_scope(tf.get_variable_scope(), reuse=True if index else None):
                found, _ = seq2seq(encoder_inputs[:source], decoder_inputs[:target])
                outputs.append(found)
                losses.append(
                    loss(
                        found,
                        targets[:target],
                        weights[:target],
                        softmax_loss_function=softmax_loss_function,
                    )
                )
    return outputs, losses
