"""The Params of wide and deep estimators."""

from __future__ import annotations

from collections.abc import Mapping

from sparkflow.spark.estimators.estimator_accessors import WideAccessors


class WideParams(WideAccessors):
    """Which columns go where, and how the wide part learns."""

    def of_column(self, given: int | Mapping[str, int], name: str, default: str) -> int:
        """Returns the value of `embeddingDim` or `hashBuckets` for a column."""
        if isinstance(given, Mapping):
            return given.get(name, int(WideParams.DEFAULTS[default]))
        return given

    def input_columns(self) -> list[str]:
        """All columns that are read, each once.

        Raises:
            ValueError: There are no columns; `embeddingDim`, `hashBuckets`, `categoricalCols` or
                `numericCols` name one that is not read; or the last two name the same one.
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
