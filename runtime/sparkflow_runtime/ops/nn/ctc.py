"""Connectionist temporal classification (Graves et al. 2006): loss and decoders.

The loss is computed by machine code if there is any; else, and for the decoders, Python loops over
examples and times. All is computed in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.rows import alignments
from sparkflow_runtime.dtypes import float32, float64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, type_attr
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Shape, merge_dims

HostArray = np.ndarray[Any, Any]
_REAL = {"T": type_attr(frozenset({float32, float64}), float32)}


def _log_softmax(logits: HostArray) -> HostArray:
    wide = logits.astype(np.float64)
    wide = wide - wide.max(axis=-1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True)))


def _check_inputs(inputs: HostArray, lengths: HostArray) -> None:
    if inputs.ndim != 3:
        raise InvalidArgumentError(message="inputs is not a 3-Tensor")
    if lengths.shape != (inputs.shape[1],):
        raise InvalidArgumentError(
            message=f"len(sequence_length) != batch_size. len(sequence_length): "
            f"{bracketed(lengths.shape)} batch_size: {inputs.shape[1]}"
        )
    if lengths.size and lengths.max() > inputs.shape[0]:
        raise InvalidArgumentError(
            message=f"sequence_length({int(lengths.argmax())}) <= {inputs.shape[0]}"
        )


def _labels(
    indices: HostArray, values: HostArray, batch: int, classes: int, collapse: bool
) -> tuple[HostArray, HostArray]:
    """The labels of all examples in order, int32, and where those of each begin, int64.

    Raises:
        InvalidArgumentError: The parts are not a sparse matrix, or a number is out of range.
    """
    if indices.ndim != 2 or indices.shape[1] != 2 or values.shape != indices.shape[:1]:
        raise InvalidArgumentError(
            message="labels_indices and labels_values must contain the same number of rows, but "
            f"saw shapes: {bracketed(indices.shape)} vs. {bracketed(values.shape)}"
        )
    rows, labels = indices[:, 0].copy(), values.astype(np.int32)
    is_outside = (rows < 0) | (rows >= batch)
    is_wrong = is_outside | (labels < 0) | (labels >= classes - 1)
    if is_wrong.any():
        at = int(is_wrong.argmax())
        if is_outside[at]:
            raise InvalidArgumentError(
                message=f"labels batch index {rows[at]} is not in [0, {batch})"
            )
        raise InvalidArgumentError(
            message=f"Saw a non-null label (index >= num_classes - 1) following a null label, "
            f"batch: {rows[at]} num_classes: {classes} labels: {labels[at]}"
        )
    if (rows[1:] < rows[:-1]).any():
        order = np.argsort(rows, kind="stable")
        rows, labels = rows[order], labels[order]
    if collapse and rows.size:
        differs = (rows[1:] != rows[:-1]) | (labels[1:] != labels[:-1])
        kept = np.concatenate([[True], differs])
        rows, labels = rows[kept], labels[kept]
    return labels, np.searchsorted(rows, np.arange(batch + 1))


def _times(lengths: HostArray, starts: HostArray, ignores: bool) -> HostArray:
    """The lengths to use: 0 for examples without loss.

    Args:
        lengths: [batch] as given, int64.
        starts: See `_labels`.
        ignores: Whether examples of more labels than times have no loss.

    Raises:
        InvalidArgumentError: There is one, and they are not ignored.
    """
    counts = np.diff(starts)
    is_short = (lengths != 0) & (counts > lengths)
    if not is_short.any():
        return lengths
    if not ignores:
        b = int(is_short.argmax())
        raise InvalidArgumentError(
            message=f"Not enough time for target transition sequence "
            f"(required: {counts[b]}, available: {lengths[b]}){b}You can turn this error "
            "into a warning by using the flag ignore_longer_outputs_than_inputs"
        )
    return np.where(is_short, 0, lengths)


def _losses(
    inputs: HostArray, labels: HostArray, starts: HostArray, lengths: HostArray, merge: bool
) -> tuple[HostArray, HostArray]:
    """What `alignments.losses` computes."""
    loss = np.zeros(inputs.shape[1], inputs.dtype)
    gradient = np.zeros_like(inputs)
    log_y = _log_softmax(inputs) if inputs.size else inputs
    for b in np.nonzero(lengths)[0]:
        ours = labels[starts[b] : starts[b + 1]].tolist()
        likely = log_y[: lengths[b], b]
        loss[b], occupied = _loss(likely, ours, merge)
        gradient[: lengths[b], b] = np.exp(likely) - occupied
    return loss, gradient


def _loss(log_y: HostArray, labels: list[int], merge: bool) -> tuple[float, HostArray]:
    """The loss of one sequence, and the occupancy [time, classes] of its alignments.

    Args:
        log_y: [time, classes] log probabilities, the blank last.
        labels: The target classes.
        merge: Whether repeated classes are merged.
    """
    time, classes = log_y.shape
    path = np.full(2 * len(labels) + 1, classes - 1)
    path[1::2] = labels
    # Skipping the blank between two labels; between different ones only if repeats are merged.
    skips = np.zeros(len(path), bool)
    skips[3::2] = path[3::2] != path[1:-2:2] if merge else True
    stays = np.full(len(path), True) if merge else path == classes - 1
    emitted = log_y[:, path]
    forward = _alignments(emitted, skips, stays)
    backward = _alignments(emitted[::-1, ::-1], _mirrored(skips), stays[::-1])[::-1, ::-1]
    with np.errstate(invalid="ignore"):
        total = np.logaddexp.reduce(forward[-1, -2:]) if len(path) > 1 else forward[-1, -1]
    occupied = np.full((time, classes), -np.inf)
    with np.errstate(invalid="ignore"):
        joint = np.where(np.isneginf(emitted), -np.inf, forward + backward - emitted)
    for place, label in enumerate(path):
        occupied[:, label] = np.logaddexp(occupied[:, label], joint[:, place])
    if np.isneginf(total):
        return np.inf, np.zeros((time, classes))
    return -float(total), np.exp(occupied - total)


def _mirrored(skips: HostArray) -> HostArray:
    """Where the reversed path may skip: the same pairs from the other end."""
    result = np.zeros_like(skips)
    result[2:] = skips[::-1][:-2]
    return result


def _alignments(emitted: HostArray, skips: HostArray, stays: HostArray) -> HostArray:
    """The log of the summed probabilities of all paths to each position at each time."""
    time, places = emitted.shape
    result = np.full((time, places), -np.inf)
    result[0, :2] = emitted[0, :2]
    for t in range(1, time):
        before = result[t - 1]
        ways = np.where(stays, before, -np.inf)
        ways[1:] = np.logaddexp(ways[1:], before[:-1])
        ways[2:] = np.logaddexp(ways[2:], np.where(skips[2:], before[:-2], -np.inf))
        result[t] = ways + emitted[t]
    return result


@register
class CTCLoss(Op):
    """Minus the log probability of the labels, summed over alignments; and its gradient."""

    inputs = "inputs: T, labels_indices: int64, labels_values: int32, sequence_length: int32"
    outputs = "loss: T, gradient: T"
    attrs = {
        "preprocess_collapse_repeated": bool_attr(False),
        "ctc_merge_repeated": bool_attr(True),
        "ignore_longer_outputs_than_inputs": bool_attr(False),
        **_REAL,
    }
    kernels = {"CPU": None}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch,), and the shape of the inputs."""
        inputs = node.with_rank(0, 3, "inputs")
        node.with_rank(1, 2, "labels_indices")
        node.with_rank(2, 1, "labels_values")
        (count,) = node.with_rank(3, 1, "sequence_length")
        batch = merge_dims(inputs[1], count)
        return [(batch,), (inputs[0], batch, inputs[2])]

    def compute(
        self,
        xp: Any,
        inputs: Array,
        indices: Array,
        values: Array,
        lengths: Array,
        *,
        preprocess_collapse_repeated: bool,
        ctc_merge_repeated: bool,
        ignore_longer_outputs_than_inputs: bool,
    ) -> tuple[Array, Array]:
        """Losses, and gradients with respect to the logits.

        Raises:
            InvalidArgumentError: The shapes do not fit, a label is not a class, or there are more
                labels than time.
        """
        # Here and in `_labels` copies are checked: machine code relies on it, and the tensors may
        # be variables that change concurrently
        lengths = lengths.astype(np.int64)
        _check_inputs(inputs, lengths)
        _, batch, classes = inputs.shape
        labels, starts = _labels(indices, values, batch, classes, preprocess_collapse_repeated)
        times = _times(lengths, starts, ignore_longer_outputs_than_inputs)
        found = alignments.losses(inputs, labels, starts, times, ctc_merge_repeated)
        return found or _losses(inputs, labels, starts, times, ctc_merge_repeated)

    def gradient(
        self, g: GraphBuilder, op: OperationView, dy: Tensor | None, _: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """The second output times the gradient per example; there is no second derivative."""
        if dy is None:
            return None, None, None, None
        fixed = g.PreventGradient(
            op.outputs[1],
            message="Currently there is no way to take the second derivative of ctc_loss due to "
            "the fused implementation's interaction with tf.gradients()",
        )
        each = g.Reshape(dy, np.array([1, -1, 1], np.int32))
        return g.Mul(each, fixed), None, None, None


@register
class CTCGreedyDecoder(Op):
    """The most likely class at each time, without blanks and (optionally) repeats."""

    inputs = "inputs: T, sequence_length: int32"
    outputs = (
        "decoded_indices: int64, decoded_values: int64, decoded_shape: int64, log_probability: T"
    )
    attrs = {"merge_repeated": bool_attr(False), "blank_index": int_attr(-1), **_REAL}
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """A sparse matrix, and (batch, 1)."""
        inputs = node.with_rank(0, 3, "inputs")
        (count,) = node.with_rank(1, 1, "sequence_length")
        return [(None, 2), (None,), (2,), (merge_dims(inputs[1], count), 1)]

    def compute(
        self, xp: Any, inputs: Array, lengths: Array, *, merge_repeated: bool, blank_index: int
    ) -> tuple[Array, ...]:
        """Decoded classes as a sparse matrix, and minus the sum of the largest logits."""
        _check_inputs(inputs, lengths)
        _, batch, classes = inputs.shape
        blank = blank_index % classes
        best = inputs.argmax(axis=2)
        largest = inputs.max(axis=2) if inputs.size else np.zeros(inputs.shape[:2], inputs.dtype)
        rows, scores = [], np.zeros((batch, 1), inputs.dtype)
        for b in range(batch):
            found = best[: int(lengths[b]), b]
            scores[b, 0] = -largest[: int(lengths[b]), b].sum()
            keep = found != blank
            if merge_repeated:
                keep[1:] &= found[1:] != found[:-1]
            rows.append(found[keep].tolist())
        return (*_sparse(rows), scores)


def _sparse(rows: list[list[int]]) -> tuple[HostArray, HostArray, HostArray]:
    """Rows of classes as a sparse matrix: indices, values, shape."""
    indices = [(b, i) for b, row in enumerate(rows) for i in range(len(row))]
    values = [value for row in rows for value in row]
    width = max((len(row) for row in rows), default=0)
    return (
        np.array(indices, np.int64).reshape(-1, 2),
        np.array(values, np.int64),
        np.array([len(rows), width], np.int64),
    )


def _beams(log_y: HostArray, width: int) -> list[tuple[tuple[int, ...], float]]:
    """The most likely label sequences of one example, best first.

    Prefix beam search: per prefix the log probabilities of ending in a blank and in its last label.
    """
    blank = log_y.shape[1] - 1
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -np.inf)}
    for row in log_y:
        following: dict[tuple[int, ...], list[float]] = {}

        def add(
            prefix: tuple[int, ...],
            slot: int,
            value: float,
            into: dict[tuple[int, ...], list[float]] = following,
        ) -> None:
            ends = into.setdefault(prefix, [-np.inf, -np.inf])
            ends[slot] = float(np.logaddexp(ends[slot], value))

        for prefix, (in_blank, in_label) in beams.items():
            total = float(np.logaddexp(in_blank, in_label))
            add(prefix, 0, total + row[blank])
            if prefix:
                add(prefix, 1, in_label + row[prefix[-1]])
            for label in range(blank):
                start = in_blank if prefix and label == prefix[-1] else total
                if start > -np.inf:
                    add((*prefix, label), 1, start + row[label])
        ranked = sorted(following.items(), key=lambda item: -np.logaddexp(item[1][0], item[1][1]))
        beams = {prefix: (ends[0], ends[1]) for prefix, ends in ranked[:width]}
    return [(prefix, float(np.logaddexp(*ends))) for prefix, ends in beams.items()]


