"""Processes that are forked behave like executed ones, and end with those that started them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sparkflow.spark.cluster.process import forking
from sparkflow.spark.cluster.process.fork_server import MODULE as SERVER, TRAINING
from sparkflow.spark.cluster.process.forking import ForkedProcess, forked
from sparkflow.spark.cluster.process.process_title import ROLE

CHILD = "support.forked_child"
WAIT_S = 30
HERE = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

Start = Callable[..., ForkedProcess]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts processes from a fork server of the test, with a request."""
    servers = forking._Servers()
    monkeypatch.setattr(forking, "_servers", servers)
    started = []

    def forks(environment: Mapping[str, str] = HERE, **request: Any) -> ForkedProcess:
        process = forked(CHILD, environment)
        assert process is not None
        started.append(process)
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        return process

    yield forks
    for process in started:
        process.kill()
        process.wait(WAIT_S)
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
    servers.close()


def answer(process: ForkedProcess) -> Any:
    return json.loads(process.stdout.readline())


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_a_second_process_is_of_the_same_server_and_nothing_else_is_shared(start: Start) -> None:
    first = start()
    told = answer(first)
    second = start()
    other = answer(second)
    assert told["parent"] == other["parent"]
    assert first.pid != second.pid
    assert not set(told["draws"]) & set(other["draws"])
    # What one process holds open of another one would hide its end. 3 is the listed folder.
    assert told["open"] == other["open"] == [0, 1, 2, 3]
    for process in (first, second):
        process.stdin.close()
        assert process.wait(WAIT_S) == 0
        assert process.stderr.read() == b""


def test_it_shows_its_module_and_its_variables(start: Start) -> None:
    names = [ROLE, "CUDA_VISIBLE_DEVICES"]
    gpu = start({**HERE, ROLE: "worker 1", "CUDA_VISIBLE_DEVICES": "0,1"}, variables=names)
    assert answer(gpu)["variables"] == {ROLE: "worker 1", "CUDA_VISIBLE_DEVICES": "0,1"}
    environment = {each for each in HERE.items() if each[0] not in names}
    plain = start({**dict(environment), ROLE: "ps 0"}, variables=names)
    assert answer(plain)["variables"] == {ROLE: "ps 0", "CUDA_VISIBLE_DEVICES": None}
    for process, shown in ((gpu, b"worker 1\0CUDA_VISIBLE_DEVICES=0,1\0"), (plain, b"ps 0\0")):
        variables = Path(f"/proc/{process.pid}/environ").read_bytes()
        assert f"{ROLE}=".encode() + shown in variables
        assert ("CUDA_VISIBLE_DEVICES" in shown.decode()) == (b"CUDA_VISIBLE" in variables)
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert command.rstrip(b"\0").endswith(b"\0-m\0" + CHILD.encode())


@pytest.mark.parametrize(
    ("request_", "code", "said"),
    [
        ({"exit": 3}, 3, b""),
        ({"exit": 0}, 0, b""),
        ({"error": "no"}, 1, b"ValueError: no\n"),
    ],
)
def test_its_exit_code(start: Start, request_: Any, code: int, said: bytes) -> None:
    process = start(**request_)
    assert process.wait(WAIT_S) == code
    assert process.wait() == code
    assert process.stderr.read().endswith(said)
    process.kill()  # nothing happens


def test_one_that_does_not_end_is_killed_while_somebody_waits(start: Start) -> None:
    process = start(hang=True)
    answer(process)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    codes: list[int] = []
    waiter = threading.Thread(target=lambda: codes.append(process.wait()))
    waiter.start()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    process.kill()
    waiter.join(WAIT_S)
    assert codes == [-signal.SIGKILL]
    assert process.wait() == -signal.SIGKILL
    assert is_gone(process.pid)


def test_a_killed_server_takes_its_processes_with_it_and_is_replaced(start: Start) -> None:
    process = start(hang=True)
    server = answer(process)["parent"]
    os.kill(server, signal.SIGKILL)
    assert process.wait(WAIT_S) == -signal.SIGKILL
    assert is_gone(process.pid)
    assert answer(start())["parent"] != server


