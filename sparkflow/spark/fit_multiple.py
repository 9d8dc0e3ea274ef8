"""`fitMultiple`: several trainings on rows that are prepared, placed and cached once.

Parameter maps that agree on every parameter that decides which rows go where share a group. The
first training that needs a group opens it and the last one closes it, so a grid over one data set
prepares its rows once, and consecutive trainings keep the rows of one group at a time. Several
threads may draw from the iterator, as `CrossValidator` does.
"""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from sparkflow.spark.data.plan.prepare import release
from sparkflow.spark.launch.training import TrainingData
from sparkflow.spark.model.trainer_model import SparkTrainerModel
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.params.identity import row_rule
from sparkflow.spark.params.row import Row


class SharesRows(Protocol):
    """An estimator that prepares rows and trains on them in two separate steps."""

    uid: str

    def copy(self, extra: Any = None) -> SharesRows:
        """Returns a copy with other values of Params."""

    def setParams(self, **params: Any) -> Any:
        """Sets Params by name."""

    def config(self) -> FitConfig:
        """Returns the values of its parameters."""

    def _table_rows(self) -> list[Row]:
        """The rows of the parameter tables."""

    def training_data(
        self, dataset: DataFrame, validation: DataFrame | None = None
    ) -> contextlib.AbstractContextManager[TrainingData]:
        """Returns a context manager that holds the prepared rows."""

    def fit_data(self, data: TrainingData) -> SparkTrainerModel:
        """Trains on rows that `training_data` returned."""


def fit_multiple(
    estimator: SharesRows,
    dataset: DataFrame,
    param_maps: Sequence[Any],
    validation: DataFrame | None = None,
) -> Iterator[tuple[int, SparkTrainerModel]]:
    """Trains one model per parameter map, each when it is drawn from the iterator.

    Args:
        estimator: The estimator; it is copied, so later changes have no effect.
        dataset: The rows.
        param_maps: Dictionaries from Params of the estimator to values.
        validation: Validation rows, with the same columns.

    Returns:
        A thread-safe iterator of (index of the map, model); the indices may come in any order.
    """
    run = uuid.uuid4().hex[:8]
    estimators = [estimator.copy(dict(each)) for each in param_maps]
    for index, each in enumerate(estimators):
        if directory := each.config().checkpoint_dir:
            # A checkpoint of other parameters or, in a cross-validation, of other rows must not be
            # resumed.
            own = f"{directory.rstrip('/')}/{estimator.uid}-{run}-{index}"
            each.setParams(checkpointDir=own, resume="never")
    return _Trainings(estimators, dataset, validation)


class _Trainings:
    """The iterator. It releases its cached rows after the last model, or when it is deleted."""

    def __init__(
        self, estimators: Sequence[SharesRows], dataset: DataFrame, validation: DataFrame | None
    ) -> None:
        self._estimators = estimators
        keys = [_key(each) for each in estimators]
        self._keys = keys
        self._lock = threading.Lock()  # guards _next
        # Maps of one group come one after another, so that its rows are released early.
        order = {key: index for index, key in reversed(list(enumerate(keys)))}
        self._next = iter(sorted(range(len(keys)), key=lambda index: order[keys[index]]))
        self._groups = {key: _Group(dataset, validation, keys.count(key)) for key in keys}
        # At exit the session no longer exists.
        weakref.finalize(self, _close, list(self._groups.values())).atexit = False

    def __iter__(self) -> _Trainings:
        return self

    def __next__(self) -> tuple[int, SparkTrainerModel]:
        with self._lock:
            index = next(self._next)
        estimator = self._estimators[index]
        with self._groups[self._keys[index]].data(estimator) as data:
            return index, estimator.fit_data(data)


class _Group:
    """The rows that several parameter maps share.

    Args:
        dataset, validation: The DataFrames that they come from.
        uses: The number of trainings that will use them.
    """

    def __init__(self, dataset: DataFrame, validation: DataFrame | None, uses: int) -> None:
        self._given = dataset, validation
        self._lock = threading.Lock()  # guards all below
        self._left = uses
        self._open = contextlib.ExitStack()
        self._data: TrainingData | None = None

    @contextlib.contextmanager
    def data(self, estimator: SharesRows) -> Iterator[TrainingData]:
        """Yields the rows for one training."""
        try:
            with self._lock:
                if self._data is None:
                    self._data = self._prepared(estimator)
                data = self._data
            yield data
        finally:
            with self._lock:
                self._left -= 1
                if self._left == 0:
                    self._open.close()
                    self._data = None

    def _prepared(self, estimator: SharesRows) -> TrainingData:
        data = self._open.enter_context(estimator.training_data(*self._given))
        if self._left > 1:
            # Otherwise each training would send all rows to their workers again.
            data.placed.persist(StorageLevel.MEMORY_AND_DISK)
            self._open.callback(release, data.placed)
        return data

    def close(self) -> None:
        """Releases the rows. May be called more than once."""
        with self._lock:
            self._open.close()


def _key(estimator: SharesRows) -> str:
    """A string that is equal for two estimators only if the same rows go to the same tasks."""
    return json.dumps(row_rule(estimator.config(), estimator._table_rows()), sort_keys=True)


def _close(groups: Sequence[_Group]) -> None:
    for group in groups:
        group.close()
