"""Decoders: what a step of one is, and running one until it has finished."""

from __future__ import annotations

import abc
from typing import Any

import tree

import sparkflow as tf
from sparkflow.rnn.stepping import copy_through


class Decoder(abc.ABC):
    """Base of decoders, which generate a sequence step by step."""

    @property
    @abc.abstractmethod
    def batch_size(self) -> Any:
        """The batch size: a scalar tensor or a number."""

    @property
    @abc.abstractmethod
    def output_size(self) -> Any:
        """The shapes of one step's output, nested as it is."""

    @property
    @abc.abstractmethod
    def output_dtype(self) -> Any:
        """The dtypes of one step's output, nested as it is."""

    @abc.abstractmethod
    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        """Which sequences have finished, the first inputs, the first state."""

    @abc.abstractmethod
    def step(
        self, time: Any, inputs: Any, state: Any, name: str | None = None
    ) -> tuple[Any, Any, Any, Any]:
        """The output, the next state, the next inputs, which sequences have finished."""

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """The outputs and the state after the last step, as the caller gets them."""
        return outputs, final_state

    @property
    def tracks_own_finished(self) -> bool:
        """Whether a sequence that has finished may go on."""
        return False


def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Runs a decoder until all its sequences have finished.

    Args:
        decoder: A decoder.
        output_time_major: Outputs are [time, batch, ...].
        impute_finished: Let the state of a finished sequence stay, and its outputs be zeros.
        maximum_iterations: The most steps, an int32 scalar; no bound when None.
        parallel_iterations: As for `tf.while_loop`.
        swap_memory: As for `tf.while_loop`.
        scope: The variable scope; `decoder` when None.

    Returns:
        The outputs [batch, time, ...], the last state, and the lengths [batch].

    Raises:
        TypeError: `decoder` is none.
        ValueError: `maximum_iterations` is not a scalar.
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder)}")
    with tf.variable_scope(scope, "decoder"):
        if maximum_iterations is not None:
            maximum_iterations = tf.convert_to_tensor(
                maximum_iterations, dtype=tf.int32, name="maximum_iterations"
            )
            if maximum_iterations.shape.ndims != 0:
                raise ValueError("maximum_iterations must be a scalar")
        finished, inputs, state = decoder.initialize()
        if maximum_iterations is not None:
            finished = tf.logical_or(finished, maximum_iterations <= 0)
        zero = _zero_outputs(decoder)
        dtypes = tree.flatten(decoder.output_dtype)
        sizes = [tf.TensorShape(each) for each in _flat_sizes(decoder)]
        static = _static(decoder.batch_size)
        arrays = [
            tf.TensorArray(
                dtype,
                size=0,
                dynamic_size=True,
                element_shape=tf.TensorShape([static]).concatenate(size),
            )
            for dtype, size in zip(dtypes, sizes, strict=True)
        ]
        lengths = tf.zeros_like(finished, dtype=tf.int32)
        start = (tf.constant(0), arrays, state, inputs, finished, lengths)

        def goes_on(
            time: Any, arrays: Any, state: Any, inputs: Any, done: Any, lengths: Any
        ) -> Any:
            return tf.logical_not(tf.reduce_all(done))

        def body(time: Any, arrays: Any, state: Any, inputs: Any, done: Any, lengths: Any) -> Any:
            outputs, next_state, next_inputs, now = decoder.step(time, inputs, state)
            if not decoder.tracks_own_finished:
                now = tf.logical_or(now, done)
            if maximum_iterations is not None:
                now = tf.logical_or(now, time + 1 >= maximum_iterations)
            next_lengths = tf.where(done, lengths, tf.fill(tf.shape(lengths), time + 1))
            if impute_finished:
                outputs = copy_through(done, zero, outputs)
                next_state = copy_through(done, state, next_state)
            flat = tree.flatten(outputs)
            arrays = [array.write(time, each) for array, each in zip(arrays, flat, strict=True)]
            return time + 1, arrays, next_state, next_inputs, now, next_lengths

        _, arrays, state, _, _, lengths = tf.while_loop(
            goes_on,
            body,
            start,
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
            shape_invariants=tree.map_structure(_invariant, start),
        )
        outputs = tree.unflatten_as(decoder.output_dtype, [each.stack() for each in arrays])
        if type(decoder).finalize is not Decoder.finalize:
            outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = tree.map_structure(_transposed, outputs)
    return outputs, state, lengths


def _invariant(value: Any) -> Any:
    """The shape of a loop variable that may stay, its batch size unknown."""
    if not isinstance(value, tf.Tensor) or value.shape.ndims is None:
        return None if not isinstance(value, tf.Tensor) else value.shape
    return tf.TensorShape(value.shape.as_list())


def _flat_sizes(decoder: Decoder) -> list[Any]:
    """The sizes in the order of the dtypes; a list in them is one shape."""
    return list(tree.flatten_up_to(decoder.output_dtype, decoder.output_size, check_types=False))


def _static(batch_size: Any) -> int | None:
    if isinstance(batch_size, int):
        return batch_size
    value = tf.contrib.util.constant_value(tf.convert_to_tensor(batch_size))
    return None if value is None else int(value)


def _zero_outputs(decoder: Decoder) -> Any:
    batch = tf.convert_to_tensor(decoder.batch_size)

    def zeros(size: Any, dtype: Any) -> Any:
        shape = tf.TensorShape(size)
        made = tf.zeros(tf.concat([[batch], shape.as_list()], 0) if shape.ndims else [batch], dtype)
        made.set_shape(tf.TensorShape([_static(decoder.batch_size)]).concatenate(shape))
        return made

    dtypes = tree.flatten(decoder.output_dtype)
    flat = [zeros(size, dtype) for size, dtype in zip(_flat_sizes(decoder), dtypes, strict=True)]
    return tree.unflatten_as(decoder.output_dtype, flat)


def _transposed(tensor: Any) -> Any:
    return tf.transpose(tensor, [1, 0, *range(2, tensor.shape.ndims)])