def test_a_server_that_stands_still_is_replaced(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = answer(start(hang=True))["parent"]
    os.kill(server, signal.SIGSTOP)
    has_report, timeouts = forking._has_report, iter([0.2])  # the first one is short
    monkeypatch.setattr(
        forking, "_has_report", lambda status, each: has_report(status, next(timeouts, each))
    )
    assert answer(start())["parent"] != server
    assert is_gone(server)


def test_servers_that_stand_still_end_with_their_process(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = answer(start(hang=True))["parent"]
    os.kill(server, signal.SIGSTOP)
    monkeypatch.setattr(forking, "END_TIMEOUT_S", 0.1)
    forking._servers.close()
    assert is_gone(server)


def test_another_environment_has_another_server_and_the_first_one_ends(start: Start) -> None:
    first = start()
    server = answer(first)["parent"]
    second = start({**HERE, "OMP_NUM_THREADS": "3"}, variables=["OMP_NUM_THREADS"])
    told = answer(second)
    assert told["parent"] != server
    assert told["variables"] == {"OMP_NUM_THREADS": "3"}
    first.stdin.close()
    assert first.wait(WAIT_S) == 0  # it was left to end by itself
    assert is_gone(server)
    second.stdin.close()
    assert second.wait(WAIT_S) == 0


def test_another_module_has_another_server_beside_the_first_one(start: Start) -> None:
    told = answer(start())
    environment = {**HERE, "TF_CONFIG": "{}"}
    other = forked("json.tool", environment)  # it has a `main`, too
    assert other is not None
    other.stdin.write(b'{"a":   1}')
    other.stdin.close()
    assert other.stdout.read().split() == [b"{", b'"a":', b"1", b"}"]
    assert other.wait(WAIT_S) == 0
    for pipe in (other.stdout, other.stderr):
        pipe.close()
    again = start(environment, variables=["TF_CONFIG"])
    found = answer(again)
    assert found["parent"] == told["parent"]
    assert found["variables"] == {"TF_CONFIG": "{}"}
    assert len(forking._servers._all) == 2


def test_variables_that_no_request_can_have_need_an_execution(start: Start) -> None:
    start()
    assert forked(CHILD, {**HERE, "TF_CONFIG": "x" * 65_536}) is None
    large = {**HERE, ROLE: "worker 7", "TF_CONFIG": "x" * 60_000}
    process = start(large, variables=["TF_CONFIG"])
    assert answer(process)["variables"] == {"TF_CONFIG": "x" * 60_000}
    shown = Path(f"/proc/{process.pid}/environ").read_bytes()
    assert f"{ROLE}=worker 7\0".encode() in shown
    assert b"TF_CONFIG" not in shown


def test_a_server_with_threads_forks_nothing(start: Start, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    path = os.pathsep.join([str(tmp_path), HERE["PYTHONPATH"]])
    assert forked(CHILD, {**HERE, "PYTHONPATH": path}) is None


def test_a_server_that_cannot_start_forks_nothing(start: Start, tmp_path: Path) -> None:
    (tmp_path / "llvmlite.py").write_text("raise ImportError('a broken installation')\n")
    path = os.pathsep.join([str(tmp_path), HERE["PYTHONPATH"]])
    assert forked(TRAINING, {**HERE, "PYTHONPATH": path}) is None


_WORKER = f"""
import json, os, sys
from sparkflow.spark.cluster.process.forking import forked
process = forked({CHILD!r}, dict(os.environ))
process.stdin.write(b'{{"hang": true}}\\n')
process.stdin.flush()
print(process.pid, json.loads(process.stdout.readline())["parent"], flush=True)
if sys.argv[1] == "fork" and os.fork() == 0:
    os.execvp("sleep", ["sleep", "600"])
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["killed", "ended", "fork"])
def test_all_end_with_the_process_that_started_them(how: str) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=HERE,
        start_new_session=True,
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    with worker:
        process, server = map(int, worker.stdout.readline().split())
        assert SERVER.encode() in Path(f"/proc/{server}/cmdline").read_bytes()
        if how == "ended":
            worker.stdin.close()
        else:
            worker.kill()
        worker.wait(WAIT_S)
        assert is_gone(process)
        assert is_gone(server)
        if how == "fork":
            os.killpg(worker.pid, signal.SIGKILL)
