"""Beam search: the likeliest sequences that a decoder finds."""

from __future__ import annotations

from typing import Any, NamedTuple

import tree

import sparkflow as tf
from sparkflow.contrib.seq2seq.decoder import Decoder
from sparkflow.contrib.seq2seq.helpers import embedding_function


class BeamSearchDecoderState(NamedTuple):
    """State of the search: of the cell, log probabilities, finished, lengths [batch, beam]."""

    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any
    accumulated_attention_probs: Any = ()


class BeamSearchDecoderOutput(NamedTuple):
    """The output of one step: scores, ids, and the beams they come from [batch, beam]."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class FinalBeamSearchDecoderOutput(NamedTuple):
    """The sequences, best first [batch, time, beam], and what the steps emitted."""

    predicted_ids: Any
    beam_search_decoder_output: Any


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Every example `multiplier` times, one copy after another.

    Args:
        t: [batch, ...], or a nested structure of such.
        multiplier: How often.
        name: The name scope.

    Raises:
        ValueError: A tensor has no dimension.
    """

    def tiled(tensor: Any) -> Any:
        tensor = tf.convert_to_tensor(tensor)
        if tensor.shape.ndims is None or tensor.shape.ndims == 0:
            raise ValueError("t must have statically known rank of at least 1")
        sizes = tensor.shape.as_list()
        spread = tf.tile(tf.expand_dims(tensor, 1), [1, multiplier] + [1] * (len(sizes) - 1))
        merged = tf.reshape(spread, tf.concat([[-1], tf.shape(tensor)[1:]], 0))
        merged.set_shape([None if sizes[0] is None else sizes[0] * multiplier, *sizes[1:]])
        return merged

    with tf.name_scope(name, "tile_batch", tree.flatten(t)):
        return tree.map_structure(tiled, t)


def gather_tree(step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any) -> Any:
    """The sequences that end in each beam.

    Args:
        step_ids: [time, batch, beam] int32.
        parent_ids: [time, batch, beam] int32: the beams they come from.
        max_sequence_lengths: [batch] int32: what is beyond is `end_token`.
        end_token: Scalar int32; so is all that follows one.

    Returns:
        [time, batch, beam] int32.
    """
    step_ids, parent_ids = tf.convert_to_tensor(step_ids), tf.convert_to_tensor(parent_ids)
    end_token = tf.convert_to_tensor(end_token)
    shape = tf.shape(step_ids)
    beams = tf.tile(tf.expand_dims(tf.range(shape[2]), 0), [shape[1], 1])

    def back(state: Any, elements: Any) -> Any:
        beam, _ = state
        time, ids, parents = elements
        inside = tf.tile(tf.expand_dims(time < max_sequence_lengths, 1), [1, shape[2]])
        found = tf.where(inside, _pick(ids, beam), tf.fill(shape[1:], end_token))
        return tf.where(inside, _pick(parents, beam), beam), found

    _, ids = tf.scan(
        back,
        (tf.range(shape[0]), step_ids, parent_ids),
        initializer=(beams, tf.zeros_like(beams)),
        reverse=True,
    )
    ended = tf.cumsum(tf.cast(tf.equal(ids, end_token), tf.int32), axis=0, exclusive=True) > 0
    ids = tf.where(ended, tf.fill(shape, end_token), ids)
    ids.set_shape(step_ids.shape)
    return ids


def _pick(values: Any, beams: Any) -> Any:
    """The values [batch, beam, ...] of the chosen beams."""
    shape = tf.shape(beams)
    rows = tf.tile(tf.expand_dims(tf.range(shape[0]), 1), [1, shape[1]])
    found = tf.gather_nd(values, tf.stack([rows, beams], axis=-1))
    found.set_shape(values.shape[:1].concatenate(beams.shape[1:]).concatenate(values.shape[2:]))
    return found


