"""Tasks that start late, die and come back, each in a separate process."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import sparkflow as tf
from support.programs import Program, free_ports

TRAINER = Path(__file__).parent / "fault_trainer.py"


class Cluster:
    """The tasks of fault_trainer.py, started one by one."""

    def __init__(self, stack: ExitStack, folder: Path, num_workers: int) -> None:
        self._stack = stack
        ps, *workers = [f"localhost:{port}" for port in free_ports(1 + num_workers)]
        self._stop_file = folder / "stop"
        self._model = folder / "model"
        self._arguments = (
            f"--ps_hosts={ps}",
            f"--worker_hosts={','.join(workers)}",
            f"--logdir={self._model}",
            f"--stop_file={self._stop_file}",
        )

    def start(self, job: str, index: int = 0, *more: str) -> Program:
        arguments = (*self._arguments, f"--job_name={job}", f"--task_index={index}", *more)
        return self._stack.enter_context(Program(TRAINER, *arguments))

    def stop(self) -> None:
        """Makes the workers end."""
        self._stop_file.touch()

    def saved_step(self) -> int:
        """Returns the step of the last checkpoint; 0 if there is none."""
        last = tf.train.latest_checkpoint(str(self._model))
        return 0 if last is None else int(last.rpartition("-")[2])


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack, tmp_path, getattr(request, "param", 2))


def step_of(worker: Program) -> int:
    """Returns the next step that the worker reports."""
    return int(worker.wait_for(r"^step (\d+)")[1])


def ends_right(worker: Program) -> int:
    """Returns the global step at the worker's end, after comparing it with the model's own count.

    Asynchronous steps of another worker may be incomplete when values are read or saved.
    """
    found = worker.wait_for(r"^end (\d+) (\d+)")
    assert abs(int(found[1]) - int(found[2])) <= 4
    assert worker.end() == 0, worker.output[-3000:]
    return int(found[1])


def test_workers_wait_for_the_parameter_server_and_signals_end_every_role(cluster):
    only = "--filters"
    impatient = cluster.start("worker", 1, only)
    chief = cluster.start("worker", 0, only)
    for each in (impatient, chief):
        each.wait_for("Started server with target: grpc://localhost:")
        each.wait_for("Graph was finalized")
    impatient.send(signal.SIGINT)  # in the middle of its wait
    assert impatient.end(10) == -signal.SIGINT
    assert "KeyboardInterrupt" in impatient.output
    ps = cluster.start("ps")
    step_of(chief)  # Worker 1 is gone, and filtered out.
    chief.send(signal.SIGINT)
    assert chief.end(10) == -signal.SIGINT
    chief = cluster.start("worker", 0, only)
    step_of(chief)
    chief.send(signal.SIGTERM)
    assert chief.end(10) == -signal.SIGTERM
    ps.send(signal.SIGINT)
    assert ps.end(10) == -signal.SIGINT


@pytest.mark.parametrize("kind", [[], ["--supervisor"]], ids=["monitored", "supervisor"])
def test_a_parameter_server_that_died_is_restored_from_the_checkpoint(cluster, kind):
    ps = cluster.start("ps")
    workers = [cluster.start("worker", index, *kind) for index in (0, 1)]
    for worker in workers:
        step_of(worker)
    while not cluster.saved_step():  # the first one may be for step 0
        step_of(workers[0])
    last = step_of(workers[0])
    ps.kill()
    workers[1].wait_for("An error was raised while running the session|^lost: ")
    cluster.start("ps")
    restored = workers[0].wait_for(r"Restoring parameters from .*model\.ckpt-(\d+)")
    assert int(restored[1]) > 0
    for worker in workers:
        while step_of(worker) <= last:
            continue
    cluster.stop()
    assert min(ends_right(worker) for worker in workers) > last


def test_workers_that_die_leave_the_others_at_work(cluster):
    cluster.start("ps")
    chief, worker = (cluster.start("worker", index) for index in (0, 1))
    for each in (chief, worker):
        step_of(each)
    worker.kill()
    last = step_of(chief)
    worker = cluster.start("worker", 1)
    assert step_of(worker) > last
    chief.wait_for("Saving checkpoint")
    chief.kill()
    step_of(worker)
    chief = cluster.start("worker", 0)
    chief.wait_for(r"Restoring parameters from .*model\.ckpt-\d+")
    for each in (chief, worker):
        step_of(each)
    cluster.stop()
    for each in (chief, worker):
        ends_right(each)
    assert "An error was raised" not in worker.output


@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_synchronous_training_goes_on_without_its_backup_worker(cluster):
    cluster.start("ps")
    sync = "--aggregate=2"
    chief, second = (cluster.start("worker", index, sync) for index in (0, 1))
    slow = cluster.start("worker", 2, sync, "--delay=0.5")
    for each in (chief, second):
        step_of(each)
    slow.wait_for("Done running local_init_op")
    slow.kill()
    for each in (chief, second):
        step_of(each)
        step_of(each)
