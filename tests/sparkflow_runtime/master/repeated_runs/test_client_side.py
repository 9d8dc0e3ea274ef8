"""Sessions as in another process: their repeated runs use the tensor channel."""

import functools
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)
from sparkflow_runtime.master import remote_session
from sparkflow_runtime.master.client import open_session
from sparkflow_runtime.master.remote_session import InProcessSession, RemoteSession
from sparkflow_runtime.master.repeated_runs import client_side
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.security.certificates import Authority
from sparkflow_runtime.server import Server
from support.graphs import const, graph_def, node, placeholder, variable
from support.waiting import wait_until

DEADLINE_S = 60
GRAPH = graph_def(
    placeholder("x", (2,)),
    placeholder("matrix", (2, None)),
    placeholder("text", (), dtypes.string),
    variable("v", (2,)),
    const("zero", [0, 0]),
    node("init", "Assign", "v", "zero"),
    node("add", "AssignAdd", "v", "x"),
    node("same", "Identity", "text", T=dtypes.string),
    node("product", "MatMul", "matrix", "matrix", transpose_b=True),
    node("checked", "CheckNumerics", "x", message="bad x"),
    node("q", "FIFOQueueV2", shared_name="q", component_types=[dtypes.float32]),
    node("put", "QueueEnqueueV2", "q", "x", Tcomponents=[dtypes.float32]),
    node("item", "QueueDequeueV2", "q", component_types=[dtypes.float32]),
    node("size", "QueueSizeV2", "q"),
)
X = np.float32([1, 2])


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treats this process's server like that of another process."""
    monkeypatch.setattr(remote_session, "masters_here", {})


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(None, "worker", 0, port=0, token="right")
    made.start()
    yield made
    made.stop()


def connect(server: Server, credentials: Any = "right") -> RemoteSession:
    session = open_session(server.target, credentials=credentials, create_timeout_s=DEADLINE_S)
    assert isinstance(session, RemoteSession)
    assert not isinstance(session, InProcessSession)
    session.extend(GRAPH)
    session.run([], {}, ["init"])
    return session


@pytest.fixture
def session(server: Server) -> Iterator[RemoteSession]:
    made = connect(server)
    yield made
    made.close()


until = functools.partial(wait_until, within_s=DEADLINE_S)


def has_channel(session: RemoteSession) -> bool:
    asker = session._repeated._asker
    return asker is not None and asker.is_open


def await_channel(session: RemoteSession) -> None:
    """Repeats a run until there is a channel."""
    session.run(["v:0"], {}, [])
    session.run(["v:0"], {}, [])
    until(lambda: has_channel(session))


def without_grpc(session: RemoteSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("it went over gRPC")

    monkeypatch.setattr(session, "_run_step", refuse)


def test_repeated_runs_go_over_the_channel(
    session: RemoteSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await_channel(session)
    session.run(["add:0"], {"x:0": X}, [])
    without_grpc(session, monkeypatch)
    for turn in range(2, 5):
        (value,), metadata = session.run(["add:0"], {"x:0": X}, [])
        assert metadata is None
        assert value.tolist() == [turn, 2 * turn]
        value += 1  # it belongs to the caller
    call = session.make_callable(["add:0", "v:0"], ["x:0"], [])
    with pytest.raises(AssertionError, match="gRPC"):
        call(X)  # the first time


def test_values_of_any_size_and_kind(session: RemoteSession) -> None:
    await_channel(session)
    large = np.random.default_rng(0).random((2, 1 << 20), np.float32)
    for _ in range(3):
        (product, size), _ = session.run(["product:0", "size:0"], {"matrix:0": large}, [])
        np.testing.assert_allclose(product, large @ large.T, rtol=1e-3)
        assert size == 0
        assert isinstance(size, np.int32)
        (empty,), _ = session.run(["product:0"], {"matrix:0": large[:, :0]}, [])
        assert empty.tolist() == [[0, 0], [0, 0]]
        (strided,), _ = session.run(["product:0"], {"matrix:0": large[:, 7:99:3]}, [])
        np.testing.assert_allclose(strided, large[:, 7:99:3] @ large[:, 7:99:3].T, rtol=1e-4)
        (text,), _ = session.run(["same:0"], {"text:0": np.array(b"a\0b", object)}, [])
        assert text == b"a\0b"


@pytest.mark.parametrize(
    ("fetches", "feeds"),
    [
        (["checked:0"], {"x:0": np.float32([1, np.nan])}),
        (["add:0"], {"x:0": np.float64([1, 2])}),
        (["add:0"], {"x:0": np.float32([1, 2, 3])}),
        (["nothing:0"], {}),
    ],
)
def test_errors_are_the_same(
    session: RemoteSession, fetches: list[str], feeds: dict[str, Any]
) -> None:
    await_channel(session)
    texts = []
    for _ in range(3):
        with pytest.raises(OpError) as caught:
            session.run(fetches, feeds, [])
        texts.append((type(caught.value), caught.value.message))
    assert texts[0] == texts[1] == texts[2]
    assert session.run(["v:0"], {}, [])[0][0].tolist() == [0, 0]


def test_nodes_that_were_added_later(session: RemoteSession) -> None:
    await_channel(session)
    session.extend(graph_def(node("negative", "Neg", "v")))
    for turn in range(1, 4):
        session.run(["add:0"], {"x:0": X}, [])
        (value,), _ = session.run(["negative:0"], {}, [])
        assert value.tolist() == [-turn, -2 * turn]


def test_threads_share_it(session: RemoteSession) -> None:
    await_channel(session)
    failures: list[BaseException] = []

    def train() -> None:
        try:
            for _ in range(100):
                session.run([], {"x:0": X}, ["add"])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert not failures
    assert session.run(["v:0"], {}, [])[0][0].tolist() == [400, 800]


def test_numbers_are_given_back(
    server: Server, session: RemoteSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_side, "MAX_PREPARED", 2)
    await_channel(session)
    for _ in range(3):
        for fetch in ("v:0", "size:0", "zero:0"):
            for _ in range(3):
                session.run([fetch], {}, [])
    until(lambda: len(server._master._callables) <= 2)


def blocked(session: RemoteSession) -> None:
    """Dequeues have run twice, so that a third one goes over the channel."""
    await_channel(session)
    for _ in range(2):
        session.run([], {"x:0": X}, ["put"])
        session.run(["item:0"], {}, [])


def nobody_dequeues(session: RemoteSession) -> None:
    session.run([], {"x:0": X}, ["put"])
    time.sleep(0.2)
    assert session.run(["size:0"], {}, [])[0][0] == 1
    session.run(["item:0"], {}, [])


def test_closing_the_session_ends_a_run_that_waits(server: Server, session: RemoteSession) -> None:
    waiting = connect(server)
    blocked(waiting)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            waiting.run(["item:0"], {}, [])
        except OpError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: bool(server.worker.answering.clients._running))  # type: ignore[union-attr]
    waiting.close()
    thread.join(DEADLINE_S)
    assert isinstance(errors[0], CancelledError)
    until(lambda: not server.worker.answering.clients._running)  # type: ignore[union-attr]
    nobody_dequeues(session)


def test_a_client_that_is_gone_ends_its_run(server: Server, session: RemoteSession) -> None:
    leaving = connect(server)
    blocked(leaving)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            leaving.run(["item:0"], {}, [])
        except OpError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: bool(server.worker.answering.clients._running))  # type: ignore[union-attr]
    leaving._repeated.close()
    thread.join(DEADLINE_S)
    assert len(errors) == 1
    until(lambda: not server.worker.answering.clients._running)  # type: ignore[union-attr]
    nobody_dequeues(session)
    leaving.close()


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_run(server: Server, session: RemoteSession) -> None:
    blocked(session)

    def press() -> None:
        until(lambda: bool(server.worker.answering.clients._running))  # type: ignore[union-attr]
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        session.run(["item:0"], {}, [])
    until(lambda: not server.worker.answering.clients._running)  # type: ignore[union-attr]
    nobody_dequeues(session)
    assert has_channel(session)


