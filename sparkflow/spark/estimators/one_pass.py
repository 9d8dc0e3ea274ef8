"""All metrics of an evaluation in one pass over the predictions: one Spark job of one stage.

Each task sums its rows up in a few numbers, and the driver adds these. The definitions are those of
pyspark.ml's evaluators, but the areas under curves are exact instead of binned as long as a task
has few enough distinct scores.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkflow_runtime.resources.datasets.arrow_columns import floats

SUMS_SCHEMA: Final = "sums string"

_LEAST_PROBABILITY: Final = 1e-15  # of MulticlassClassificationEvaluator(metricName="logLoss")
_KEPT_SCORES: Final = 1 << 16
"""The maximum number of distinct scores, per task and in total; beyond it neighbours are merged."""

Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class ClassSums:
    """The aggregates of classified rows.

    Attributes:
        confusion: Weights by (label, prediction).
        loss: The sum of weighted log losses.
        scores: [n], the distinct scores of the second of two classes, in ascending order.
        positive: [n], the weight of rows with label 1 at each score.
        negative: [n], the same for label 0.
    """

    confusion: dict[tuple[float, float], float] = field(default_factory=dict)
    loss: float = 0.0
    scores: Floats = field(default_factory=lambda: np.zeros(0))
    positive: Floats = field(default_factory=lambda: np.zeros(0))
    negative: Floats = field(default_factory=lambda: np.zeros(0))

    def add(
        self, labels: Floats, predictions: Floats, own: Floats, scores: Floats, weights: Floats
    ) -> None:
        """Adds rows.

        Args:
            labels: [n] classes.
            predictions: [n] classes.
            own: [n], the probability of each row's label.
            scores: [n], see above; empty for more than two classes.
            weights: [n].
        """
        pairs, places = np.unique(np.stack([labels, predictions], 1), axis=0, return_inverse=True)
        sums = np.bincount(places.ravel(), weights, len(pairs))
        for (label, prediction), weight in zip(pairs.tolist(), sums.tolist(), strict=True):
            key = (label, prediction)
            self.confusion[key] = self.confusion.get(key, 0.0) + weight
        clipped = np.clip(own, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
        self.loss -= float(np.dot(weights, np.log(clipped)))
        if len(scores):
            is_positive = labels > 0.5  # as BinaryClassificationEvaluator has it
            self._join(scores, np.where(is_positive, weights, 0), np.where(is_positive, 0, weights))

    def merge(self, other: ClassSums) -> None:
        """Adds the aggregates of another instance."""
        for key, weight in other.confusion.items():
            self.confusion[key] = self.confusion.get(key, 0.0) + weight
        self.loss += other.loss
        if len(other.scores):
            self._join(other.scores, other.positive, other.negative)

    def _join(self, scores: Floats, positive: Floats, negative: Floats) -> None:
        every = np.concatenate([self.scores, scores])
        self.scores, places = np.unique(every, return_inverse=True)
        count = len(self.scores)
        both = np.concatenate([self.positive, positive]), np.concatenate([self.negative, negative])
        self.positive, self.negative = (
            np.bincount(places, each, count).astype(np.float64) for each in both
        )
        if count > 2 * _KEPT_SCORES:
            starts = np.arange(0, count, -(-count // _KEPT_SCORES))
            self.scores = self.scores[starts]
            self.positive = np.add.reduceat(self.positive, starts)
            self.negative = np.add.reduceat(self.negative, starts)

    def metrics(self) -> dict[str, float]:
        """Returns accuracy, f1, weightedPrecision, weightedRecall, logLoss and areas."""
        total = sum(self.confusion.values())
        labels = sorted({label for label, _ in self.confusion})
        shares, precisions, recalls, f1s = ([0.0] * len(labels) for _ in range(4))
        for index, label in enumerate(labels):
            hit = self.confusion.get((label, label), 0.0)
            actual = sum(w for (each, _), w in self.confusion.items() if each == label)
            called = sum(w for (_, each), w in self.confusion.items() if each == label)
            precisions[index] = hit / called if called else 0.0
            recalls[index] = hit / actual if actual else 0.0
            both = precisions[index] + recalls[index]
            f1s[index] = 2 * precisions[index] * recalls[index] / both if both else 0.0
            shares[index] = actual / total if total else 0.0
        hits = sum(w for (label, prediction), w in self.confusion.items() if label == prediction)
        found = {
            "accuracy": hits / total if total else float("nan"),
            "f1": float(np.dot(shares, f1s)),
            "weightedPrecision": float(np.dot(shares, precisions)),
            "weightedRecall": float(np.dot(shares, recalls)),
            "logLoss": self.loss / total if total else float("nan"),
        }
        return {**found, **self._areas()} if len(self.scores) else found

    def _areas(self) -> dict[str, float]:
        # From the highest score down: what is classified as positive with each score as threshold.
        true, false = np.cumsum(self.positive[::-1]), np.cumsum(self.negative[::-1])
        with np.errstate(divide="ignore", invalid="ignore"):
            recall = np.where(true[-1] > 0, true / true[-1], 0.0)
            fall_out = np.where(false[-1] > 0, false / false[-1], 0.0)
            precision = np.where(true + false > 0, true / (true + false), 1.0)
        return {
            "areaUnderROC": _area([0.0, *fall_out, 1.0], [0.0, *recall, 1.0]),
            "areaUnderPR": _area([0.0, *recall], [precision[0], *precision]),
        }

    def to_json(self) -> dict[str, Any]:
        """Returns it as values for JSON."""
        return {
            "confusion": [[*key, weight] for key, weight in self.confusion.items()],
            "loss": self.loss,
            "curve": _packed(np.stack([self.scores, self.positive, self.negative])),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ClassSums:
        """Reads what `to_json` wrote."""
        confusion = {(label, prediction): w for label, prediction, w in value["confusion"]}
        return cls(confusion, value["loss"], *_unpacked(value["curve"]))


@dataclass(slots=True)
class NumberSums:
    """The aggregates of regression rows.

    Attributes:
        weight: The total weight of the rows.
        mean: The weighted mean of the labels.
        spread: The weighted sum of squared deviations of the labels from their mean.
        squares: The weighted sum of squared errors.
        absolutes: The weighted sum of absolute errors.
    """

    weight: float = 0.0
    mean: float = 0.0
    spread: float = 0.0
    squares: float = 0.0
    absolutes: float = 0.0

    def add(self, labels: Floats, predictions: Floats, weights: Floats) -> None:
        """Adds rows: [n] labels, predictions and weights."""
        total = float(weights.sum())
        if not total:
            return
        mean = float(np.dot(weights, labels)) / total
        error = labels - predictions
        self.merge(
            NumberSums(
                total,
                mean,
                float(np.dot(weights, (labels - mean) ** 2)),
                float(np.dot(weights, error**2)),
                float(np.dot(weights, np.abs(error))),
            )
        )

    def merge(self, other: NumberSums) -> None:
        """Adds the aggregates of another instance (Chan, Golub, LeVeque 1979)."""
        total = self.weight + other.weight
        if not total:
            return
        apart = other.mean - self.mean
        self.spread += other.spread + apart**2 * self.weight * other.weight / total
        self.mean += apart * other.weight / total
        self.weight = total
        self.squares += other.squares
        self.absolutes += other.absolutes

    def metrics(self) -> dict[str, float]:
        """Returns rmse, mse, mae and r2."""
        if not self.weight:
            return dict.fromkeys(("rmse", "mse", "mae", "r2"), float("nan"))
        mse = self.squares / self.weight
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = float(1.0 - np.float64(self.squares) / np.float64(self.spread))
        return {
            "rmse": float(np.sqrt(mse)),
            "mse": mse,
            "mae": self.absolutes / self.weight,
            "r2": r2,
        }

    def to_json(self) -> dict[str, Any]:
        """Returns it as values for JSON."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> NumberSums:
        """Reads what `to_json` wrote."""
        return cls(**{each.name: value[each.name] for each in fields(cls)})


