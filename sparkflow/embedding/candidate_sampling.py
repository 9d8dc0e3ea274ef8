"""Candidate samplers, and the losses computed on a sample of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sparkflow._api import export
from sparkflow.embedding.lookup import embedding_lookup
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.linalg import linalg
from sparkflow.ops.nn.cross_entropy import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
)
from sparkflow.ops.random.random import op_seeds
from sparkflow.ops.reduction import reduction
from sparkflow.ops.shape import arrays, constants
from sparkflow.variables.partitioned import PartitionedVariable
from sparkflow_runtime.dtypes import int32, int64

Samples = tuple[Tensor, Tensor, Tensor]
"""[num_sampled] classes; [batch, num_true] and [num_sampled] expected counts."""


def _sampled(
    op_type: str, true_classes: Any, seed: int | None, name: str | None, **attrs: Any
) -> Samples:
    first, second = op_seeds(seed)
    drawn, true, sampled = apply_op(
        op_type, true_classes, seed=first, seed2=second, name=name, **attrs
    )
    return drawn, true, sampled


@export("nn.uniform_candidate_sampler", "random.uniform_candidate_sampler")
def uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """Samples classes in [0, range_max), all with the same probability.

    Args:
        true_classes: [batch, num_true] int64.
        num_true: True classes per example.
        num_sampled: The number of samples.
        unique: Whether the samples must differ from each other.
        range_max: The number of classes.
        seed: Seed of the draws.
        name: Name of the node.
    """
    return _sampled(
        "UniformCandidateSampler", true_classes, seed, name,
        num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max,
    )  # fmt: skip


@export("nn.log_uniform_candidate_sampler", "random.log_uniform_candidate_sampler")
def log_uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """Samples classes by Zipf's law, small ids most often; see `uniform_candidate_sampler`."""
    return _sampled(
        "LogUniformCandidateSampler", true_classes, seed, name,
        num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max,
    )  # fmt: skip


@export("nn.learned_unigram_candidate_sampler", "random.learned_unigram_candidate_sampler")
def learned_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """Samples classes as often as they were true classes; see `uniform_candidate_sampler`."""
    return _sampled(
        "LearnedUnigramCandidateSampler", true_classes, seed, name,
        num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max,
    )  # fmt: skip


@export("nn.fixed_unigram_candidate_sampler", "random.fixed_unigram_candidate_sampler")
def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """Samples classes by given weights; see `uniform_candidate_sampler`.

    Args:
        true_classes: [batch, num_true] int64.
        num_true: True classes per example.
        num_sampled: The number of samples.
        unique: Whether the samples must differ from each other.
        range_max: The number of classes.
        vocab_file: A file whose lines end with a comma and a weight.
        distortion: The power to which weights are raised.
        num_reserved_ids: The number of ids before the first one with a weight; they are not drawn.
        num_shards: Only one in `num_shards` ids can be drawn, ...
        shard: ... the first of them being this one.
        unigrams: The weights, instead of a file.
        seed: Seed of the draws.
        name: Name of the node.
    """
    return _sampled(
        "FixedUnigramCandidateSampler", true_classes, seed, name,
        num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max,
        vocab_file=vocab_file, distortion=distortion, num_reserved_ids=num_reserved_ids,
        num_shards=num_shards, shard=shard, unigrams=[float(each) for each in unigrams],
    )  # fmt: skip


@export("nn.all_candidate_sampler", "random.all_candidate_sampler")
def all_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """Returns all `num_sampled` classes, for tests; see `uniform_candidate_sampler`."""
    return _sampled(
        "AllCandidateSampler", true_classes, seed, name,
        num_true=num_true, num_sampled=num_sampled, unique=unique,
    )  # fmt: skip


class ComputeAccidentalHits(NamedTuple):
    """The rows and positions of samples that are true classes, and very negative weights."""

    indices: Tensor
    ids: Tensor
    weights: Tensor


@export("nn.compute_accidental_hits")
def compute_accidental_hits(
    true_classes: Any,
    sampled_candidates: Any,
    num_true: int,
    seed: int | None = None,
    name: str | None = None,
) -> ComputeAccidentalHits:
    """Finds samples that happen to be true classes: rows, positions, very negative weights."""
    first, second = op_seeds(seed)
    rows, places, weights = apply_op(
        "ComputeAccidentalHits",
        true_classes,
        sampled_candidates,
        num_true=num_true,
        seed=first,
        seed2=second,
        name=name,
    )
    return ComputeAccidentalHits(rows, places, weights)


def _pieces(value: Any) -> list[Any]:
    if isinstance(value, PartitionedVariable):
        return list(value)
    return list(value) if isinstance(value, list | tuple) else [value]


