"""Candidate classes sampled for sampled losses.

Each op draws from its node's random stream (see `random`) and returns the expected count of each
class among the samples. The classes differ from those that TensorFlow draws.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import FILES, Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.random.random import RandomStream, stream_of
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import (
    bool_attr,
    float_attr,
    int_attr,
    list_attr,
    string_attr,
)
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Shape

HostArray = np.ndarray[Any, Any]

_COUNTS = {
    "num_true": int_attr(minimum=1),
    "num_sampled": int_attr(minimum=1),
    "unique": bool_attr(),
}
_RANGE = {"range_max": int_attr(minimum=1)}
_SEEDS = {"seed": int_attr(0), "seed2": int_attr(0)}


class Distribution:
    """The probability of every class; `lock` guards the learned counts.

    Args:
        weights: One non-negative number per class.
        learns: Whether true classes increase their weights.
    """

    def __init__(self, weights: HostArray, learns: bool = False) -> None:
        self._weights = np.asarray(weights, np.float64)
        self._learns = learns
        self.lock = threading.Lock()
        self._refresh()

    def _refresh(self) -> None:
        self.probabilities = self._weights / self._weights.sum()
        self._cumulated = np.cumsum(self.probabilities)
        possible = np.flatnonzero(self.probabilities)
        self._possible = len(possible)
        self._last = int(possible[-1]) if len(possible) else 0

    def learn(self, classes: HostArray) -> None:
        """Counts the classes seen, if the distribution learns."""
        if self._learns:
            np.add.at(self._weights, classes.reshape(-1), 1.0)
            self._refresh()

    def sample(
        self, generator: np.random.Generator, count: int, unique: bool
    ) -> tuple[HostArray, int]:
        """Draws `count` classes; also returns the number of draws.

        Raises:
            InvalidArgumentError: More distinct classes are requested than have a probability.
        """
        if unique and count > self._possible:
            raise InvalidArgumentError(
                message="Sampler's range is too small: "
                f"{count} different classes of {self._possible}"
            )
        if not unique:
            return self._draw(generator, count), count
        found, tries = np.empty(0, np.int64), 0
        while True:
            seen = np.concatenate([found, self._draw(generator, count)])
            places = np.sort(np.unique(seen, return_index=True)[1])  # in order of their first draw
            if len(places) >= count:
                return seen[places[:count]], tries + int(places[count - 1]) + 1 - len(found)
            found, tries = seen[places], tries + count

    def _draw(self, generator: np.random.Generator, count: int) -> HostArray:
        drawn = np.searchsorted(self._cumulated, generator.random(count), side="right")
        return np.minimum(drawn, self._last).astype(np.int64)

    def expected(self, classes: HostArray, count: int, tries: int) -> HostArray:
        """The expected count of each of `classes` among samples that took `tries` draws."""
        chances = self.probabilities[classes]
        if tries == count:
            return np.asarray(chances * count, np.float32)
        return np.asarray(-np.expm1(tries * np.log1p(-chances)), np.float32)


class _Sampler(Op):
    inputs = "true_classes: int64"
    outputs = (
        "sampled_candidates: int64, true_expected_count: float32, sampled_expected_count: float32"
    )
    stateful = True
    keeps_inputs = False
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(num_sampled,), (batch, num_true), (num_sampled,)."""
        true = node.with_rank(0, 2, "true_classes")
        count = node.attrs["num_sampled"]
        return [(count,), (true[0], node.attrs["num_true"]), (count,)]

    def distribution(self, attrs: Mapping[str, Any]) -> Distribution:
        """The distribution of a node with these attributes."""
        raise NotImplementedError(self.op_type)

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., tuple[Array, ...]]:
        """The kernel, with the stream and the distribution of its node in this session."""
        attrs = node.attrs
        seeds = attrs["seed"], attrs["seed2"]
        stream = stream_of(context.session, node.name, RandomStream, lambda: RandomStream(*seeds))
        chances = context.session.get_or_create(
            "", f"{node.name}/classes", Distribution, lambda: self.distribution(attrs)
        )
        count, unique = attrs["num_sampled"], attrs["unique"]

        def kernel(true: Array) -> tuple[Array, ...]:
            _check_true(true, attrs["num_true"], len(chances.probabilities))
            with stream.lock, chances.lock:
                drawn, tries = chances.sample(stream.generator, count, unique)
                result = (
                    drawn,
                    chances.expected(true, count, tries),
                    chances.expected(drawn, count, tries),
                )
                chances.learn(true)
            return result

        return kernel


def _check_true(true: HostArray, num_true: int, classes: int) -> None:
    if true.ndim != 2 or true.shape[1] != num_true:
        raise InvalidArgumentError(
            message=f"true_classes must be [batch, {num_true}], got shape {bracketed(true.shape)}"
        )
    if true.size and (true.min() < 0 or true.max() >= classes):
        raise InvalidArgumentError(
            message=f"true_classes must be in [0, {classes}), got {true.min()} to {true.max()}"
        )


