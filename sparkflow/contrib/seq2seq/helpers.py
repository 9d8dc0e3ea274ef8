"""Helpers: how a decoder chooses what it emits and what it sees next."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import tree

import sparkflow as tf


class Helper(abc.ABC):
    """Samples from outputs and returns the next inputs."""

    @property
    @abc.abstractmethod
    def batch_size(self) -> Any:
        """The batch size, a scalar tensor."""

    @property
    def sample_ids_shape(self) -> Any:
        """The shape of the samples of one example."""
        return tf.TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        """The dtype of the samples."""
        return tf.int32

    @abc.abstractmethod
    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """Which sequences have finished, and the first inputs."""

    @abc.abstractmethod
    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """The samples [batch]."""

    @abc.abstractmethod
    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """Which sequences have finished, the next inputs, the next state."""


class CustomHelper(Helper):
    """A helper of three functions.

    Args:
        initialize_fn: Gives which sequences have finished and the first inputs.
        sample_fn: From time, outputs and state to samples.
        next_inputs_fn: From time, outputs, state and samples to what `next_inputs` gives.
        sample_ids_shape: The shape of the samples of one example; a scalar when None.
        sample_ids_dtype: Their dtype; int32 when None.
    """

    def __init__(
        self,
        initialize_fn: Callable[..., Any],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., Any],
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:
        self._initialize = initialize_fn
        self._sample = sample_fn
        self._next = next_inputs_fn
        self._shape = tf.TensorShape(sample_ids_shape or [])
        self._dtype = sample_ids_dtype or tf.int32
        self._batch: Any = None

    @property
    def batch_size(self) -> Any:
        """The batch size.

        Raises:
            ValueError: `initialize` was not called.
        """
        if self._batch is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch

    @property
    def sample_ids_shape(self) -> Any:
        """See `Helper`."""
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        """See `Helper`."""
        return self._dtype

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """See `Helper`."""
        finished, inputs = self._initialize()
        if self._batch is None:
            self._batch = tf.size(finished)
        return finished, inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`."""
        return self._sample(time=time, outputs=outputs, state=state)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """See `Helper`."""
        found: tuple[Any, Any, Any] = self._next(
            time=time, outputs=outputs, state=state, sample_ids=sample_ids
        )
        return found


