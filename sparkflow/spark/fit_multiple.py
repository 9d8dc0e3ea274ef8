"""Several trainings over rows that are prepared, placed and cached once: `fitMultiple`.

Parameter maps that agree on everything that decides which rows go where share one group. A group
is opened by the first training that needs it and closed by the last one, so that a grid over one
data set costs one preparation, and trainings one after the other keep one group's rows at a time.
The iterator may be drawn from by several threads, as `CrossValidator` does.
"""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from sparkflow.spark.data.plan.prepare import release
from sparkflow.spark.launch.training import TrainingData
from sparkflow.spark.model.trainer_model import SparkTrainerModel
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.params.row import Row


class SharesRows(Protocol):
    """An estimator whose preparation of rows and training on them are two steps."""

    uid: str

    def copy(self, extra: Any = None) -> SharesRows:
        """The same estimator with other Params."""

    def setParams(self, **params: Any) -> Any:
        """Sets Params by name."""

    def config(self) -> FitConfig:
        """The values of its parameters."""

    def _table_rows(self) -> list[Row]:
        """What tables say of them."""

    def training_data(
        self, dataset: DataFrame, validation: DataFrame | None = None
    ) -> contextlib.AbstractContextManager[TrainingData]:
        """The rows, for as long as a `with` block lasts."""

    def fit_data(self, data: TrainingData) -> SparkTrainerModel:
        """Trains on rows that `training_data` gave."""


def fit_multiple(
    estimator: SharesRows,
    dataset: DataFrame,
    param_maps: Sequence[Any],
    validation: DataFrame | None = None,
) -> Iterator[tuple[int, SparkTrainerModel]]:
    """Trains a model per parameter map while the iterator is drawn from.

    Args:
        estimator: Is copied; later changes of it have no effect.
        dataset: The rows.
        param_maps: Of Params of the estimator to values.
        validation: Validation rows, with the same columns.

    Returns:
        A thread-safe iterator of (index of the map, model); the indices may come in any order.
    """
    run = uuid.uuid4().hex[:8]
    estimators = [estimator.copy(dict(each)) for each in param_maps]
    for index, each in enumerate(estimators):
        if directory := each.config().checkpoint_dir:
            # Neither other parameters nor, in a cross-validation, other rows are gone on from.
            own = f"{directory.rstrip('/')}/{estimator.uid}-{run}-{index}"
            each.setParams(checkpointDir=own, resume="never")
    return _Trainings(estimators, dataset, validation)


class _Trainings:
    """The iterator. What it has cached goes when the last model is there, or with the iterator."""

    def __init__(
        self, estimators: Sequence[SharesRows], dataset: DataFrame, validation: DataFrame | None
    ) -> None:
        self._estimators = estimators
        keys = [_key(each) for each in estimators]
        self._keys = keys
        self._lock = threading.Lock()  # guards _next
        # Maps of one group come one after the other, so that its rows are let go early.
        order = {key: index for index, key in reversed(list(enumerate(keys)))}
        self._next = iter(sorted(range(len(keys)), key=lambda index: order[keys[index]]))
        self._groups = {key: _Group(dataset, validation, keys.count(key)) for key in keys}
        # At exit there is no session any more.
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
    """The rows of the parameter maps that agree on them.

    Args:
        dataset, validation: Where they come from.
        uses: How many trainings there will be.
    """

    def __init__(self, dataset: DataFrame, validation: DataFrame | None, uses: int) -> None:
        self._given = dataset, validation
        self._lock = threading.Lock()  # guards all below
        self._left = uses
        self._open = contextlib.ExitStack()
        self._data: TrainingData | None = None

    @contextlib.contextmanager
    def data(self, estimator: SharesRows) -> Iterator[TrainingData]:
        """The rows, for one training."""
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
            # Otherwise each training would move all rows to their workers again.
            data.placed.persist(StorageLevel.MEMORY_AND_DISK)
            self._open.callback(release, data.placed)
        return data

    def close(self) -> None:
        """Lets the rows go. May be called more than once."""
        with self._lock:
            self._open.close()


def _key(estimator: SharesRows) -> str:
    """A text that is the same for two estimators only if the same rows go to the same tasks."""
    config = estimator.config()
    params = config.params
    values = {row.name: params[row.name] for row in estimator._table_rows() if row.of_rows}
    values["features"] = config.features  # which some make of other Params
    values["layout"] = asdict(config.layout())
    values["minWorkers"] = config.min_workers
    values["in_step"] = config.in_step and config.shuffle
    if values["in_step"] or config.validation_fraction:
        # Otherwise rows are dealt out by their numbers, and none is drawn.
        values["seed"] = config.seed
    return json.dumps(values, sort_keys=True)


def _close(groups: Sequence[_Group]) -> None:
    for group in groups:
        group.close()
