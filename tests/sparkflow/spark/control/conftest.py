"""Training runs without Spark: tasks are servers in this process, rows are arrays in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

import sparkflow as tf
from sparkflow.spark.cluster.events import RowsReady, TaskRegistered
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.control.attempts.fit_state import FitState
from sparkflow.spark.control.callbacks import Callback, Callbacks
from sparkflow.spark.control.checkpoints.fingerprint import Fingerprint, RowsPrint
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.data.schema.row_format import EVAL_DATA, TRAIN_DATA, Input, RowFormat
from sparkflow.spark.graphs.digest import GraphDigest
from sparkflow.spark.graphs.evaluation import build_evaluation_graph
from sparkflow.spark.graphs.model_fn import ModelInputs
from sparkflow.spark.graphs.training_graph import build_training_graph
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.storage.checkpoint_files import PathFiles
from sparkflow_runtime.errors import OutOfRangeError
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.testing.local_cluster import LocalCluster

ROWS = RowFormat(
    (Input("features", "dense", "float32", (3,)),),
    Input("label", "dense", "float32", ()),
    None,
    False,
)
ModelFn = Callable[..., Any]


def linear(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    """A linear regression with momentum; `dropout` of `params` makes it draw random numbers."""
    kept = features
    if mode == tf.estimator.ModeKeys.TRAIN and params.get("dropout"):
        kept = tf.nn.dropout(features, rate=params["dropout"])
    weights = tf.get_variable("weights", [3, 1], initializer=tf.random_normal_initializer())
    bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
    prediction = tf.squeeze(tf.matmul(kept, weights) + bias, 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=prediction)
    loss = tf.reduce_mean(tf.square(prediction - labels))
    optimizer = params.get("optimizer", lambda: tf.train.MomentumOptimizer(0.05, 0.9))()
    train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    metrics = {"absolute": tf.metrics.mean_absolute_error(labels, prediction)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def diverging(features: Any, labels: Any, mode: str) -> Any:
    """Improves for two epochs of five steps, and then gets worse and worse."""
    step = tf.train.get_or_create_global_step()
    weights = tf.get_variable("weights", [3, 1], initializer=tf.zeros_initializer())
    bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(bias - 10.0)) + 0.0 * tf.reduce_mean(features) * weights[0, 0]
    loss = tf.reshape(loss, [])
    optimizer = tf.train.GradientDescentOptimizer(0.0)
    if mode == tf.estimator.ModeKeys.TRAIN:
        with tf.control_dependencies([optimizer.minimize(loss, step)]):
            train_op = tf.assign_add(bias, [0.5])
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
    metrics = {"closeness": tf.metrics.mean(-loss)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)


def rows_of(count: int, seed: int = 0) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Features [count, 3] and labels [count] of a linear law with noise."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, 3)).astype(np.float32)
    noise = generator.normal(size=count) * 0.1
    return features, (features @ [1.0, -2.0, 0.5] + 0.3 + noise).astype(np.float32)


class PlanSource:
    """Batches in the order of the feed; see `FeedPlan`."""

    def __init__(
        self,
        rows: tuple[npt.NDArray[Any], npt.NDArray[Any]],
        batch_size: int,
        epochs: int,
        steps_per_epoch: int = 0,
        start: tuple[int, int] = (0, 0),
        seed: int | None = 5,
    ) -> None:
        self._lock = threading.Lock()
        self._batches = self._draw(rows, batch_size, epochs, steps_per_epoch, start, seed)

    def _draw(
        self,
        rows: tuple[npt.NDArray[Any], npt.NDArray[Any]],
        size: int,
        epochs: int,
        steps_per_epoch: int,
        start: tuple[int, int],
        seed: int | None,
    ) -> Iterator[tuple[npt.NDArray[Any], ...]]:
        features, labels = rows
        count, (first, skipped) = len(labels), start
        for epoch in range(first, epochs):
            order = np.arange(count)
            if seed is not None:
                order = np.random.default_rng([seed, epoch]).permutation(count)
            steps = max(-(-count // size), steps_per_epoch)
            for step in range(skipped, steps):
                chosen = order[step * size : (step + 1) * size]
                if len(chosen):
                    yield self._batch(features[chosen], labels[chosen], len(chosen))
                else:  # takes part without rows
                    yield self._batch(np.zeros((1, 3), np.float32), np.zeros(1, np.float32), 0)
            skipped = 0

    def _batch(self, *parts: Any) -> tuple[npt.NDArray[Any], ...]:
        features, labels, count = parts
        return features, labels, np.zeros((), np.float32), np.array(count, np.float32)

    def next_batch(self) -> tuple[npt.NDArray[Any], ...]:
        with self._lock:
            for batch in self._batches:
                return batch
        raise OutOfRangeError(message="End of the data")

    def close(self) -> None:
        self._batches = iter(())


class Crash(Exception):
    """Raised by a user's callback, or simulates a lost process."""


class Recording(Callback):
    """Records what it was told."""

    def __init__(self) -> None:
        self.epochs: list[tuple[int, dict[str, float]]] = []
        self.validations: list[dict[str, float]] = []
        self.checkpoints: list[str] = []
        self.restarts: list[str] = []
        self.steps = 0
        self.ended = False

    def on_steps(self, update: Any) -> None:
        self.steps += update.num_steps

    def on_epoch_end(self, epoch: int, metrics: Any) -> None:
        self.epochs.append((epoch, dict(metrics)))

    def on_validation(self, metrics: Any) -> None:
        self.validations.append(dict(metrics))

    def on_checkpoint(self, path: str) -> None:
        self.checkpoints.append(path)

    def on_restart(self, reason: str) -> None:
        self.restarts.append(reason)

    def on_train_end(self, history: Any) -> None:
        self.ended = True