class TrainingHelper(Helper):
    """Feeds the given inputs, whatever is emitted.

    Args:
        inputs: [batch, time, ...], or a nested structure of such.
        sequence_length: [batch] int32.
        time_major: Whether inputs are [time, batch, ...].
        name: The name scope.

    Raises:
        ValueError: `sequence_length` is no vector.
    """

    def __init__(
        self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None
    ) -> None:
        with tf.name_scope(name, "TrainingHelper", [inputs, sequence_length]):
            inputs = tree.map_structure(tf.convert_to_tensor, inputs)
            self._inputs = inputs
            if not time_major:
                inputs = tree.map_structure(
                    lambda each: tf.transpose(each, [1, 0, *range(2, each.shape.ndims)]), inputs
                )
            self._arrays = tree.map_structure(
                lambda each: tf.TensorArray(
                    each.dtype, size=tf.shape(each)[0], element_shape=each.shape[1:]
                ).unstack(each),
                inputs,
            )
            self._lengths = tf.convert_to_tensor(sequence_length, name="sequence_length")
            if self._lengths.shape.ndims != 1:
                raise ValueError(
                    "Expected sequence_length to be a vector, but received shape: "
                    f"{self._lengths.shape}"
                )
            self._zeros = tree.map_structure(lambda each: tf.zeros_like(each[0, :]), inputs)
            self._batch = tf.size(self._lengths)

    @property
    def inputs(self) -> Any:
        """The inputs."""
        return self._inputs

    @property
    def sequence_length(self) -> Any:
        """The lengths."""
        return self._lengths

    @property
    def batch_size(self) -> Any:
        """See `Helper`."""
        return self._batch

    def _read(self, time: Any, all_finished: Any) -> Any:
        return tf.cond(
            all_finished,
            lambda: self._zeros,
            lambda: tree.map_structure(lambda each: each.read(time), self._arrays),
        )

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """See `Helper`."""
        with tf.name_scope(name, "TrainingHelperInitialize"):
            finished = tf.equal(0, self._lengths)
            return finished, self._read(0, tf.reduce_all(finished))

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`: the likeliest."""
        with tf.name_scope(name, "TrainingHelperSample", [time, outputs]):
            return tf.cast(tf.argmax(outputs, axis=-1), tf.int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """See `Helper`."""
        with tf.name_scope(name, "TrainingHelperNextInputs", [time, outputs]):
            following = time + 1
            finished = following >= self._lengths
            return finished, self._read(following, tf.reduce_all(finished)), state


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Feeds now and then the embedding of a sample instead of the input (Bengio et al. 2015).

    Args:
        inputs: [batch, time, size].
        sequence_length: [batch] int32.
        embedding: A table, or a function of ids.
        sampling_probability: How often, from 0 to 1.
        time_major: Whether inputs are [time, batch, size].
        seed: Of the samples.
        scheduling_seed: Of the choice.
        name: The name scope.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        embedding: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(inputs, sequence_length, time_major, name)
        self._embedding = embedding_function(embedding)
        self._probability = tf.convert_to_tensor(sampling_probability)
        self._seed = seed
        self._scheduling_seed = scheduling_seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Samples where they are fed next, -1 elsewhere."""
        shape = tf.shape(outputs)[:1]
        chosen = tf.random_uniform(shape, seed=self._scheduling_seed) < self._probability
        drawn = tf.multinomial(outputs, 1, seed=self._seed, output_dtype=tf.int32)
        return tf.where(chosen, tf.reshape(drawn, [-1]), tf.fill(shape, -1))

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """See `Helper`."""
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids, name)
        sampled = self._embedding(tf.maximum(sample_ids, 0))
        return finished, tf.where(sample_ids > -1, sampled, given), state


class GreedyEmbeddingHelper(Helper):
    """Feeds the embedding of the likeliest id.

    Args:
        embedding: A table, or a function of ids.
        start_tokens: [batch] int32: the first ids.
        end_token: Scalar int32: the id that ends a sequence.

    Raises:
        ValueError: `start_tokens` is no vector, or `end_token` no scalar.
    """

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        self._embedding = embedding_function(embedding)
        self._start = tf.convert_to_tensor(start_tokens, tf.int32, name="start_tokens")
        self._end = tf.convert_to_tensor(end_token, tf.int32, name="end_token")
        if self._start.shape.ndims != 1:
            raise ValueError("start_tokens must be a vector")
        self._batch = tf.size(self._start)
        if self._end.shape.ndims != 0:
            raise ValueError("end_token must be a scalar")
        self._start_inputs = self._embedding(self._start)

    @property
    def batch_size(self) -> Any:
        """See `Helper`."""
        return self._batch

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """See `Helper`."""
        return tf.zeros_like(self._start, tf.bool), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`: the likeliest.

        Raises:
            TypeError: The outputs are no tensor.
        """
        if not isinstance(outputs, tf.Tensor):
            raise TypeError(f"Expected outputs to be a single Tensor, got: {type(outputs)}")
        return tf.argmax(outputs, axis=-1, output_type=tf.int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """See `Helper`."""
        finished = tf.equal(sample_ids, self._end)
        inputs = tf.cond(
            tf.reduce_all(finished),
            lambda: self._start_inputs,
            lambda: self._embedding(sample_ids),
        )
        return finished, inputs, state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Feeds the embedding of an id drawn by its probability.

    Args:
        embedding: A table, or a function of ids.
        start_tokens: [batch] int32: the first ids.
        end_token: Scalar int32: the id that ends a sequence.
        softmax_temperature: Divides the logits; 1 when None.
        seed: Of the draws.
    """

    def __init__(
        self,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        softmax_temperature: Any = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._temperature = softmax_temperature
        self._seed = seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`."""
        logits = outputs if self._temperature is None else outputs / self._temperature
        drawn = tf.multinomial(logits, 1, seed=self._seed, output_dtype=tf.int32)
        return tf.reshape(drawn, tf.shape(logits)[:-1])


class InferenceHelper(Helper):
    """Feeds what was sampled.

    Args:
        sample_fn: From outputs to samples.
        sample_shape: The shape of the samples of one example.
        sample_dtype: Their dtype.
        start_inputs: The first inputs.
        end_fn: From samples to which sequences have finished.
        next_inputs_fn: From samples to inputs; they themselves when None.
    """

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Any,
        sample_dtype: Any,
        start_inputs: Any,
        end_fn: Callable[[Any], Any],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        self._sample = sample_fn
        self._end = end_fn
        self._shape = tf.TensorShape(sample_shape)
        self._dtype = sample_dtype
        self._next = next_inputs_fn
        self._start = tf.convert_to_tensor(start_inputs, name="start_inputs")
        self._batch = tf.shape(self._start)[0]

    @property
    def batch_size(self) -> Any:
        """See `Helper`."""
        return self._batch

    @property
    def sample_ids_shape(self) -> Any:
        """See `Helper`."""
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        """See `Helper`."""
        return self._dtype

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """See `Helper`."""
        return tf.tile([False], [self._batch]), self._start

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`."""
        return self._sample(outputs)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """See `Helper`."""
        inputs = sample_ids if self._next is None else self._next(sample_ids)
        return self._end(sample_ids), inputs, state


def embedding_function(embedding: Any) -> Callable[[Any], Any]:
    """A function of ids, from one or from a table."""
    if callable(embedding):
        return embedding  # type: ignore[no-any-return]
    return lambda ids: tf.nn.embedding_lookup(embedding, ids)