@register
class CTCBeamSearchDecoder(Op):
    """The label sequences that a beam search finds most likely."""

    inputs = "inputs: T, sequence_length: int32"
    outputs = (
        "decoded_indices: top_paths * int64, decoded_values: top_paths * int64, "
        "decoded_shape: top_paths * int64, log_probability: T"
    )
    attrs = {
        "beam_width": int_attr(minimum=1),
        "top_paths": int_attr(minimum=1),
        "merge_repeated": bool_attr(True),
        **_REAL,
    }
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Sparse matrices, and (batch, top_paths)."""
        inputs = node.with_rank(0, 3, "inputs")
        (count,) = node.with_rank(1, 1, "sequence_length")
        paths = node.attrs["top_paths"]
        parts: list[Shape] = [*[(None, 2)] * paths, *[(None,)] * paths, *[(2,)] * paths]
        return [*parts, (merge_dims(inputs[1], count), paths)]

    def compute(
        self,
        xp: Any,
        inputs: Array,
        lengths: Array,
        *,
        beam_width: int,
        top_paths: int,
        merge_repeated: bool,
    ) -> tuple[Array, ...]:
        """The best sequences of every example, and their log probabilities.

        Raises:
            InvalidArgumentError: The beam is narrower than the number of paths.
        """
        _check_inputs(inputs, lengths)
        if beam_width < top_paths:
            raise InvalidArgumentError(message="Requested more leaves than the beam search width.")
        batch = inputs.shape[1]
        log_y = _log_softmax(inputs) if inputs.size else inputs
        paths: list[list[list[int]]] = [[] for _ in range(top_paths)]
        scores = np.full((batch, top_paths), -np.inf, inputs.dtype)
        for b in range(batch):
            found = _beams(log_y[: int(lengths[b]), b], beam_width)
            if len(found) < top_paths:
                raise InvalidArgumentError(message="Less leaves in the beam search than requested.")
            for i, (prefix, score) in enumerate(found[:top_paths]):
                labels = list(prefix)
                if merge_repeated:
                    labels = [x for j, x in enumerate(labels) if j == 0 or x != labels[j - 1]]
                paths[i].append(labels)
                scores[b, i] = score
        matrices = [_sparse(rows) for rows in paths]
        parts = [matrix[part] for part in range(3) for matrix in matrices]
        return (*parts, scores)
