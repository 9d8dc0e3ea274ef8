"""The Params of wide and deep estimators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sparkflow.spark.estimators.converters import (
    column_list,
    crosses,
    integer_by_column,
    positive,
)
from sparkflow.spark.estimators.optimizers import OPTIMIZERS
from sparkflow.spark.params.aliases import ParamAliases, Self
from sparkflow.spark.params.converters import choice, param


class WideParams(ParamAliases):
    """Which columns go where, and how the wide part learns."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "wideCols": [],
        "deepCols": [],
        "crossCols": [],
        "categoricalCols": [],
        "numericCols": [],
        "embeddingDim": 8,
        "hashBuckets": 1000,
        "wideOptimizer": "Ftrl",
        "wideLearningRate": 0.1,
    }

    wideCols = param(
        "wideCols",
        "columns of the wide part: each text or integer has a weight of its own, numbers are "
        "weighed",
        column_list,
    )
    deepCols = param(
        "deepCols",
        "columns of the deep part: texts, integers and lists of them are embedded, numbers, "
        "vectors and arrays of numbers are taken as they are",
        column_list,
    )
    crossCols = param(
        "crossCols",
        "lists of columns of texts or integers: each combination of their values has a weight in "
        "the wide part",
        crosses,
    )
    categoricalCols = param(
        "categoricalCols",
        "columns of integers whose values are names of things, each learnt for itself; those that "
        "are named here no more than in numericCols are judged by how many values they have",
        column_list,
    )
    numericCols = param(
        "numericCols",
        "columns of integers that are numbers, however few values they have",
        column_list,
    )
    embeddingDim = param(
        "embeddingDim",
        "how many numbers a text or integer is embedded in; for all columns, or by column",
        integer_by_column(1),
    )
    hashBuckets = param(
        "hashBuckets",
        "into how many buckets the values of a column of texts or integers are hashed; for all "
        "columns, or by column (a cross by its columns joined with '_x_')",
        integer_by_column(1),
    )
    wideOptimizer = param(
        "wideOptimizer",
        f"the optimizer of the wide part: one of {', '.join(OPTIMIZERS)}",
        choice(*OPTIMIZERS),
    )
    wideLearningRate = param(
        "wideLearningRate", "the learning rate of the wide part, above 0", positive
    )

    def getWideCols(self) -> list[str]:
        """The columns of the wide part."""
        value: list[str] = self.getOrDefault(self.wideCols)
        return value

    def setWideCols(self: Self, value: list[str]) -> Self:
        """Sets `wideCols`."""
        return self._set(wideCols=value)

    def getDeepCols(self) -> list[str]:
        """The columns of the deep part."""
        value: list[str] = self.getOrDefault(self.deepCols)
        return value

    def setDeepCols(self: Self, value: list[str]) -> Self:
        """Sets `deepCols`."""
        return self._set(deepCols=value)

    def getCrossCols(self) -> list[list[str]]:
        """The columns whose combinations count."""
        value: list[list[str]] = self.getOrDefault(self.crossCols)
        return value

    def setCrossCols(self: Self, value: list[list[str]]) -> Self:
        """Sets `crossCols`."""
        return self._set(crossCols=value)

    def getCategoricalCols(self) -> list[str]:
        """The columns of integers that are names of things."""
        value: list[str] = self.getOrDefault(self.categoricalCols)
        return value

    def setCategoricalCols(self: Self, value: list[str]) -> Self:
        """Sets `categoricalCols`."""
        return self._set(categoricalCols=value)

    def getNumericCols(self) -> list[str]:
        """The columns of integers that are numbers."""
        value: list[str] = self.getOrDefault(self.numericCols)
        return value

    def setNumericCols(self: Self, value: list[str]) -> Self:
        """Sets `numericCols`."""
        return self._set(numericCols=value)

    def getEmbeddingDim(self) -> int | dict[str, int]:
        """The width of embeddings, or widths by column."""
        value: int | dict[str, int] = self.getOrDefault(self.embeddingDim)
        return value

    def setEmbeddingDim(self: Self, value: int | dict[str, int]) -> Self:
        """Sets `embeddingDim`."""
        return self._set(embeddingDim=value)

    def getHashBuckets(self) -> int | dict[str, int]:
        """The number of buckets, or numbers by column."""
        value: int | dict[str, int] = self.getOrDefault(self.hashBuckets)
        return value

    def setHashBuckets(self: Self, value: int | dict[str, int]) -> Self:
        """Sets `hashBuckets`."""
        return self._set(hashBuckets=value)

    def getWideOptimizer(self) -> str:
        """The optimizer of the wide part."""
        return str(self.getOrDefault(self.wideOptimizer))

    def setWideOptimizer(self: Self, value: str) -> Self:
        """Sets `wideOptimizer`."""
        return self._set(wideOptimizer=value)

    def getWideLearningRate(self) -> float:
        """The learning rate of the wide part."""
        return float(self.getOrDefault(self.wideLearningRate))

    def setWideLearningRate(self: Self, value: float) -> Self:
        """Sets `wideLearningRate`."""
        return self._set(wideLearningRate=value)

    def of_column(self, given: int | Mapping[str, int], name: str, default: str) -> int:
        """What `embeddingDim` or `hashBuckets` say of a column."""
        if isinstance(given, Mapping):
            return given.get(name, int(WideParams.DEFAULTS[default]))
        return given

    def input_columns(self) -> list[str]:
        """All columns that are read, each once.

        Raises:
            ValueError: There are none, `embeddingDim`, `hashBuckets`, `categoricalCols` or
                `numericCols` name one that is not read, or the last two the same one.
        """
        crossed = [name for names in self.getCrossCols() for name in names]
        found = list(dict.fromkeys([*self.getWideCols(), *self.getDeepCols(), *crossed]))
        if not found:
            raise ValueError("wideCols, deepCols and crossCols are empty: there are no features")
        known = {*found, *("_x_".join(names) for names in self.getCrossCols())}
        both = sorted(set(self.getCategoricalCols()) & set(self.getNumericCols()))
        if both:
            raise ValueError(
                f"categoricalCols and numericCols both name {', '.join(both)}; a column is treated "
                "in one way"
            )
        for name, given in (
            ("embeddingDim", self.getEmbeddingDim()),
            ("hashBuckets", self.getHashBuckets()),
            ("categoricalCols", self.getCategoricalCols()),
            ("numericCols", self.getNumericCols()),
        ):
            unknown = [] if isinstance(given, int) else sorted(set(given) - known)
            if unknown:
                raise ValueError(
                    f"{name} names the columns {', '.join(unknown)}, which are not among wideCols, "
                    "deepCols and crossCols"
                )
        return found