def test_a_server_that_goes_and_comes_back() -> None:
    first = Server(None, "worker", 0, port=0)
    first.start()
    session = connect(first, None)
    await_channel(session)
    first.stop()
    with pytest.raises((UnavailableError, AbortedError, CancelledError)):
        session.run(["v:0"], {}, [])
    with pytest.raises(UnavailableError):
        session.run(["v:0"], {}, [])
    second = Server(None, "worker", 0, port=first.port)
    second.start()
    try:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                session.run(["v:0"], {}, [])
            except AbortedError:
                break  # the session is not known there
            except UnavailableError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        fresh = connect(second, None)
        await_channel(fresh)
        fresh.close()
        session.close()
    finally:
        second.stop()


def test_a_server_that_lets_everybody_in_has_a_channel_for_who_shows_the_users_token() -> None:
    server = Server(None, "worker", 0, port=0, insecure=True)
    server.start()
    try:
        session = connect(server, None)
        await_channel(session)
        (value,), _ = session.run(["add:0"], {"x:0": X}, [])
        assert value.tolist() == [1, 2]
        session.close()
    finally:
        server.stop()


def test_the_channel_is_encrypted_where_the_session_is() -> None:
    authority = Authority.create()
    own = authority.issue("/job:worker/task:0")
    server = Server(None, "worker", 0, port=0, token="right", tls=own)
    server.start()
    try:
        session = connect(server, Credentials("right", authority.issue("client")))
        await_channel(session)
        for turn in range(1, 4):
            (value,), _ = session.run(["add:0"], {"x:0": X}, [])
            assert value.tolist() == [turn, 2 * turn]
        assert session._repeated._asker is not None
        wire = session._repeated._asker.wire
        assert wire.is_encrypted or wire.transport == "unix"
        session.close()
    finally:
        server.stop()


def test_without_a_channel_all_goes_over_grpc() -> None:
    server = Server(None, "worker", 0, port=0, transport="grpc")
    server.start()
    try:
        session = connect(server, None)
        for turn in range(1, 5):
            (value,), _ = session.run(["add:0"], {"x:0": X}, [])
            assert value.tolist() == [turn, 2 * turn]
        until(lambda: session._repeated._dials_at > 0)
        assert not has_channel(session)
        session.close()
    finally:
        server.stop()


def test_a_call_of_another_session_or_number_is_refused(
    server: Server, session: RemoteSession
) -> None:
    clients = server.worker.answering.clients
    assert clients is not None
    with pytest.raises(AbortedError, match="not known here"):
        clients.call(client_side.CLIENTS_STEP, client_side.pack_call("another", 1), [])
    text = client_side.pack_call(session._handle, 99)
    with pytest.raises(InvalidArgumentError, match="No such callable handle: 99"):
        clients.call(client_side.CLIENTS_STEP, text, [])
