"""Whole trainings over real processes, but without Spark: what is killed comes back."""

import contextlib
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

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
from sparkflow.spark.errors import StalledError
from sparkflow.spark.graphs.model_fn import ModelFn, ModelInputs
from sparkflow.spark.graphs.training_graph import build_training_graph
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.storage.checkpoint_files import PathFiles
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.testing.suspending import suspend
from sparkflow_runtime.transport.rpc import Patience

pytestmark = pytest.mark.timeout(200)

ROWS = RowFormat(
    (Input("features", DENSE, "float32", (2,)),), Input("label", DENSE, "float32", ()), None, False
)
SHARE, BATCH, SHOWN = 40, 10, Credentials("token")


def linear(features: Any, labels: Any, mode: str) -> Any:
    prediction = tf.squeeze(tf.layers.dense(features, 1, name="layer"), axis=[1])
    loss = tf.reduce_mean(tf.square(prediction - labels))
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.MomentumOptimizer(0.01, 0.5).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def counting(features: Any, labels: Any, mode: str) -> Any:
    """Counts how often each row is applied, on every parameter server, beside what is learnt.

    A row is known by its label, of which no two are equal.
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
    return (features @ [1.0, -2.0]).astype(np.float32).tolist()


class Tasks:
    """The job of a fit: a thread for what each Spark task would do."""

    def __init__(self, layout: ClusterLayout, server: RegistrationServer, silence: Silence) -> None:
        driver = f"127.0.0.1:{server.port}"
        config = JobConfig(driver, SHOWN, layout, ROWS, silence=silence)
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

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _run(self, config: JobConfig, name: TaskName) -> None:
        hosted = config.layout.hosted_by(name)
        message = {
            "driver": config.driver,
            "credentials": config.credentials.export(),
            "job": name.job,
            "task": name.index,
            "hosted_ps": hosted.index if hosted is not None else None,
            "partition": 0,
            "attempt": 0,
            "gpu_addresses": None,
            "gpu_memory_bytes": None,
        }
        environment = child_environment(os.environ, 1, 3)
        try:
            keep_child(config, name, message, environment, _batches(name))
        except Exception as error:
            self.error = error  # the driver has been told


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
    """Does something once so many steps are known."""

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
    """One fit of two workers, with what `SparkTrainer` does around it."""

    def __init__(
        self,
        mode: str,
        epochs: int,
        num_ps: int = 1,
        silence: Silence | None = None,
        patience: Patience = PATIENCE,
        model_fn: ModelFn = linear,
        **control: Any,
    ) -> None:
        config = FitConfig(
            sync_mode=mode,
            batch_size=BATCH,
            epochs=epochs,
            seed=1,
            start_timeout=100.0,
            stall_timeout=100.0,
            **control,
        )
        layout = ClusterLayout.of(num_ps, 2, mode)
        graph = build_training_graph(model_fn, ModelInputs(ROWS, {}, 1), layout, config)
        self.plan = TrainingPlan(layout, graph, graph.variables, (SHARE, SHARE))
        self.feed = replace(self.plan.feed(ROWS), order=PERMUTED)
        self._post: Any = None
        self.server = RegistrationServer(
            layout, lambda event: self._post(event), "127.0.0.1", SHOWN, patience=patience
        )
        self.tasks = Tasks(layout, self.server, silence or Silence())

    def run(self, *callbacks: Callback) -> tuple[Mapping[str, Any], Any]:
        folder = self.plan.config.checkpoint_dir
        store = CheckpointStore(folder, 3, PathFiles()) if folder else None
        course = FitState(self.plan, SHOWN, Callbacks(callbacks), store)

        def attempt(number: int) -> Mapping[str, Any]:
            run = course.attempt()
            assert number == 0 or self.server.wait_for_answers(60)
            self._post = run.events.put
            fed = replace(self.feed, start=course.positions)
            self.server.begin_attempt(json.dumps(fed.to_json()))
            return run.run(self.server, self.tasks)

        try:
            values = RetryLoop(attempt, 3, is_restartable, course.on_restart).run()
            return values, course.history
        finally:
            for info in self.server.infos().values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(info.pid, signal.SIGCONT)  # a stopped one could not end
            self.server.end()
            self.tasks.join()
            self.server.close()

    def kill(self, task: str, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid(task), number)

    def pid(self, task: str) -> int:
        job, index = task.split()
        return self.server.infos()[TaskName(job, int(index))].pid


@pytest.mark.parametrize("task", ["worker 1", "ps 0"])
def test_a_lost_process_comes_back_from_the_last_checkpoint(tmp_path: Path, task: str) -> None:
    expected, _ = Fit("sync", 60).run()
    fit = Fit("sync", 60, checkpoint_dir=str(tmp_path), checkpoint_steps=50)
    killing = OnStep(120, lambda: fit.kill(task))
    values, history = fit.run(killing)
    assert history.steps == 60 * SHARE // BATCH
    assert len(killing.restarts) == len(history.restarts) == 1
    assert "was killed by signal 9" in killing.restarts[0]
    # Nothing that was committed is lost, and the result is that of an undisturbed run.
    assert killing.first_steps[1] >= 50
    assert 0 <= history.restarts[0]["undone_steps"] < 200
    assert values["global_step"] == history.steps
    np.testing.assert_array_equal(values["layer/kernel"], expected["layer/kernel"])


def test_others_go_on_without_a_lost_worker() -> None:
    fit = Fit("async", 800)
    killing = OnStep(10, lambda: fit.kill("worker 1"))
    values, history = fit.run(killing)
    assert killing.restarts == []
    assert len(history.restarts) == 1
    assert history.steps == 2 * 800 * SHARE // BATCH
    # What the dead worker had applied without having told of it was made again. Two workers add to
    # the model's own counter without a lock, and one step was cut in two.
    assert abs(values["global_step"] - history.steps - history.repeated_steps) <= 5
    assert history.repeated_steps >= 0
    assert [each["undone_steps"] for each in history.restarts] == [0]
    np.testing.assert_allclose(values["layer/kernel"].ravel(), [1.0, -2.0], atol=0.05)


class KillsOften(Callback):
    """Kills worker 1 a random while after it began to make steps, a few times."""

    def __init__(self, fit: Fit, times: int, seed: int) -> None:
        self._fit, self._left, self._random = fit, times, random.Random(seed)
        self._at = self._random.uniform(0.0, 0.3)
        self._since: float | None = None
        self._dead: set[int] = set()

    def on_steps(self, update: Any) -> None:
        now, pid = time.monotonic(), self._fit.pid("worker 1")
        if update.worker == 1 and self._since is None and pid not in self._dead:
            self._since = now
        if self._since is not None and self._left and now - self._since > self._at:
            os.kill(pid, signal.SIGKILL)
            self._dead.add(pid)
            self._left -= 1
            self._since, self._at = None, self._random.uniform(0.0, 0.3)


@pytest.mark.parametrize("num_ps", [1, 2, 3])
def test_every_batch_is_applied_once_whenever_a_worker_dies(num_ps: int) -> None:
    fit = Fit("async", 800, num_ps=num_ps, model_fn=counting)
    killing = KillsOften(fit, 2, num_ps)
    values, history = fit.run(killing)
    assert len(history.restarts) == 2
    assert history.repeated_steps == 0
    assert history.steps == values["last"] == 2 * 800 * SHARE // BATCH
    for each in range(3):
        assert set(values[f"count{each}"].tolist()) == {800}, each


@pytest.mark.nightly
def test_ten_deaths_of_a_worker() -> None:
    fit = Fit("async", 12_000, num_ps=2, model_fn=counting, max_restarts=10)
    values, history = fit.run(KillsOften(fit, 10, seed=7))
    assert len(history.restarts) == 10
    assert history.repeated_steps == 0
    for each in range(3):
        assert set(values[f"count{each}"].tolist()) == {12_000}, each


class StopsAndEnds(Callback):
    """Stops worker 1 once and then asks for the end of training, each time that all make steps."""

    def __init__(self, fit: Fit, on_stop: Callable[[], None] = lambda: None) -> None:
        self._fit = fit
        self._on_stop = on_stop
        self._has_stopped = False

    def on_train_begin(self, run: Any) -> None:
        self._run = run
        self._seen: set[int] = set()

    def on_steps(self, update: Any) -> None:
        self._seen |= {0, 1} if update.worker < 0 else {update.worker}
        if self._seen == {0, 1}:
            if not self._has_stopped:
                suspend(self._fit.pid("worker 1"))
                self._on_stop()
            self._has_stopped = True
            self._run.stop("enough")


@pytest.mark.parametrize("mode", ["async", "ssp", "sync", "allreduce"])
def test_who_stands_still_at_a_halt_is_replaced(mode: str) -> None:
    # In async mode it came back and went through all that was left of the segment, which nobody
    # could end any more; elsewhere its late answer to the halt ended the fit.
    fit = Fit(mode, 200_000, num_ps=0 if mode == "allreduce" else 1)
    _, history = fit.run(StopsAndEnds(fit))
    assert history.stopped == "enough"
    assert len(history.restarts) == 1
    assert history.steps < 100_000


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_short_stop_at_a_halt_is_waited_for(mode: str) -> None:
    patient = Patience(30.0, 30.0)
    fit = Fit(mode, 200_000, silence=Silence(stopped_s=60.0), patience=patient)
    # Longer than the answer to a halt once might take.
    waking = threading.Timer(5.5, lambda: fit.kill("worker 1", signal.SIGCONT))
    _, history = fit.run(StopsAndEnds(fit, waking.start))
    waking.join()
    assert history.stopped == "enough"
    assert history.restarts == []


def test_workers_that_host_parameter_servers_come_back() -> None:
    fit = Fit("async", 200, num_ps=0)
    killing = OnStep(10, lambda: fit.kill("worker 0"))
    _, history = fit.run(killing)
    assert len(killing.restarts) == 1
    assert history.steps == 2 * 200 * SHARE // BATCH


def test_a_process_that_stands_still_is_named() -> None:
    fit = Fit("sync", 1_000_000)

    def stop() -> None:
        suspend(fit.pid("worker 1"))
        stopping.run._watchdog._stall_timeout_s = 1.5  # the first step had its time

    stopping = OnStep(5, stop)
    with pytest.raises(StalledError) as caught:
        fit.run(stopping)
    text = str(caught.value)
    assert "No worker has made a step for 1.5 s (stallTimeout)" in text
    assert "does not answer and was last heard of" in text


STILL = Silence(stopped_s=1.5, look_s=0.2)


def stop_and_continue(fit: Fit, task: str, after_s: float) -> Callable[[], None]:
    """Stops a task's process, and has it go on after so many seconds, if it is there then."""

    def stop() -> None:
        pid = fit.server.infos()[TaskName(task.split()[0], int(task.split()[1]))].pid
        suspend(pid)
        timer = threading.Timer(after_s, _continue, [pid])
        timer.daemon = True
        timer.start()

    return stop


