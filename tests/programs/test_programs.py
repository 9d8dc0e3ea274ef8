"""The programs of the documentation, each task in a separate process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from support.programs import free_ports

HERE = Path(__file__).parent
PROGRAMS = {p.name for p in HERE.glob("*.py") if p.stem[:5] not in ("test_", "conft")}
DEADLINE_S = 120


@contextmanager
def started(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a program until it ends, or until the block does."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / program), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def finished(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, errors[-3000:]
    return output


def cluster_run(program: str, *arguments: str) -> list[str]:
    """Returns what two workers print that share one parameter server."""
    ps, *workers = [f"localhost:{port}" for port in free_ports(3)]
    hosts = [f"--ps_hosts={ps}", f"--worker_hosts={','.join(workers)}"]
    tasks = [("worker", 0), ("worker", 1)]
    with ExitStack() as stack:
        server = stack.enter_context(started(program, *hosts, "--job_name=ps", *arguments))
        processes = [
            stack.enter_context(
                started(program, *hosts, f"--job_name={job}", f"--task_index={task}", *arguments)
            )
            for job, task in tasks
        ]
        outputs = [finished(process) for process in processes]
        assert server.poll() is None, "the parameter server serves until it is ended"
    return outputs


def test_linear_regression_with_a_supervisor(tmp_path):
    outputs = cluster_run("linear_regression.py", f"--logdir={tmp_path}", "--steps=300")
    for task, output in enumerate(outputs):
        words = output.split()
        assert words[:3] == ["worker", f"{task}", "done:"]
        assert abs(float(words[4]) - 3) < 0.5
        assert abs(float(words[6]) - 1) < 0.3
    assert (tmp_path / "graph.pbtxt").exists()
    assert list(tmp_path.glob("events.out.tfevents.*"))


def test_synchronous_linear_regression_is_that_of_one_process():
    outputs = cluster_run("sync_linear_regression.py", "--steps=20")
    x = np.linspace(0, 1, 8)
    weight = bias = 0.0
    for _ in range(20):
        error = x * weight + bias - (3 * x + 1)
        weight -= 0.1 * np.mean(2 * error * x)
        bias -= 0.1 * np.mean(2 * error)
    for output in outputs:
        words = output.split()
        np.testing.assert_allclose(
            [float(words[4]), float(words[6])], [weight, bias], rtol=1e-5, atol=2e-6
        )
        assert int(words[8]) == 20


def test_monitored_training(tmp_path):
    outputs = cluster_run("monitored_trainer.py", f"--checkpoint_dir={tmp_path}", "--steps=60")
    assert [output.split()[-1] for output in outputs] == ["stopped", "stopped"]
    latest = tf.train.latest_checkpoint(str(tmp_path))
    assert latest is not None
    assert int(latest.rpartition("-")[2]) >= 60


REPLICATION_STEPS = 12


def replicated(mode: str) -> list[tuple[list[float], int]]:
    """Returns what each worker of the program has learned at the end, and the steps made."""
    outputs = cluster_run("replicated_trainer.py", f"--mode={mode}", f"--steps={REPLICATION_STEPS}")
    words = [output.split() for output in outputs]
    assert [each[:3] for each in words] == [["worker", f"{i}", "stopped:"] for i in range(2)]
    return [([float(each[3]), float(each[4])], int(each[6])) for each in words]


def in_numpy(period: int, steps: int) -> list[float]:
    """Gradient descent of two replicas, averaged every `period` steps and at the end."""
    randoms = [np.random.RandomState(task) for task in range(2)]
    copies = [np.zeros((2, 1)) for _ in range(2)]
    for step in range(1, steps + 1):
        for task, random in enumerate(randoms):
            x = random.rand(10 + task, 2)
            error = x @ copies[task] - x @ [[2.0], [-1.0]]
            copies[task] = copies[task] - 0.2 * 2 * x.T @ error / len(x)
        if step % period == 0 or step == steps:
            copies = [(10 * copies[0] + 11 * copies[1]) / 21] * 2
    return [float(value) for value in copies[0][:, 0]]


# With local SGD the hook that stops training sees the global step one step late.
@pytest.mark.parametrize(
    ("mode", "period", "steps"),
    [("sync", 1, REPLICATION_STEPS), ("local_sgd", 4, REPLICATION_STEPS + 1)],
)
def test_replicas_that_are_averaged_learn_what_numpy_says(mode, period, steps):
    for learned, step in replicated(mode):
        np.testing.assert_allclose(learned, in_numpy(period, steps), rtol=2e-5)
        assert step == steps


@pytest.mark.parametrize("mode", ["async", "staleness", "backup", "accumulation"])
def test_replicas_that_are_not_averaged_learn(mode):
    for learned, step in replicated(mode):
        assert step >= REPLICATION_STEPS
        assert np.linalg.norm(np.subtract(learned, [2.0, -1.0])) < 1.9, "it was 2.24"


def test_a_client_of_two_servers():
    hosts = ",".join(f"localhost:{port}" for port in free_ports(2))
    with (
        started("server.py", "0", hosts),
        started("server.py", "1", hosts),
        started("client.py", hosts.split(",")[0]) as client,
    ):
        output = finished(client)
    assert output.strip() == "[  4.875 126.45 ]"


def test_a_counter():
    with started("counter.py") as program:
        assert finished(program).split() == ["0", "1", "2", "3"]


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_programs_differ_from_tensorflow_s_in_one_line(program):
    text = (HERE / program).read_text()
    assert text.count("import sparkflow as tf") == 1
    assert text.count("sparkflow") == 1