class BeamSearchDecoder(Decoder):
    """Follows the likeliest sequences at once.

    Args:
        cell: The cell.
        embedding: A table, or a function of ids.
        start_tokens: [batch] int32.
        end_token: Scalar int32.
        initial_state: The first state, of batch size batch * beam_width, see `tile_batch`.
        beam_width: How many sequences are followed.
        output_layer: Applied to the cell's outputs, None for none.
        length_penalty_weight: The power of the length that scores are divided by (Wu et al. 2016).
        coverage_penalty_weight: Must be 0.0.
        reorder_tensor_arrays: Accepted for TensorFlow's sake: histories stay as they were written.

    Raises:
        ValueError: `start_tokens` is no vector, `end_token` no scalar, or a coverage penalty.
    """

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        initial_state: Any,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: float = 0.0,
        coverage_penalty_weight: float = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:
        if coverage_penalty_weight:
            raise ValueError("BeamSearchDecoder takes no coverage_penalty_weight but 0.0")
        self._cell = cell
        self._output_layer = output_layer
        self._embedding = embedding_function(embedding)
        self._start = tf.convert_to_tensor(start_tokens, tf.int32, name="start_tokens")
        if self._start.shape.ndims != 1:
            raise ValueError("start_tokens must be a vector")
        self._end = tf.convert_to_tensor(end_token, tf.int32, name="end_token")
        if self._end.shape.ndims != 0:
            raise ValueError("end_token must be a scalar")
        static = self._start.shape.as_list()[0]
        self._batch = tf.size(self._start) if static is None else static
        self._width = beam_width
        self._penalty = length_penalty_weight
        self._initial_state = tree.map_structure(self._split, initial_state)
        beams = tf.tile(tf.expand_dims(self._start, 1), [1, beam_width])
        self._start_inputs = self._embedding(beams)

    @property
    def batch_size(self) -> Any:
        """See `Decoder`."""
        return self._batch

    @property
    def tracks_own_finished(self) -> bool:
        """True: beams change places."""
        return True

    @property
    def output_size(self) -> Any:
        """See `Decoder`."""
        size = tf.TensorShape([self._width])
        return BeamSearchDecoderOutput(size, size, size)

    @property
    def output_dtype(self) -> Any:
        """See `Decoder`."""
        dtype = tree.flatten(self._initial_state)[0].dtype
        return BeamSearchDecoderOutput(dtype, tf.int32, tf.int32)

    def _split(self, tensor: Any) -> Any:
        """[batch * beam, ...] as [batch, beam, ...]."""
        if isinstance(tensor, tf.TensorArray):
            return tensor
        tensor = tf.convert_to_tensor(tensor)
        if tensor.shape.ndims == 0:
            return tensor
        shape = tf.concat([[self._batch, self._width], tf.shape(tensor)[1:]], 0)
        split = tf.reshape(tensor, shape)
        rows = None if isinstance(self._batch, tf.Tensor) else self._batch
        split.set_shape(tf.TensorShape([rows, self._width]).concatenate(tensor.shape[1:]))
        return split

    def _merge(self, tensor: Any) -> Any:
        """[batch, beam, ...] as [batch * beam, ...]."""
        if isinstance(tensor, tf.TensorArray) or tensor.shape.ndims == 0:
            return tensor
        merged = tf.reshape(tensor, tf.concat([[-1], tf.shape(tensor)[2:]], 0))
        rows = None if isinstance(self._batch, tf.Tensor) else self._batch * self._width
        merged.set_shape(tf.TensorShape([rows]).concatenate(tensor.shape[2:]))
        return merged

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        """See `Decoder`: of the beams, which are alike, only the first counts."""
        first = tf.zeros([self._batch], dtype=tf.int32)
        dtype = self.output_dtype.scores
        finished = tf.one_hot(first, self._width, on_value=False, off_value=True, dtype=tf.bool)
        log_probs = tf.one_hot(
            first, self._width, on_value=0.0, off_value=-float("inf"), dtype=dtype
        )
        lengths = tf.zeros([self._batch, self._width], dtype=tf.int64)
        state = BeamSearchDecoderState(self._initial_state, log_probs, finished, lengths)
        return finished, self._start_inputs, state

    def step(
        self, time: Any, inputs: Any, state: Any, name: str | None = None
    ) -> tuple[Any, Any, Any, Any]:
        """See `Decoder`."""
        with tf.name_scope(name, "BeamSearchDecoderStep", [time]):
            merged = tree.map_structure(self._merge, state.cell_state)
            outputs, cell_state = self._cell(self._merge(inputs), merged)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            logits = self._split(outputs)
            cell_state = tree.map_structure(self._split, cell_state)
            found, next_state = self._search(logits, cell_state, state)
            following = tf.cond(
                tf.reduce_all(next_state.finished),
                lambda: self._start_inputs,
                lambda: self._embedding(found.predicted_ids),
            )
        return found, next_state, following, next_state.finished

    def _search(self, logits: Any, cell_state: Any, state: Any) -> tuple[Any, Any]:
        width = self._width
        vocabulary = logits.shape.dims[-1].value or tf.shape(logits)[-1]
        unfinished = tf.cast(tf.logical_not(state.finished), tf.int64)
        ends = tf.fill([self._batch, width], self._end)
        # A sequence that has finished can only go on with end tokens, which cost nothing.
        closed = tf.one_hot(
            ends, vocabulary, on_value=0.0, off_value=logits.dtype.min, dtype=logits.dtype
        )
        done = tf.cast(tf.expand_dims(state.finished, 2), logits.dtype)
        steps = (1 - done) * tf.nn.log_softmax(logits) + done * closed
        total = tf.expand_dims(state.log_probs, 2) + steps
        longer = tf.one_hot(
            ends,
            vocabulary,
            on_value=tf.constant(0, tf.int64),
            off_value=tf.constant(1, tf.int64),
            dtype=tf.int64,
        )
        lengths = longer * tf.expand_dims(unfinished, 2) + tf.expand_dims(state.lengths, 2)
        scores = tf.reshape(self._scores(total, lengths), [self._batch, -1])
        best, places = tf.nn.top_k(scores, k=width)
        flat = tf.reshape(total, [self._batch, -1])
        log_probs = _pick(flat, places)
        ids, parents = tf.floormod(places, vocabulary), tf.floordiv(places, vocabulary)
        finished = _pick(state.finished, parents)
        next_lengths = _pick(state.lengths, parents)
        next_lengths += tf.cast(tf.logical_not(finished), tf.int64)

        def chosen(tensor: Any) -> Any:
            if isinstance(tensor, tf.TensorArray) or tensor.shape.ndims == 0:
                return tensor
            return _pick(tensor, parents)

        next_state = BeamSearchDecoderState(
            cell_state=tree.map_structure(chosen, cell_state),
            log_probs=log_probs,
            finished=tf.logical_or(finished, tf.equal(ids, self._end)),
            lengths=next_lengths,
        )
        return BeamSearchDecoderOutput(best, ids, parents), next_state

    def _scores(self, log_probs: Any, lengths: Any) -> Any:
        if not self._penalty:
            return log_probs
        size = tf.cast(lengths, log_probs.dtype)
        return log_probs / tf.pow((5.0 + size) / 6.0, self._penalty)

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """The sequences and the last state."""
        longest = tf.cast(tf.reduce_max(final_state.lengths, axis=1), tf.int32)
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end)
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state