def _continue(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("task", ["worker 1", "ps 0"])
@pytest.mark.parametrize("mode", ["async", "ssp", "sync", "allreduce"])
def test_a_process_that_stands_still_is_replaced(mode: str, task: str) -> None:
    if mode == "allreduce" and task == "ps 0":
        pytest.skip("there is none")
    fit = Fit(mode, 300, num_ps=0 if mode == "allreduce" else 1, silence=STILL)
    stopping = OnStep(10, stop_and_continue(fit, task, 5.0))
    values, history = fit.run(stopping)
    assert len(history.restarts) == 1
    assert "stood still for" in history.restarts[0]["reason"]
    assert history.steps == 300 * SHARE // BATCH * (1 if fit.plan.config.in_step else 2)
    assert abs(values["global_step"] - history.steps - history.repeated_steps) <= 5


def test_a_process_that_stands_still_for_a_moment_goes_on() -> None:
    fit = Fit("sync", 300, silence=STILL)
    stopping = OnStep(10, stop_and_continue(fit, "worker 1", 0.5))
    _, history = fit.run(stopping)
    assert history.restarts == []
    assert history.steps == 300 * SHARE // BATCH


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_machine_that_stands_still_is_given_up_and_comes_back(mode: str) -> None:
    """Its Spark task stands still, too: the driver notices, and what wakes up ends by itself."""
    never = Silence(stopped_s=1000.0, hung_s=1000.0)
    patience = Patience(ask_s=2.0, wait_s=2.0)
    fit = Fit(mode, 2000 if mode == "async" else 300, silence=never, patience=patience)
    stopping = OnStep(10, stop_and_continue(fit, "worker 1", 9.0))
    _, history = fit.run(stopping)
    assert len(history.restarts) == 1
    assert "has not answered for" in history.restarts[0]["reason"]


@pytest.mark.nightly
@pytest.mark.parametrize("task", ["worker 1", "ps 0"])
@pytest.mark.parametrize("mode", ["async", "ssp", "sync", "allreduce"])
def test_half_a_minute_of_standing_still_is_survived(mode: str, task: str) -> None:
    if mode == "allreduce" and task == "ps 0":
        pytest.skip("there is none")
    fit = Fit(mode, 2000, num_ps=0 if mode == "allreduce" else 1)
    stopping = OnStep(10, stop_and_continue(fit, task, 30.0))
    _, history = fit.run(stopping)
    assert len(history.restarts) == 1
    assert history.steps == 2000 * SHARE // BATCH * (1 if fit.plan.config.in_step else 2)
