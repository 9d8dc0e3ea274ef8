"""Connectionist temporal classification: loss and decoders."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.elementwise import comparison, elementwise
from sparkflow.ops.reduction import reduction
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays, constants
from sparkflow_runtime.dtypes import int32, int64


@export("nn.ctc_loss")
def ctc_loss(
    labels: Any,
    inputs: Any = None,
    sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: Any = None,
) -> Tensor:
    """Minus the log probability of labels, summed over their alignments with time.

    Args:
        labels: SparseTensor [batch, time] int32, classes in [0, classes - 1).
        inputs: [time, batch, classes] logits, the blank as the last class.
        sequence_length: [batch] int32.
        preprocess_collapse_repeated: Whether repeated labels are one beforehand.
        ctc_merge_repeated: Whether repeated classes without a blank between them are one.
        ignore_longer_outputs_than_inputs: Whether more labels than time give a loss of 0.
        time_major: Whether time is the first dimension, else the batch.
        logits: The newer name of `inputs`.

    Returns:
        [batch] losses.

    Raises:
        TypeError: The labels are not sparse.
    """
    if not isinstance(labels, SparseTensor):
        raise TypeError(
            f"Expected argument `labels` to be a SparseTensor, got {type(labels).__name__}"
        )
    values = convert_to_tensor(either("logits", logits, "inputs", inputs))
    if not time_major:
        values = arrays.transpose(values, [1, 0, 2])
    loss: Tensor = apply_op(
        "CTCLoss",
        values,
        labels.indices,
        labels.values,
        sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    )[0]
    return loss


@export("nn.ctc_loss_v2")
def ctc_loss_v2(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Like `ctc_loss`, also for dense labels and for another blank.

    Args:
        labels: [batch, labels] int32, or a SparseTensor.
        logits: [time, batch, classes].
        label_length: [batch] int32 for dense labels.
        logit_length: [batch] int32.
        logits_time_major: Whether time is the first dimension, else the batch.
        unique: Accepted for TensorFlow's sake: it speeds up its own way of computing.
        blank_index: The class of the blank: 0 for dense labels, the last for sparse ones when None.
        name: Name of the scope.

    Raises:
        ValueError: Sparse labels and no blank.
    """
    graph = graph_of((logits, labels))
    with graph.as_default(), graph.name_scope(name or "ctc_loss_dense"):
        values = convert_to_tensor(logits, name="logits")
        if isinstance(labels, SparseTensor):
            if blank_index is None:
                raise ValueError("blank_index must be given when using SparseTensor labels.")
            places, classes = labels.indices, elementwise.cast(labels.values, int32)
        else:
            dense = elementwise.cast(convert_to_tensor(labels, name="labels"), int32)
            lengths = arrays.expand_dims(
                elementwise.cast(convert_to_tensor(label_length), int32), 1
            )
            inside = constants.range(arrays.shape(dense)[1]) < lengths
            places = comparison.where(inside)
            classes = arrays.gather_nd(dense, places)
        blank = 0 if blank_index is None else blank_index
        count = values.shape[-1].value
        if count is None:
            raise ValueError("The number of classes of the logits must be known")
        blank %= count
        if blank != count - 1:
            values = arrays.concat(
                [values[:, :, :blank], values[:, :, blank + 1 :], values[:, :, blank : blank + 1]],
                2,
            )
            classes = classes - elementwise.cast(classes > blank, int32)
        shape = constants.constant(np.array([0, 0], np.int64))
        return ctc_loss(
            SparseTensor(elementwise.cast(places, int64), classes, shape),
            values,
            elementwise.cast(convert_to_tensor(logit_length), int32),
            time_major=logits_time_major,
        )


@export("nn.ctc_greedy_decoder")
def ctc_greedy_decoder(
    inputs: Any,
    sequence_length: Any,
    merge_repeated: bool = True,
    blank_index: int | None = None,
) -> tuple[list[SparseTensor], Tensor]:
    """The most likely class at each time, blanks left out.

    Args:
        inputs: [time, batch, classes] logits, the blank as the last class.
        sequence_length: [batch] int32.
        merge_repeated: Whether repeated classes without a blank between them are one.
        blank_index: The class of the blank; the last when None.

    Returns:
        A list of one SparseTensor [batch, time] int64, and [batch, 1] minus the sum of the largest
        logits.
    """
    indices, values, shape, scores = apply_op(
        "CTCGreedyDecoder",
        inputs,
        sequence_length,
        merge_repeated=merge_repeated,
        blank_index=-1 if blank_index is None else blank_index,
    )
    return [SparseTensor(indices, values, shape)], scores


