"""Attention mechanisms: from a query to weights of the memory."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import tree

import sparkflow as tf
from sparkflow.layers.core import Dense


class AttentionMechanism(abc.ABC):
    """From a query and a state to weights of the memory and the next state."""

    @property
    @abc.abstractmethod
    def alignments_size(self) -> Any:
        """The number of weights."""

    @property
    @abc.abstractmethod
    def state_size(self) -> Any:
        """The size of the state."""


class _BaseAttention(AttentionMechanism):
    """Memory, keys and the mask of what is beyond the end of each sequence."""

    def __init__(
        self,
        query_layer: Any,
        memory: Any,
        probability_fn: Callable[[Any], Any] | None,
        memory_sequence_length: Any,
        memory_layer: Any,
        score_mask_value: Any,
        name: str,
    ) -> None:
        self.query_layer = query_layer
        self.memory_layer = memory_layer
        self.dtype = memory_layer.dtype if memory_layer is not None else query_layer.dtype
        with tf.name_scope(name, "BaseAttentionMechanismInit", tree.flatten(memory)):
            memory = tf.convert_to_tensor(memory, name="memory")
            self._mask: Any = None
            if memory_sequence_length is not None:
                lengths = tf.convert_to_tensor(memory_sequence_length)
                self._mask = tf.sequence_mask(lengths, tf.shape(memory)[1])
                weights = tf.cast(self._mask, memory.dtype)
                extra = memory.shape.ndims - 2
                shape = tf.concat([tf.shape(weights), [1] * extra], 0)
                static = memory.shape
                memory = memory * tf.reshape(weights, shape)
                memory.set_shape(static)
            self._mask_value = -float("inf") if score_mask_value is None else score_mask_value
            self._probability = probability_fn or tf.nn.softmax
            self._values = memory
            self._keys = memory if memory_layer is None else memory_layer(memory)
            size = self._keys.shape.dims[1].value
            self._size = tf.shape(self._keys)[1] if size is None else size
            rows = self._keys.shape.dims[0].value
            self._batch = tf.shape(self._keys)[0] if rows is None else rows

    @property
    def values(self) -> Any:
        """The memory [batch, time, size], zero beyond the ends."""
        return self._values

    @property
    def keys(self) -> Any:
        """The keys that queries are compared with [batch, time, units]."""
        return self._keys

    @property
    def batch_size(self) -> Any:
        """The batch size."""
        return self._batch

    @property
    def alignments_size(self) -> Any:
        """The length of the memory."""
        return self._size

    @property
    def state_size(self) -> Any:
        """The size of the state: the last weights."""
        return self._size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Weights of zero [batch, time]."""
        size = self._size
        made = tf.zeros(tf.stack([batch_size, size]), dtype=dtype)
        made.set_shape(
            [None if isinstance(each, tf.Tensor) else each for each in (batch_size, size)]
        )
        return made

    def initial_state(self, batch_size: Any, dtype: Any) -> Any:
        """The first state."""
        return self.initial_alignments(batch_size, dtype)

    def _weights(self, score: Any) -> Any:
        if self._mask is not None:
            score = tf.where(self._mask, score, self._mask_value * tf.ones_like(score))
        return self._probability(score)


class LuongAttention(_BaseAttention):
    """Scores by products of query and keys (Luong et al. 2015, arXiv:1508.04025).

    Args:
        num_units: The size of the keys, which must be that of the queries.
        memory: [batch, time, size].
        memory_sequence_length: [batch] int32.
        scale: Multiply the scores with a variable.
        probability_fn: From scores to weights; softmax when None.
        score_mask_value: The score beyond the ends; -inf when None.
        dtype: Of the variables; float32 when None.
        name: The name of the mechanism.
        custom_key_value_fn: From keys and memory to those used.
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        name: str = "LuongAttention",
        custom_key_value_fn: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        layer = Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype or tf.float32)
        super().__init__(
            None, memory, probability_fn, memory_sequence_length, layer, score_mask_value, name
        )
        if custom_key_value_fn is not None:
            self._keys, self._values = custom_key_value_fn(self._keys, self._values)
        self._scale = scale

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """The weights [batch, time] of a query [batch, units], and the next state.

        Raises:
            ValueError: The query has another size than the keys.
        """
        with tf.variable_scope(None, "luong_attention", [query]):
            depth, units = query.shape.as_list()[-1], self._keys.shape.as_list()[-1]
            if depth != units:
                raise ValueError(
                    "Incompatible or unknown inner dimensions between query and keys. Query "
                    f"({query}) has units: {depth}. Keys ({self._keys}) have units: {units}. "
                    "Perhaps you need to set num_units to the keys' dimension."
                )
            score = tf.matmul(tf.expand_dims(query, 1), self._keys, transpose_b=True)
            score = tf.squeeze(score, [1])
            if self._scale:
                factor = tf.get_variable(
                    "attention_g", dtype=query.dtype, initializer=tf.ones_initializer(), shape=()
                )
                score = factor * score
        alignments = self._weights(score)
        return alignments, alignments


class BahdanauAttention(_BaseAttention):
    """Scores by a layer over query and keys (Bahdanau et al. 2014, arXiv:1409.0473).

    Args:
        num_units: The size of the layer.
        memory: [batch, time, size].
        memory_sequence_length: [batch] int32.
        normalize: Normalise the weights of the layer (Salimans and Kingma 2016).
        probability_fn: From scores to weights; softmax when None.
        score_mask_value: The score beyond the ends; -inf when None.
        dtype: Of the variables; float32 when None.
        name: The name of the mechanism.
        custom_key_value_fn: From keys and memory to those used.
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        name: str = "BahdanauAttention",
        custom_key_value_fn: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        dtype = dtype or tf.float32
        super().__init__(
            Dense(num_units, name="query_layer", use_bias=False, dtype=dtype),
            memory,
            probability_fn,
            memory_sequence_length,
            Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype),
            score_mask_value,
            name,
        )
        if custom_key_value_fn is not None:
            self._keys, self._values = custom_key_value_fn(self._keys, self._values)
        self._units = num_units
        self._normalize = normalize

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """The weights [batch, time] of a query [batch, size], and the next state."""
        with tf.variable_scope(None, "bahdanau_attention", [query]):
            processed = tf.expand_dims(self.query_layer(query), 1)
            units, dtype = self._units, query.dtype
            v = tf.get_variable("attention_v", [units], dtype=dtype)
            total = self._keys + processed
            if self._normalize:
                g = tf.get_variable(
                    "attention_g",
                    dtype=dtype,
                    initializer=tf.constant_initializer((1.0 / units) ** 0.5),
                    shape=(),
                )
                b = tf.get_variable(
                    "attention_b", [units], dtype=dtype, initializer=tf.zeros_initializer()
                )
                v = g * v * tf.rsqrt(tf.reduce_sum(tf.square(v)))
                total = total + b
            score = tf.reduce_sum(v * tf.tanh(total), [2])
        alignments = self._weights(score)
        return alignments, alignments


def hardmax(logits: Any, name: str | None = None) -> Any:
    """One-hot vectors of the largest logits."""
    with tf.name_scope(name, "Hardmax", [logits]):
        logits = tf.convert_to_tensor(logits)
        depth = logits.shape.dims[-1].value or tf.shape(logits)[-1]
        return tf.one_hot(tf.argmax(logits, -1), depth, dtype=logits.dtype)
