"""`tf.contrib.crf`: linear-chain conditional random fields (Lafferty et al. 2001)."""

from __future__ import annotations

from typing import Any

import numpy as np

import sparkflow as tf


def _lengths(lengths: Any) -> Any:
    lengths = tf.convert_to_tensor(lengths)
    return tf.cast(lengths, tf.int32)


def crf_sequence_score(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any
) -> Any:
    """The unnormalised log score of tag sequences.

    Args:
        inputs: [batch, time, tags] unary potentials.
        tag_indices: [batch, time] integers.
        sequence_lengths: [batch] integers.
        transition_params: [tags, tags].

    Returns:
        [batch].
    """
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    binary = crf_binary_score(tag_indices, sequence_lengths, transition_params)
    return tf.where(_lengths(sequence_lengths) > 0, unary + binary, tf.zeros_like(unary))


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Any:
    """The sums of the potentials of tags [batch]; arguments as for `crf_sequence_score`."""
    inputs, tags = tf.convert_to_tensor(inputs), tf.cast(tag_indices, tf.int32)
    mask = tf.sequence_mask(_lengths(sequence_lengths), tf.shape(tags)[1], dtype=inputs.dtype)
    hot = tf.one_hot(tags, tf.shape(inputs)[2], dtype=inputs.dtype)
    return tf.reduce_sum(tf.reduce_sum(inputs * hot, 2) * mask, 1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The sums of the transitions of tags [batch]; arguments as for `crf_sequence_score`."""
    transitions = tf.convert_to_tensor(transition_params)
    tags = tf.cast(tag_indices, tf.int32)
    count = tf.shape(transitions)[0]
    flat = tf.reshape(transitions, [-1])
    scores = tf.gather(flat, tags[:, :-1] * count + tags[:, 1:])
    steps = tf.maximum(_lengths(sequence_lengths) - 1, 0)
    mask = tf.sequence_mask(steps, tf.shape(tags)[1] - 1, dtype=transitions.dtype)
    return tf.reduce_sum(scores * mask, 1)


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The log of the sum of the scores of all tag sequences [batch].

    Arguments as for `crf_sequence_score`.
    """
    alphas = _forward(inputs, sequence_lengths, transition_params, tf.reduce_logsumexp)
    norm = tf.reduce_logsumexp(alphas, [1])
    return tf.where(_lengths(sequence_lengths) > 0, norm, tf.zeros_like(norm))


def _forward(inputs: Any, sequence_lengths: Any, transition_params: Any, reduce: Any) -> Any:
    """The scores [batch, tags] of what ends in each tag, `reduce` over the tags before."""
    inputs = tf.convert_to_tensor(inputs)
    transitions = tf.expand_dims(tf.convert_to_tensor(transition_params), 0)
    lengths = _lengths(sequence_lengths)
    steps = tf.transpose(inputs, [1, 0, 2])

    def step(alphas: Any, elements: Any) -> Any:
        time, potentials = elements
        following = potentials + reduce(tf.expand_dims(alphas, 2) + transitions, [1])
        return tf.where(time < lengths, following, alphas)

    times = tf.range(1, tf.shape(steps)[0])
    return tf.foldl(step, (times, steps[1:]), initializer=steps[0])


def crf_multitag_sequence_score(
    inputs: Any, tag_bitmap: Any, sequence_lengths: Any, transition_params: Any
) -> Any:
    """The log of the sum of the scores of all sequences of allowed tags [batch].

    Args:
        inputs: [batch, time, tags].
        tag_bitmap: [batch, time, tags] booleans: which tags are allowed.
        sequence_lengths: [batch] integers.
        transition_params: [tags, tags].
    """
    inputs = tf.convert_to_tensor(inputs)
    closed = tf.fill(tf.shape(inputs), -float("inf"))
    allowed = tf.where(tag_bitmap, inputs, tf.cast(closed, inputs.dtype))
    return crf_log_norm(allowed, sequence_lengths, transition_params)


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Any, Any]:
    """The log likelihood of tag sequences.

    Args:
        inputs: [batch, time, tags] unary potentials.
        tag_indices: [batch, time] integers.
        sequence_lengths: [batch] integers.
        transition_params: [tags, tags]; a variable `transitions` when None.

    Returns:
        [batch], and the transitions.
    """
    inputs = tf.convert_to_tensor(inputs)
    if transition_params is None:
        count = inputs.shape.dims[2].value
        transition_params = tf.get_variable("transitions", [count, count])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    norm = crf_log_norm(inputs, sequence_lengths, transition_params)
    return score - norm, transition_params


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], Any]:
    """The best tag sequence of one example, in numpy.

    Args:
        score: [time, tags] array of unary potentials.
        transition_params: [tags, tags] array.

    Returns:
        The tags, and their score.
    """
    trellis = np.zeros_like(score)
    back = np.zeros_like(score, dtype=np.int32)
    trellis[0] = score[0]
    for time in range(1, score.shape[0]):
        before = np.expand_dims(trellis[time - 1], 1) + transition_params
        trellis[time] = score[time] + np.max(before, 0)
        back[time] = np.argmax(before, 0)
    tags = [int(np.argmax(trellis[-1]))]
    for pointers in back[:0:-1]:
        tags.append(int(pointers[tags[-1]]))
    return tags[::-1], np.max(trellis[-1])


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Any, Any]:
    """The best tag sequences.

    Args:
        potentials: [batch, time, tags].
        transition_params: [tags, tags].
        sequence_length: [batch] integers.

    Returns:
        Tags [batch, time] int32, 0 beyond the ends, and scores [batch].
    """
    potentials = tf.convert_to_tensor(potentials)
    transitions = tf.expand_dims(tf.convert_to_tensor(transition_params), 0)
    lengths = _lengths(sequence_length)
    steps = tf.transpose(potentials, [1, 0, 2])
    count = tf.shape(steps)[0]
    first = steps[0]

    def forward(state: Any, elements: Any) -> Any:
        scores, _ = state
        time, now = elements
        before = tf.expand_dims(scores, 2) + transitions
        inside = time < lengths
        pointers = tf.argmax(before, 1, output_type=tf.int32)
        own = tf.zeros_like(pointers) + tf.range(tf.shape(pointers)[1])
        return (
            tf.where(inside, now + tf.reduce_max(before, [1]), scores),
            tf.where(inside, pointers, own),
        )

    times = tf.range(1, count)
    start = (first, tf.zeros_like(first, tf.int32))
    scores, pointers = tf.scan(forward, (times, steps[1:]), initializer=start)
    scores = tf.concat([tf.expand_dims(first, 0), scores], 0)[-1]
    last = tf.argmax(scores, 1, output_type=tf.int32)

    def back(tag: Any, pointer: Any) -> Any:
        rows = tf.range(tf.shape(tag)[0])
        return tf.gather_nd(pointer, tf.stack([rows, tag], 1))

    tags = tf.scan(back, pointers, initializer=last, reverse=True)
    tags = tf.transpose(tf.concat([tags, tf.expand_dims(last, 0)], 0))
    tags = tags * tf.sequence_mask(lengths, count, dtype=tf.int32)
    tags.set_shape(potentials.shape[:2])
    return tags, tf.reduce_max(scores, 1)


__all__ = [
    "crf_binary_score",
    "crf_decode",
    "crf_log_likelihood",
    "crf_log_norm",
    "crf_multitag_sequence_score",
    "crf_sequence_score",
    "crf_unary_score",
    "viterbi_decode",
]
