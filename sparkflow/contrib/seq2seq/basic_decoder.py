"""A cell and a helper as a decoder."""

from __future__ import annotations

from typing import Any, NamedTuple

import sparkflow as tf
from sparkflow.contrib.seq2seq.decoder import Decoder
from sparkflow.layers.base import Layer


class BasicDecoderOutput(NamedTuple):
    """The output of one step.

    Attributes:
        rnn_output: The output of the cell, or of the output layer.
        sample_id: What the helper sampled from it.
    """

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """A cell that emits and sees what a helper chooses.

    Args:
        cell: The cell.
        helper: The helper.
        initial_state: The first state.
        output_layer: Applied to the cell's outputs, None for none.

    Raises:
        TypeError: `output_layer` is no layer.
    """

    def __init__(
        self, cell: Any, helper: Any, initial_state: Any, output_layer: Any = None
    ) -> None:
        if output_layer is not None and not isinstance(output_layer, Layer):
            raise TypeError(f"output_layer must be a Layer, received: {type(output_layer)}")
        self._cell = cell
        self._helper = helper
        self._initial_state = initial_state
        self._output_layer = output_layer

    @property
    def batch_size(self) -> Any:
        """See `Decoder`."""
        return self._helper.batch_size

    def _rnn_output_size(self) -> Any:
        return layer_size(self._cell.output_size, self._output_layer)

    @property
    def output_size(self) -> Any:
        """See `Decoder`."""
        return BasicDecoderOutput(self._rnn_output_size(), self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> Any:
        """See `Decoder`."""
        dtype = tf.nest.flatten(self._initial_state)[0].dtype
        return BasicDecoderOutput(dtype, self._helper.sample_ids_dtype)

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        """See `Decoder`."""
        return (*self._helper.initialize(), self._initial_state)

    def step(
        self, time: Any, inputs: Any, state: Any, name: str | None = None
    ) -> tuple[Any, Any, Any, Any]:
        """See `Decoder`."""
        with tf.name_scope(name, "BasicDecoderStep", [time]):
            outputs, cell_state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            sampled = self._helper.sample(time=time, outputs=outputs, state=cell_state)
            finished, following, next_state = self._helper.next_inputs(
                time=time, outputs=outputs, state=cell_state, sample_ids=sampled
            )
        return BasicDecoderOutput(outputs, sampled), next_state, following, finished


def layer_size(size: Any, layer: Any) -> Any:
    """The shape of a cell's output after a layer, without the batch."""
    shape = size if isinstance(size, tf.TensorShape) else tf.TensorShape([size])
    if layer is None:
        return shape
    return layer.compute_output_shape(tf.TensorShape([None]).concatenate(shape))[1:]