_CONFIG = FitConfig(
    sync_mode="sync",
    staleness=0,
    batch_size=4,
    epochs=2,
    seed=3,
    start_timeout=30.0,
    max_restarts=0,
)


@dataclass
class Rig:
    """One fit; its fields can be varied. Tests also find our other helpers here."""

    Crash: ClassVar = Crash
    Recording: ClassVar = Recording
    PlanSource: ClassVar = PlanSource
    rows_of: ClassVar = staticmethod(rows_of)
    linear: ClassVar = staticmethod(linear)
    diverging: ClassVar = staticmethod(diverging)

    shares: Sequence[int] = (20, 20)
    model_fn: ModelFn = linear
    config: FitConfig = _CONFIG
    params: dict[str, Any] = field(default_factory=dict)
    validation: Sequence[int] = ()
    callbacks: Sequence[Callback] = ()
    shuffled: bool = True
    restarts: bool = False
    content: str = "test:0"
    fetch: Sequence[str] = ("weights", "bias")

    def but(self, **changes: Any) -> Rig:
        """Returns a copy with these changes, which may be parameters of the fit."""
        own = {each.name for each in fields(self)}
        asked = {name: value for name, value in changes.items() if name not in own}
        rest = {name: value for name, value in changes.items() if name in own}
        return replace(self, config=replace(self.config, **asked), **rest)

    def plan(self) -> TrainingPlan:
        config = replace(self.config, validates=any(self.validation))
        layout = ClusterLayout.of(config.num_ps, len(self.shares), config.sync_mode)
        inputs = ModelInputs(ROWS, self.params, config.seed)
        training = build_training_graph(self.model_fn, inputs, layout, config)
        evaluation = None
        if config.validates:
            evaluation = build_evaluation_graph(self.model_fn, inputs, layout, training)
        return TrainingPlan(
            layout=layout,
            graph=training,
            fetch=tuple(self.fetch),
            worker_rows=tuple(self.shares),
            evaluation=evaluation,
            validation_rows=tuple(self.validation),
            fingerprint=Fingerprint(
                {
                    "batchSize": config.batch_size,
                    "seed": config.seed,
                    "syncMode": config.sync_mode,
                },
                {"numWorkers": len(self.shares), "numPs": config.num_ps},
                GraphDigest.of(training.graph_def),
                RowsPrint(
                    {"features": "dense float32 [3]"},
                    sum(self.shares),
                    sum(self.validation),
                    self.content,
                ),
            ),
        )

    def store(self) -> CheckpointStore | None:
        config = self.config
        if not config.checkpoint_dir:
            return None
        return CheckpointStore(config.checkpoint_dir, config.keep_checkpoint_max, PathFiles())

    def train(self) -> Result:
        """Trains on a new cluster."""
        plan = self.plan()
        fit_state = FitState(
            plan, Credentials("token"), Callbacks(tuple(self.callbacks)), self.store()
        )
        values = fit_state.finished_values
        if values is not None:
            return Result(values, fit_state.history, False)
        while True:
            try:
                values = self.attempt(plan, fit_state)
            except Crash as crash:
                if not self.restarts:
                    raise
                fit_state.on_restart(str(crash))
            else:
                return Result(values, fit_state.history, True)

    def attempt(self, plan: TrainingPlan, fit_state: FitState) -> Any:
        with LocalCluster(plan.layout.num_shards, len(self.shares), token="token") as cluster:
            self.feed(cluster, plan, fit_state.positions)
            run = fit_state.attempt()
            return run.run(FakeService(cluster), FakeJob(plan, run.events.put))

    def feed(
        self, cluster: LocalCluster, plan: TrainingPlan, positions: Sequence[tuple[int, int]]
    ) -> None:
        steps = max(plan.epoch_steps) if plan.config.in_step else 0
        for worker, share in enumerate(self.shares):
            resources = cluster.server("worker", worker).resources
            seed = 10 * self.config.seed + worker if self.shuffled else None
            source = PlanSource(
                self.rows(worker),
                self.config.batch_size,
                self.config.epochs,
                steps if share or plan.config.in_step else 0,
                positions[worker],
                seed,
            )
            resources.put("", TRAIN_DATA, source)
            if any(self.validation):
                rows = rows_of(self.validation[worker], 100 + worker)
                resources.put(
                    "", EVAL_DATA, PlanSource(rows, self.config.batch_size, 1000, seed=None)
                )

    def rows(self, worker: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        return rows_of(self.shares[worker], worker)


@dataclass
class Result:
    values: Any
    history: Any
    trained: bool


class FakeService:
    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def cluster(self) -> Any:
        return self._cluster.cluster

    def progress(self) -> dict[Any, Any]:
        return {}

    def infos(self) -> dict[Any, Any]:
        return {}

    def states(self, timeout_s: float) -> dict[Any, Any]:
        return {}


class FakeJob:
    """Tasks that are available immediately, with all their rows."""

    def __init__(self, plan: TrainingPlan, post: Callable[[Any], None]) -> None:
        self._plan = plan
        self._post = post

    def start(self) -> None:
        layout = self._plan.layout
        shares = [0] * layout.num_ps + list(self._plan.worker_rows)
        for task, rows in zip(layout.tasks, shares, strict=True):
            self._post(TaskRegistered(task, "", ""))
            self._post(RowsReady(task, rows))

    def describe_slots(self) -> tuple[str, str]:
        return "", ""

    def has_active_tasks(self, beside: int = 0) -> bool:
        return False


@pytest.fixture
def rig() -> Rig:
    """Two workers of 20 rows each, a parameter server, sync mode, two epochs of 5 steps."""
    return Rig()