@register
class UniformCandidateSampler(_Sampler):
    """Uniformly distributed classes."""

    attrs = {**_COUNTS, **_RANGE, **_SEEDS}

    def distribution(self, attrs: Mapping[str, Any]) -> Distribution:
        """Equal weights."""
        return Distribution(np.ones(attrs["range_max"]))


@register
class LogUniformCandidateSampler(_Sampler):
    """Classes with probability log((k + 2) / (k + 1)) / log(range_max + 1): Zipf's law."""

    attrs = {**_COUNTS, **_RANGE, **_SEEDS}

    def distribution(self, attrs: Mapping[str, Any]) -> Distribution:
        """The probabilities of the formula."""
        return Distribution(np.log1p(1.0 / np.arange(1, attrs["range_max"] + 1)))


@register
class LearnedUnigramCandidateSampler(_Sampler):
    """Classes weighted by one plus their count as true classes in this session."""

    attrs = {**_COUNTS, **_RANGE, **_SEEDS}

    def distribution(self, attrs: Mapping[str, Any]) -> Distribution:
        """Equal weights to start with."""
        return Distribution(np.ones(attrs["range_max"]), learns=True)


@register
class ThreadUnsafeUnigramCandidateSampler(LearnedUnigramCandidateSampler):
    """The same; TensorFlow's has no lock."""


@register
class FixedUnigramCandidateSampler(_Sampler):
    """Classes weighted by a list or a file, to the power of `distortion`."""

    attrs = {
        **_COUNTS,
        **_RANGE,
        "vocab_file": string_attr(""),
        "distortion": float_attr(1.0),
        "num_reserved_ids": int_attr(0),
        "num_shards": int_attr(1, minimum=1),
        "shard": int_attr(0, minimum=0),
        "unigrams": list_attr("float", []),
        **_SEEDS,
    }
    reaches = frozenset({FILES})

    def reach(self, attrs: Mapping[str, Any]) -> Set[str]:
        """No file if the weights are a list."""
        return self.reaches or frozenset() if attrs["vocab_file"] else frozenset()

    def distribution(self, attrs: Mapping[str, Any]) -> Distribution:
        """The given weights; 0 for other shards and for reserved ids.

        Raises:
            InvalidArgumentError: Not exactly one of file and list, or not one weight per class.
        """
        if bool(attrs["vocab_file"]) == bool(attrs["unigrams"]):
            raise InvalidArgumentError(
                message="Must provide either vocab_file or unigrams, and not both"
            )
        given = list(attrs["unigrams"]) or _last_columns(attrs["vocab_file"])
        weights = np.array([0.0] * attrs["num_reserved_ids"] + given) ** attrs["distortion"]
        weights[: attrs["num_reserved_ids"]] = 0.0
        if len(weights) != attrs["range_max"]:
            raise InvalidArgumentError(
                message=f"range_max is {attrs['range_max']}, but there are {len(weights)} weights"
            )
        mine = np.arange(len(weights)) % attrs["num_shards"] == attrs["shard"]
        return Distribution(np.where(mine, weights, 0.0))


def _last_columns(path: str) -> list[float]:
    """The number after the last comma of every line."""
    with open(path, encoding="utf-8") as lines:
        return [float(line.rpartition(",")[2]) for line in lines if line.strip()]


@register
class AllCandidateSampler(_Sampler):
    """Every class once, in order."""

    attrs = {**_COUNTS, **_SEEDS}

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., tuple[Array, ...]]:
        """The kernel."""
        count = node.attrs["num_sampled"]

        def kernel(true: Array) -> tuple[Array, ...]:
            _check_true(true, node.attrs["num_true"], count)
            ones = np.ones(count, np.float32)
            return np.arange(count, dtype=np.int64), np.ones(true.shape, np.float32), ones

        return kernel


@register
class ComputeAccidentalHits(Op):
    """Accidental hits, samples that are true classes: (row, position, a very negative weight)."""

    inputs = "true_classes: int64, sampled_candidates: int64"
    outputs = "indices: int32, ids: int64, weights: float32"
    attrs = {"num_true": int_attr(), **_SEEDS}
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Three vectors of one unknown length."""
        node.with_rank(0, 2, "true_classes")
        node.with_rank(1, 1, "sampled_candidates")
        return [(None,), (None,), (None,)]

    def compute(
        self, xp: Any, true: Array, sampled: Array, *, num_true: int
    ) -> tuple[Array, Array, Array]:
        """The hits, row by row.

        Raises:
            InvalidArgumentError: `true` is not [batch, num_true].
        """
        if true.ndim != 2 or true.shape[1] != num_true:
            raise InvalidArgumentError(
                message=f"true_classes must be [batch, {num_true}], "
                f"got shape {bracketed(true.shape)}"
            )
        rows, _, places = np.nonzero(true[:, :, None] == sampled)
        weights = np.full(rows.shape, np.finfo(np.float32).min, np.float32)
        return rows.astype(np.int32), places.astype(np.int64), weights