def add_classes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns the function for `mapInArrow`: sums up label, prediction, own, weight and score.

    Scores exist for two classes only. A class is predicted even if probabilities are NaN.
    """
    sums, invalid = ClassSums(), 0
    for batch in batches:
        labels, predictions, own, weights, *scores = _columns(batch)
        # Scores may be infinite, but tanh of NaN is NaN.
        bad = _count_invalid(weights, labels, predictions, own, *map(np.tanh, scores))
        invalid += bad
        if not bad:
            sums.add(labels, predictions, own, scores[0] if scores else np.zeros(0), weights)
    yield _told({**sums.to_json(), "invalid": invalid})


def add_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns the same function for label, prediction and weight."""
    sums, invalid = NumberSums(), 0
    for batch in batches:
        labels, predictions, weights = _columns(batch)
        bad = _count_invalid(weights, labels, predictions)
        invalid += bad
        if not bad:
            sums.add(labels, predictions, weights)
    yield _told({**sums.to_json(), "invalid": invalid})


def _columns(batch: pa.RecordBatch) -> list[Floats]:
    """Returns the columns; nulls become NaNs."""
    return [floats(column) for column in batch.columns]


def _count_invalid(weights: Floats, *others: Floats) -> int:
    fine = np.isfinite(weights) & (weights >= 0)
    for each in others:
        fine &= np.isfinite(each)
    return int(np.count_nonzero(~fine))


def _told(value: Mapping[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"sums": pa.array([json.dumps(value)], pa.string())})


def _area(x: list[float], y: list[float]) -> float:
    """Computes the area under a curve by the trapezoidal rule."""
    across, up = np.asarray(x), np.asarray(y)
    return float(np.sum(np.diff(across) * (up[1:] + up[:-1]) / 2))


def _packed(values: Floats) -> str:
    # The driver receives one string per task: 4 MB each would exceed Spark's limit on results.
    # Bytes of equal significance are stored together; those of neighbouring scores differ little.
    planes = np.ascontiguousarray(values, "<f8").view(np.uint8).reshape(-1, 8).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 1)).decode()


def _unpacked(text: str) -> tuple[Floats, Floats, Floats]:
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(8, -1)
    values = np.ascontiguousarray(planes.T).view("<f8").reshape(3, -1).astype(np.float64)
    return values[0], values[1], values[2]
