"""Several trainings on the same rows: what is shared, and when it is released. Without Spark."""

import contextlib
import threading
from collections.abc import Iterator
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest

from sparkflow.spark.fit_multiple import fit_multiple
from sparkflow.spark.params.trainer_params import TrainerParams

pytestmark = pytest.mark.spark  # pyspark.ml's Params need no session, but pyspark


class Frame:
    """A DataFrame that counts how often it is cached."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def persist(self, level: Any) -> None:
        self.log.append("cache")

    def unpersist(self) -> None:
        self.log.append("let go")


class Data:
    def __init__(self, log: list[str]) -> None:
        self.placed = Frame(log)


class Trainer(TrainerParams):
    """An estimator that logs what happens."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log
        self.fails_at = 0

    @contextlib.contextmanager
    def training_data(self, dataset: Any, validation: Any = None) -> Iterator[Data]:
        self.log.append(f"open {self.getLabelCol()}")
        yield Data(self.log)
        self.log.append(f"close {self.getLabelCol()}")

    def fit_data(self, data: Data) -> Any:
        self.log.append(f"fit {self.getEpochs()}")
        if self.getEpochs() == self.fails_at:
            raise RuntimeError("no luck")
        return self


@pytest.fixture
def log() -> list[str]:
    return []


def fit(trainer: Any, maps: list[dict[Any, Any]]) -> Any:
    dataset: Any = None
    return fit_multiple(trainer, dataset, maps)


def test_maps_that_agree_on_the_rows_share_them(log: list[str]) -> None:
    trainer = Trainer(log)
    maps: list[dict[Any, Any]] = [
        {trainer.epochs: 1},
        {trainer.epochs: 2, trainer.labelCol: "y"},
        {trainer.epochs: 3, trainer.batchSize: 7, trainer.modelParams: {"a": 1}},
        {trainer.epochs: 4, trainer.seed: 5},
    ]
    found = dict(fit(trainer, maps))
    assert {index: model.getEpochs() for index, model in found.items()} == {0: 1, 1: 2, 2: 3, 3: 4}
    shared = ["open label", "cache", "fit 1", "fit 3", "fit 4", "let go", "close label"]
    assert log == [*shared, "open y", "fit 2", "close y"]
    assert found[2].getModelParams() == {"a": 1}
    assert trainer.getEpochs() == 1


@pytest.mark.parametrize(
    ("first", "second", "shares"),
    [
        ({"seed": 1}, {"seed": 2}, True),
        ({"seed": 1, "syncMode": "sync"}, {"seed": 2, "syncMode": "sync"}, False),
        ({"seed": 1, "validationFraction": 0.5}, {"seed": 2, "validationFraction": 0.5}, False),
        ({"syncMode": "sync"}, {"syncMode": "async"}, False),
        ({"syncMode": "ssp"}, {"syncMode": "async"}, True),
        ({"numWorkers": 2}, {"numWorkers": 3}, False),
        ({"featuresCol": ["a", "b"]}, {"featuresCol": ["b", "a"]}, False),
        ({"featuresCol": "a"}, {"featuresCol": "a"}, True),
        ({"classWeights": {1: 2.0}}, {"classWeights": "balanced"}, False),
        ({"modelParams": {"x": 1}, "epochs": 3}, {"batchSize": 3}, True),
    ],
)
def test_what_decides_about_the_rows(log: list[str], first: Any, second: Any, shares: bool) -> None:
    trainer = Trainer(log)
    maps = [{trainer.getParam(k): v for k, v in each.items()} for each in (first, second)]
    assert len(list(fit(trainer, maps))) == 2
    assert log.count("open label") == (1 if shares else 2)
    assert log.count("close label") == log.count("open label")


def test_threads_draw_from_one_iterator(log: list[str]) -> None:
    """Like CrossValidator: every map once, and all fits of a group at the same time."""
    together = threading.Barrier(3, timeout=30)

    class Slow(Trainer):
        def fit_data(self, data: Data) -> Any:
            together.wait()
            return super().fit_data(data)

    slow = Slow(log)
    models = fit(slow, [{slow.epochs: epochs} for epochs in (1, 2, 3)])
    with ThreadPool(3) as pool:
        found = pool.map(lambda _: next(models), range(3))
    assert sorted((index, model.getEpochs()) for index, model in found) == [(0, 1), (1, 2), (2, 3)]
    assert sorted(log) == sorted(
        ["open label", "cache", "fit 1", "fit 2", "fit 3", "let go", "close label"]
    )
    with pytest.raises(StopIteration):
        next(models)


def test_a_training_that_fails_leaves_nothing_behind(log: list[str]) -> None:
    trainer = Trainer(log)
    trainer.fails_at = 2
    models = fit(trainer, [{trainer.epochs: 1}, {trainer.epochs: 2}])
    next(models)
    with pytest.raises(RuntimeError, match="no luck"):
        next(models)
    assert log[-2:] == ["let go", "close label"]


def test_an_iterator_that_is_given_up_lets_the_rows_go(log: list[str]) -> None:
    trainer = Trainer(log)
    models = fit(trainer, [{trainer.epochs: 1}, {trainer.epochs: 2}])
    next(models)
    assert log == ["open label", "cache", "fit 1"]
    del models
    assert log[-2:] == ["let go", "close label"]


def test_checkpoints_of_several_trainings_are_kept_apart(log: list[str]) -> None:
    trainer = Trainer(log).setParams(checkpointDir="/tmp/checkpoints/")
    maps: list[dict[Any, Any]] = [{trainer.epochs: 1}, {trainer.epochs: 2}]
    models = [model for _, model in [*fit(trainer, maps), *fit(trainer, maps)]]
    directories = {model.getCheckpointDir() for model in models}
    assert len(directories) == 4
    assert all(each.startswith(f"/tmp/checkpoints/{trainer.uid}-") for each in directories)
    assert {model.getResume() for model in models} == {"never"}
