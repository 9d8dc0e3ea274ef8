"""Constructors that fail at any step leave nothing behind: no port, thread, process or file."""

import ast
import errno
import functools
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.spark.cluster.process import forking
from sparkflow.spark.cluster.process.child_process import ChildProcess
from sparkflow.spark.cluster.process.fork_server import FUNCTION
from sparkflow.spark.cluster.process.piped_process import executed
from sparkflow.spark.cluster.registration import RegistrationServer
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.data.spool.partition_files import JobFolders
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.launch.connect import connect_task
from sparkflow.spark.programs.function_process import FunctionProcess
from sparkflow_runtime.device.memory_file import MemoryFile
from sparkflow_runtime.events.event_file import EventFileWriter
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.server import Server
from sparkflow_runtime.testing.faulty_link import FaultyLink
from sparkflow_runtime.testing.leaks import assert_nothing_left
from sparkflow_runtime.transport.channel.asking import Asker
from sparkflow_runtime.transport.channel.dialling import dial
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.channel.reactor import available, reactor
from support.construction import Interrupted, failing, steps_of
from support.mirror import ROOT

pytestmark = pytest.mark.skipif(not available(), reason="needs Linux")
TOKEN = "t" * 64
WORKER = TaskName("worker", 0)
Made = Callable[[], Any]
"""Constructs something; the result can be called to end it."""


def silent(*_: object) -> None:
    return


def a_server() -> Any:
    return Server(None, "worker", 0, port=0, token=TOKEN).stop


def a_server_of_tensorflow() -> Any:
    return tf.train.Server({"a": ["localhost:0"]}, "a", 0, token=TOKEN).stop


def a_registration() -> Any:
    layout = ClusterLayout(0, 1)
    return RegistrationServer(layout, silent, "127.0.0.1", Credentials(TOKEN)).close


def folders_of_rows() -> Any:
    return JobFolders([tempfile.gettempdir()] * 2).remove


def a_child() -> Any:
    start = functools.partial(executed, "keyword")
    return ChildProcess(WORKER, {}, os.environ, silent, silent, start).end


def a_function() -> Any:
    start = functools.partial(executed, FUNCTION)
    return FunctionProcess(WORKER, b"", os.environ, start=start).end


def a_fork() -> Any:
    try:
        process = forking.forked("keyword", dict(os.environ))
    except BaseException:
        forking._servers.close()  # which are kept for the next process
        raise

    def end() -> None:
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                pipe.close()
        forking._servers.close()

    return end


def a_file_of_events() -> Any:
    return EventFileWriter(tempfile.gettempdir()).close


def a_writer_of_summaries() -> Any:
    return tf.summary.FileWriter(tempfile.gettempdir()).close


def memory() -> Any:
    return MemoryFile(4096).close


def a_link() -> Any:
    return FaultyLink("127.0.0.1:9").close


CASES = [
    *(a_server, a_server_of_tensorflow, a_registration, folders_of_rows, a_child, a_function),
    *(a_fork, a_file_of_events, a_writer_of_summaries, memory, a_link),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture(params=["unix", "tcp"])
def dialled(request: pytest.FixtureRequest) -> Iterator[Made]:
    server = Server(None, "worker", 0, port=0, token=TOKEN)
    server.start()
    address = server.worker.channel_address
    assert address is not None
    me = Self("/job:ps/replica:0/task:0", 3, TOKEN, None, request.param)

    def open_channel() -> Any:
        opened = dial(address, me, expected_task=server.task, timeout_s=20)
        return Asker(opened, reactor).close

    with ExitStack() as stack:
        stack.callback(server.stop)
        stack.callback(open_channel())  # the threads that read have started
        yield open_channel


def leaves_nothing(make: Made, folder: Path) -> None:
    """Makes the constructor fail at each step, with an error of the system and with Ctrl-C."""
    make()()  # whatever it loads or creates only once now exists
    ends: list[Any] = []
    steps = steps_of(lambda: ends.append(make()))
    ends.pop()()
    assert len(steps) > 1
    for step in steps:
        for error in (OSError(errno.EMFILE, "no more of them"), Interrupted()):
            before = set(folder.iterdir())
            with warnings.catch_warnings(record=True) as warned, assert_nothing_left():
                warnings.simplefilter("always", ResourceWarning)
                raised: list[BaseException] = []
                try:
                    with failing(step, error):
                        ends.append(make())
                except BaseException as caught:
                    raised = _causes(caught)
                assert error in raised or ends, step
                for each in raised:
                    each.__traceback__ = None  # whose frames hold what was constructed
                if ends:
                    ends.pop()()
            assert not [str(each.message) for each in warned], step
            files = [] if make is a_file_of_events else set(folder.iterdir()) - before
            assert not [each for each in files if "tfevents" not in each.name], step


def _causes(error: BaseException | None) -> list[BaseException]:
    """Returns an error and its causes."""
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


@pytest.mark.parametrize("make", CASES)
def test_nothing_is_left(make: Made, folder: Path) -> None:
    leaves_nothing(make, folder)


def test_nothing_is_left_of_a_channel(dialled: Made, folder: Path) -> None:
    leaves_nothing(dialled, folder)


def test_nothing_is_left_of_a_chief_that_does_not_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_task, "local_directories", lambda environment: iter([str(folder)]))
    job = SimpleNamespace(credentials=Credentials(TOKEN))
    config: Any = SimpleNamespace(work=b"no pickle", remembered=None, job=job)
    with assert_nothing_left():
        with pytest.raises(SparkTrainingError, match="exited with code 1"):
            connect_task._Chief(config, "127.0.0.1")
        assert list(folder.iterdir()) == []


def test_a_thread_that_cannot_be_started_counts_as_none() -> None:
    """A retry would otherwise wait for it, or join a thread that has never started."""
    found = []
    for path in (*ROOT.glob("sparkflow/**/*.py"), *ROOT.glob("runtime/**/*.py")):
        text = path.read_text("utf-8")
        for function in ast.walk(ast.parse(text)) if ".start()" in text else ():
            if isinstance(function, ast.FunctionDef) and function.name != "__init__":
                found += [f"{path}:{line}" for line in _threads_known_too_early(function)]
    assert not found, "keep a thread once it has started"


def _threads_known_too_early(function: ast.FunctionDef) -> list[int]:
    """Returns the lines of `self.thread = Thread(...)` that precede `self.thread.start()`."""
    started = {
        ast.unparse(each.func.value)
        for each in ast.walk(function)
        if isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr == "start"
    }
    return [
        each.lineno
        for each in ast.walk(function)
        if isinstance(each, ast.Assign)
        and isinstance(each.value, ast.Call)
        and ast.unparse(each.value.func).endswith("Thread")
        and any(ast.unparse(target) in started for target in each.targets)
        and any(isinstance(target, ast.Attribute) for target in each.targets)
    ]