@export("nn.ctc_beam_search_decoder")
def ctc_beam_search_decoder(
    inputs: Any,
    sequence_length: Any,
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
) -> tuple[list[SparseTensor], Tensor]:
    """The label sequences that a beam search finds most likely.

    Args:
        inputs: [time, batch, classes] logits, the blank as the last class.
        sequence_length: [batch] int32.
        beam_width: How many prefixes are followed.
        top_paths: How many sequences to give.
        merge_repeated: Whether repeated labels of a result are one, even around a blank.

    Returns:
        `top_paths` SparseTensors [batch, time] int64, and [batch, top_paths] log probabilities.
    """
    found = apply_op(
        "CTCBeamSearchDecoder",
        inputs,
        sequence_length,
        beam_width=beam_width,
        top_paths=top_paths,
        merge_repeated=merge_repeated,
    )
    parts = [found[i * top_paths : (i + 1) * top_paths] for i in range(3)]
    return [SparseTensor(*each) for each in zip(*parts, strict=True)], found[-1]


@export("nn.ctc_beam_search_decoder_v2")
def ctc_beam_search_decoder_v2(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """`ctc_beam_search_decoder` that keeps repeated labels."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, False)


@export("nn.collapse_repeated")
def collapse_repeated(
    labels: Any, seq_length: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Labels with repeated ones left out.

    Args:
        labels: [batch, labels].
        seq_length: [batch] integers.
        name: Name of the scope.

    Returns:
        [batch, longest] labels with zeros after each row, and [batch] lengths.
    """
    graph = graph_of((labels, seq_length))
    with graph.as_default(), graph.name_scope(name or "collapse_repeated_labels"):
        rows = convert_to_tensor(labels, name="labels")
        lengths = convert_to_tensor(seq_length, name="seq_length")
        count = arrays.shape(rows)[1]
        first = comparison.not_equal(rows[:, :1], rows[:, :1] - 1)
        differs = arrays.concat([first, comparison.not_equal(rows[:, 1:], rows[:, :-1])], 1)
        ends = arrays.expand_dims(elementwise.cast(lengths, int32), 1)
        kept = comparison.logical_and(differs, constants.range(count) < ends)
        numbers = elementwise.cast(kept, int32)
        new_lengths = reduction.reduce_sum(numbers, 1)
        longest = reduction.reduce_max(new_lengths)
        places = comparison.where(kept)
        at = arrays.gather_nd(reduction.cumsum(numbers, 1), places) - 1
        targets = arrays.stack([elementwise.cast(places[:, 0], int32), at], 1)
        shape = arrays.stack([arrays.shape(rows)[0], longest])
        dense = apply_op("ScatterNd", targets, arrays.gather_nd(rows, places), shape)
        return dense, elementwise.cast(new_lengths, lengths.dtype.base)


@export("nn.ctc_unique_labels")
def ctc_unique_labels(labels: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Per row its different labels in order, padded with 0, and where each label is among them.

    Args:
        labels: [batch, labels] integers.
        name: Name of the scope.
    """
    graph = graph_of((labels,))
    with graph.as_default(), graph.name_scope(name or "ctc_unique_labels"):
        rows = convert_to_tensor(labels, name="labels")
        width = rows.shape[1].value
        if width is None:
            raise ValueError("The length of the labels must be known")
        same = comparison.equal(arrays.expand_dims(rows, 2), arrays.expand_dims(rows, 1))
        first = reduction.argmax(elementwise.cast(same, int32), 2, output_type=int32)
        fresh = elementwise.cast(comparison.equal(first, constants.range(width)), int32)
        rank = reduction.cumsum(fresh, 1) - 1
        chosen = arrays.one_hot(first, width, dtype=int32)
        places = reduction.reduce_sum(chosen * arrays.expand_dims(rank, 1), 2)
        slots = arrays.one_hot(rank, width, dtype=int32) * arrays.expand_dims(fresh, 2)
        wide = elementwise.cast(arrays.expand_dims(rows, 2), int32)
        unique = reduction.reduce_sum(slots * wide, 1)
        return elementwise.cast(unique, int64), places
