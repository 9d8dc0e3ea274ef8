"""A fit of two workers in real processes, but without Spark, for injecting faults."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

import sparkflow as tf
from sparkflow.spark.cluster.failures import is_restartable
from sparkflow.spark.cluster.process.child_process import Silence
from sparkflow.spark.cluster.registration import PATIENCE, RegistrationServer
from sparkflow.spark.cluster.task import JobConfig, child_environment, keep_child
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.control.attempts.fit_state import FitState
from sparkflow.spark.control.attempts.retry_loop import RetryLoop
from sparkflow.spark.control.callbacks import Callback, Callbacks
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.data.feed_plan import PERMUTED
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
from sparkflow.spark.graphs.model_fn import ModelFn, ModelInputs
from sparkflow.spark.graphs.training_graph import build_training_graph
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.storage.checkpoint_files import PathFiles
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.transport.rpc import Patience
from support.bad_network import BadNetwork, Registration

ROWS = RowFormat(
    (Input("features", DENSE, "float32", (2,)),), Input("label", DENSE, "float32", ()), None, False
)
SHARE, BATCH, SHOWN = 40, 10, Credentials("token")
ANSWER_S = 60.0
"""The time within which all tasks can begin a new attempt, or a new job starts."""


def linear(features: Any, labels: Any, mode: str) -> Any:
    prediction = tf.squeeze(tf.layers.dense(features, 1, name="layer"), axis=[1])
    loss = tf.reduce_mean(tf.square(prediction - labels))
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.MomentumOptimizer(0.01, 0.5).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def counting(features: Any, labels: Any, mode: str) -> Any:
    """Counts how often each row is applied, on every parameter server, in addition to training.

    Rows are identified by their labels, which are unique.
    """
    rows = tf.constant(sorted(_labels(0) + _labels(1)), tf.float32)
    ids = tf.cast(tf.argmin(tf.abs(labels[:, None] - rows[None, :]), axis=1), tf.int32)
    counts = [
        tf.get_variable(f"count{each}", [2 * SHARE], tf.int32, tf.zeros_initializer())
        for each in range(3)
    ]
    counted = [tf.scatter_add(each, ids, tf.ones_like(ids), use_locking=True) for each in counts]
    spec = linear(features, labels, mode)
    with tf.control_dependencies(counted):
        last = tf.get_variable("last", [], tf.int32, tf.zeros_initializer())
        counted.append(tf.assign_add(last, 1, use_locking=True))
    return tf.estimator.EstimatorSpec(
        mode, loss=spec.loss, train_op=tf.group(spec.train_op, *counted)
    )


def _labels(worker: int) -> list[float]:
    features = np.random.default_rng(worker).normal(size=(SHARE, 2))
    labels: list[float] = (features @ [1.0, -2.0]).astype(np.float32).tolist()
    return labels


class Tasks:
    """The job of a fit: a thread in place of each Spark task."""

    def __init__(
        self, layout: ClusterLayout, driver: str, credentials: Credentials, silence: Silence
    ) -> None:
        config = JobConfig(driver, credentials, layout, ROWS, silence=silence)
        self._threads = [
            threading.Thread(target=self._run, args=(config, name)) for name in layout.tasks
        ]
        self._started = False

    def start(self) -> None:
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()

    def describe_slots(self) -> tuple[str, str]:
        return "", ""

    def has_active_tasks(self, beside: int = 0) -> bool:
        return True

    def join(self, timeout_s: float) -> None:
        """Waits for all threads, up to this time."""
        end_s = time.monotonic() + timeout_s
        for thread in self._threads:
            if self._started:
                thread.join(max(0.0, end_s - time.monotonic()))

    @property
    def are_left(self) -> bool:
        """Whether a thread is still running."""
        return any(each.is_alive() for each in self._threads)

    def _run(self, config: JobConfig, name: TaskName) -> None:
        message = {
            "driver": config.driver,
            "credentials": config.credentials.export(),
            "job": name.job,
            "task": name.index,
            "partition": 0,
            "attempt": 0,
            "gpu_addresses": None,
            "gpu_memory_bytes": None,
        }
        environment = child_environment(os.environ, 1, 3)
        try:
            keep_child(config, name, message, environment, _batches(name))
        except Exception as error:
            self.error = error  # the driver has been notified


def _batches(name: TaskName) -> Iterator[pa.RecordBatch]:
    if name.job == "ps":
        return
    features = np.random.default_rng(name.index).normal(size=(SHARE, 2))
    yield pa.RecordBatch.from_pydict(
        {
            "features": pa.array(features.tolist(), pa.list_(pa.float32())),
            "label": pa.array(features @ [1.0, -2.0], pa.float32()),
            "row_number": pa.array(range(SHARE), pa.int64()),
        }
    )


class OnStep(Callback):
    """Calls a function once this many steps are known."""

    def __init__(self, step: int, act: Callable[[], None]) -> None:
        self.step = step
        self.act: Callable[[], None] | None = act
        self.restarts: list[str] = []
        self.first_steps: list[int] = []

    def on_train_begin(self, run: Any) -> None:
        self.run = run
        self.first_steps.append(run.history.steps)

    def on_steps(self, update: Any) -> None:
        if self.act is not None and update.first_step + update.num_steps >= self.step:
            act, self.act = self.act, None
            act()

    def on_restart(self, reason: str) -> None:
        self.restarts.append(reason)


class Fit:
    """A fit of two workers, with what `SparkTrainer` does around it.

    Args:
        mode: `syncMode`.
        epochs: The number of epochs over each worker's `SHARE` rows.
        num_ps: The number of parameter servers.
        silence: When a task's hanging process is killed.
        patience: When the driver gives up a task.
        model_fn: The model.
        network: Put in front of all ports; None for no network.
        credentials: The credentials of all processes.
        max_restarts: The number of losses after which training continues.
        **control: Other parameters of the trainer, with the names in `FitConfig`.
    """

    def __init__(
        self,
        mode: str,
        epochs: int,
        num_ps: int = 1,
        silence: Silence | None = None,
        patience: Patience = PATIENCE,
        model_fn: ModelFn = linear,
        network: BadNetwork | None = None,
        credentials: Credentials = SHOWN,
        max_restarts: int = 3,
        **control: Any,
    ) -> None:
        timeouts = {"start_timeout": 100.0, "stall_timeout": 100.0}
        config = FitConfig(
            sync_mode=mode,
            batch_size=BATCH,
            epochs=epochs,
            seed=1,
            max_restarts=max_restarts,
            **{**timeouts, **control},
        )
        layout = ClusterLayout.of(num_ps, 2, mode)
        graph = build_training_graph(model_fn, ModelInputs(ROWS, {}, 1), layout, config)
        self.plan = TrainingPlan(layout, graph, graph.variables, (SHARE, SHARE))
        self.feed = replace(self.plan.feed(ROWS), order=PERMUTED)
        self._post: Any = None
        self._silence = silence or Silence()
        self._patience = patience
        self._network = network
        self._credentials = credentials
        self._max_restarts = max_restarts
        self._make()

    def _make(self) -> None:
        """Creates a service and a job, like `Cluster`."""
        service: Callable[..., RegistrationServer] = RegistrationServer
        if self._network is not None:
            service = functools.partial(Registration, network=self._network)
        layout = self.plan.layout
        self.server = service(
            layout,
            lambda event: self._post(event),
            "127.0.0.1",
            self._credentials,
            patience=self._patience,
        )
        port = self.server.port
        driver = f"127.0.0.1:{port}" if self._network is None else self._network.before(port)
        self.tasks = Tasks(layout, driver, self._credentials, self._silence)

    def run(self, *callbacks: Callback) -> tuple[Mapping[str, Any], Any]:
        folder = self.plan.config.checkpoint_dir
        store = CheckpointStore(folder, 3, PathFiles()) if folder else None
        course = FitState(self.plan, self._credentials, Callbacks(callbacks), store)

        def attempt(number: int) -> Mapping[str, Any]:
            run = course.attempt()
            if number and not self.server.wait_for_answers(ANSWER_S):
                self._finish()
                self._make()
            self._post = run.events.put
            fed = replace(self.feed, start=course.positions)
            self.server.begin_attempt(json.dumps(fed.to_json()))
            return run.run(self.server, self.tasks)

        try:
            values = RetryLoop(attempt, self._max_restarts, is_restartable, course.on_restart).run()
            return values, course.history
        finally:
            self._finish()

    def _finish(self) -> None:
        """Ends the job, also by ending the service in case its message did not arrive."""
        for info in self.server.infos().values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(info.pid, signal.SIGCONT)  # a stopped process could not end
        self.server.end()
        self.tasks.join(5)
        self.server.close()
        self.tasks.join(60)
        assert not self.tasks.are_left

    def kill(self, task: str, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid(task), number)

    def pid(self, task: str) -> int:
        job, index = task.split()
        return self.server.infos()[TaskName(job, int(index))].pid