def _sampled_logits(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: Samples | None,
    remove_accidental_hits: bool,
    partition_strategy: str,
    seed: int | None,
) -> tuple[Tensor, Tensor]:
    """Logits of the true classes, then of the samples, minus the log of their expected counts.

    Returns:
        Logits and labels, both [batch, num_true + num_sampled].
    """
    features = convert_to_tensor(inputs)
    kind = features.dtype.base
    wanted = convert_to_tensor(labels)
    if wanted.dtype.base is not int64:
        wanted = elementwise.cast(wanted, int64)
    flat = arrays.reshape(wanted, [-1])
    if sampled_values is None:
        sampled_values = log_uniform_candidate_sampler(
            wanted, num_true, num_sampled, True, num_classes, seed
        )
    drawn, true_expected, sampled_expected = (
        apply_op("StopGradient", each) for each in sampled_values
    )
    drawn = elementwise.cast(drawn, int64)
    ids = arrays.concat([flat, drawn], 0)
    table = _pieces(weights)
    rows = embedding_lookup(table, ids, partition_strategy=partition_strategy)
    offsets = embedding_lookup(_pieces(biases), ids, partition_strategy=partition_strategy)
    true_count = arrays.shape(flat)[0]
    rows, offsets = (
        each if each.dtype.base is kind else elementwise.cast(each, kind)
        for each in (rows, offsets)
    )
    true_rows, true_offsets = rows[:true_count], offsets[:true_count]
    sampled_rows, sampled_offsets = rows[true_count:], offsets[true_count:]
    sampled_logits = linalg.matmul(features, sampled_rows, transpose_b=True)
    width = arrays.shape(true_rows)[1:2]
    shaped = arrays.reshape(true_rows, arrays.concat([[-1, num_true], width], 0))
    products = elementwise.multiply(arrays.expand_dims(features, 1), shaped)
    true_logits = reduction.reduce_sum(products, 2)
    true_logits = true_logits + arrays.reshape(true_offsets, [-1, num_true])
    sampled_logits = sampled_logits + sampled_offsets
    if remove_accidental_hits:
        hit_rows, hit_places, hit_weights = compute_accidental_hits(
            wanted, drawn, num_true=num_true
        )
        indices = arrays.stack([hit_rows, elementwise.cast(hit_places, int32)], 1)
        shift = apply_op(
            "ScatterNd", indices, elementwise.cast(hit_weights, kind), arrays.shape(sampled_logits)
        )
        sampled_logits = sampled_logits + shift
    true_logits = true_logits - elementwise.cast(elementwise.log(true_expected), kind)
    sampled_logits = sampled_logits - elementwise.cast(elementwise.log(sampled_expected), kind)
    logits = arrays.concat([true_logits, sampled_logits], 1)
    targets = arrays.concat(
        [constants.ones_like(true_logits) / num_true, constants.zeros_like(sampled_logits)], 1
    )
    return logits, targets


@export("nn.nce_loss")
def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Samples | None = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str = "nce_loss",
) -> Tensor:
    """The noise-contrastive estimation loss (Gutmann and Hyvärinen 2010).

    Args:
        weights: [num_classes, width], or a list of shards.
        biases: [num_classes], or a list of shards.
        labels: [batch, num_true] int64.
        inputs: [batch, width].
        num_sampled: The number of classes to sample per batch.
        num_classes: The number of classes.
        num_true: True classes per example.
        sampled_values: The result of a sampler; of `log_uniform_candidate_sampler` when None.
        remove_accidental_hits: Whether samples that are true classes are ignored.
        partition_strategy: As for `embedding_lookup`.
        name: Name of the scope.

    Returns:
        [batch] losses.
    """
    graph = graph_of((*_pieces(weights), inputs, labels))
    with graph.as_default(), graph.name_scope(name or "nce_loss"):
        logits, targets = _sampled_logits(
            weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
            remove_accidental_hits, partition_strategy, None,
        )  # fmt: skip
        losses = sigmoid_cross_entropy_with_logits(
            labels=targets, logits=logits, name="sampled_losses"
        )
        return reduction.reduce_sum(losses, 1)


@export("nn.sampled_softmax_loss")
def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Samples | None = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> Tensor:
    """Softmax cross entropy over the true classes and a sample of the others (Jean et al. 2014).

    Arguments and result as for `nce_loss`; `seed` is that of the sampler.
    """
    graph = graph_of((*_pieces(weights), inputs, labels))
    with graph.as_default(), graph.name_scope(name or "sampled_softmax_loss"):
        logits, targets = _sampled_logits(
            weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
            remove_accidental_hits, partition_strategy, seed,
        )  # fmt: skip
        fixed = apply_op("StopGradient", targets, name="labels_stop_gradient")
        return softmax_cross_entropy_with_logits_v2(labels=fixed, logits=logits)
