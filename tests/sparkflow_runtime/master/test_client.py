"""Sessions in process and behind grpc:// behave alike."""

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import (
    AlreadyExistsError,
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    UnauthenticatedError,
)
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.master import remote_session
from sparkflow_runtime.master.client import SessionClient, open_session
from sparkflow_runtime.protos.config_pb2 import ConfigProto, RunOptions
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.transport.threads import DaemonThreads
from support.graphs import const, graph_def, node, placeholder, variable

WAIT_S = 60
PS = "/job:ps"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, 2) as made:
        yield made


@pytest.fixture(params=["local", "one task", "two tasks"])
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def on_ps(where: str) -> str:
    """Returns the device of variables."""
    return PS if where == "two tasks" else ""


@pytest.fixture
def session(where: str, cluster: LocalCluster) -> Iterator[SessionClient]:
    made = open_session("" if where == "local" else cluster.target("worker", 0))
    yield made
    made.close()
    made.close()
    for server in cluster.servers:
        server.resources.clear()


def counter(device: str) -> list[Node]:
    return [
        placeholder("x", (None,)),
        const("c", [1, 2, 3]),
        variable("v", (3,), device=device),
        node("init", "Assign", "v", "c"),
        node("add", "AssignAdd", "v", "x", use_locking=True),
        node("read", "Identity", "v"),
        node("twice", "AddV2", "read", "read", _source="model.py:4"),
        node("sum", "Sum", "twice", "axis"),
        const("axis", [0], dtypes.int32),
    ]


def run(session: SessionClient, *fetches: str, **feeds: Any) -> list[Any]:
    fed = {f"{name}:0": np.asarray(value, np.float32) for name, value in feeds.items()}
    return session.run([f"{name}:0" for name in fetches], fed, [])[0]


def test_a_step_computes_before_it_writes_and_fetches_after(
    session: SessionClient, on_ps: str
) -> None:
    session.extend(graph_def(*counter(on_ps)))
    session.run([], {}, ["init"])
    added, read, total = run(session, "add", "read", "sum", x=[1, 1, 1])
    assert (added.tolist(), read.tolist(), total) == ([2, 3, 4], [2, 3, 4], 12)
    assert run(session, "read")[0].tolist() == [2, 3, 4]


def test_any_tensor_can_be_fed_and_fetched_twice(session: SessionClient, on_ps: str) -> None:
    session.extend(graph_def(*counter(on_ps)))
    assert run(session, "sum", twice=[1, 2]) == [3]
    assert [v.tolist() for v in run(session, "read", "twice", "read", read=[5])] == [[5], [10], [5]]
    assert run(session, "c", "x", x=[7])[1].tolist() == [7]


def test_fetched_values_are_the_caller_s_own(session: SessionClient, on_ps: str) -> None:
    session.extend(graph_def(*counter(on_ps)))
    fed = np.float32([1, 2, 3])
    session.run([], {}, ["init"])
    for _ in range(2):
        for value in session.run(["c:0", "v:0", "x:0", "x:0"], {"x:0": fed}, [])[0]:
            assert value.tolist() == [1, 2, 3]
            value += 10
    assert fed.tolist() == [1, 2, 3]
    scalar = run(session, "sum", twice=[1])[0]
    assert isinstance(scalar, np.float32)


def test_callables_take_feeds_in_order(session: SessionClient) -> None:
    session.extend(
        graph_def(placeholder("a"), placeholder("b"), node("d", "Sub", "a", "b"), node("n", "NoOp"))
    )
    call = session.make_callable(["d:0", "a:0"], ["b:0", "a:0"], ["n"])
    for _ in range(2):
        assert call(np.float32(1), np.float32(5)) == [4, 5]
    nothing = session.make_callable([], [], ["n"])
    assert nothing() == []


def test_the_graph_can_be_extended(session: SessionClient, on_ps: str) -> None:
    session.extend(graph_def(*counter(on_ps)))
    session.run([], {}, ["init"])
    session.extend(graph_def(node("neg", "Neg", "read")))
    assert run(session, "neg")[0].tolist() == [-1, -2, -3]
    with pytest.raises(AlreadyExistsError, match="'neg' is in the session's graph already"):
        session.extend(graph_def(const("new", 1), node("neg", "Neg", "read")))
    with pytest.raises(NotFoundError, match="'new'"):  # the whole extension was rejected
        run(session, "new")


def test_texts_and_empty_arrays_cross(session: SessionClient, on_ps: str) -> None:
    session.extend(
        graph_def(
            placeholder("t", None, dtypes.string),
            node("t2", "Identity", "t", T=dtypes.string, device=on_ps),
            placeholder("e"),
            node("e2", "Neg", "e", device=on_ps),
        )
    )
    texts = np.array([b"a", b"\xff\x00", b""], object)
    feeds = {"t:0": texts, "e:0": np.zeros((0, 3), np.float32)}
    found, empty = session.run(["t2:0", "e2:0"], feeds, [])[0]
    assert found.tolist() == texts.tolist()
    assert empty.shape == (0, 3)


FAILURES: list[tuple[list[str], dict[str, Any], list[str], type[OpError], list[str]]] = [
    (
        ["twice:0"],
        {},
        [],
        FailedPreconditionError,
        ["uninitialized value v", "read", "(Identity) on /job:"],
    ),
    (["add:0"], {}, ["init"], InvalidArgumentError, ["must feed a value", "'x' (Placeholder)"]),
    (
        ["twice:0"],
        {"read:0": np.zeros(2)},
        [],
        InvalidArgumentError,
        ["Feed 0 has dtype float64, expected float32"],
    ),
    (["gone:0"], {}, [], NotFoundError, ["no node 'gone'"]),
    (["c:1"], {}, [], InvalidArgumentError, ["c:1 does not exist", "has 1 outputs"]),
    (["c"], {"gone:0": np.zeros(2)}, [], NotFoundError, ["no node 'gone'"]),
    ([], {}, ["gone"], NotFoundError, ["no node 'gone'"]),
    ([":0"], {}, [], InvalidArgumentError, ["does not name a tensor"]),
    (
        ["lost:0"],
        {},
        [],
        InvalidArgumentError,
        ["Cannot assign a device for operation lost", "to /job:gone"],
    ),
    (["odd:0"], {}, [], NotFoundError, ["'Nonsense' is not registered"]),
    (
        ["bad:0"],
        {"x:0": np.ones(2, np.float32)},
        [],
        InvalidArgumentError,
        ["model.py:9", "'bad' (AddV2)", "[2] vs. [3]"],
    ),
]


@pytest.mark.parametrize(("fetches", "feeds", "targets", "error", "texts"), FAILURES)
def test_failures_say_what_where_and_which_line(
    session: SessionClient,
    on_ps: str,
    fetches: list[str],
    feeds: dict[str, Any],
    targets: list[str],
    error: type[OpError],
    texts: list[str],
) -> None:
    session.extend(
        graph_def(
            *counter(on_ps),
            const("lost", 1, device="/job:gone"),
            Node("odd", "Nonsense"),
            node("bad", "AddV2", "x", "c", _source="model.py:9"),
        )
    )
    for _ in range(2):  # the second time from the cache
        with pytest.raises(error) as info:
            session.run(fetches, feeds, targets)
        for text in texts:
            assert text in str(info.value)
    assert run(session, "c")[0].tolist() == [1, 2, 3]  # the session continues


def queue(device: str) -> list[Node]:
    kinds: dict[str, Any] = {"component_types": [dtypes.float32]}
    return [
        node("q", "FIFOQueueV2", shared_name="q", device=device, **kinds),
        node("item", "QueueDequeueV2", "q", **kinds),
        placeholder("x"),
        node("put", "QueueEnqueueV2", "q", "x", Tcomponents=[dtypes.float32]),
        node("size", "QueueSizeV2", "q"),
        node("far", "Neg", "item"),
    ]


def test_a_blocked_step_meets_one_that_unblocks_it(session: SessionClient, on_ps: str) -> None:
    session.extend(graph_def(*queue(on_ps)))
    threads = DaemonThreads(2, "test-client")
    blocked = threads.submit(run, session, "far")
    session.run([], {"x:0": np.float32(4)}, ["put"])
    assert blocked.result(WAIT_S) == [-4]
    threads.shutdown()


def test_closing_a_session_ends_its_steps(session: SessionClient, on_ps: str) -> None:
    session.extend(graph_def(*queue(on_ps)))
    session.run(["size:0"], {}, [])  # compiled and registered
    threads = DaemonThreads(4, "test-client")
    blocked = [threads.submit(run, session, "far") for _ in range(3)]
    done, _ = wait(blocked, timeout=0.3)
    assert not done
    session.close()
    for future in blocked:
        assert isinstance(future.exception(WAIT_S), CancelledError)
    threads.shutdown()
    with pytest.raises(OpError):
        run(session, "size")


def test_a_step_may_have_a_deadline(session: SessionClient, on_ps: str) -> None:
    session.extend(graph_def(*queue(on_ps)))
    with pytest.raises(DeadlineExceededError):
        session.run(["far:0"], {}, [], RunOptions(timeout_in_ms=200))
    # It took nothing from the queue.
    session.run([], {"x:0": np.float32(4)}, ["put"])
    assert run(session, "far") == [-4]


def test_threads_share_a_session(session: SessionClient, on_ps: str) -> None:
    session.extend(graph_def(*counter(on_ps)))
    session.run([], {}, ["init"])
    threads = DaemonThreads(8, "test-client")

    def work() -> None:
        for _ in range(10):
            run(session, "add", x=[1, 0, 0])

    for future in [threads.submit(work) for _ in range(8)]:
        future.result(WAIT_S)
    threads.shutdown()
    assert run(session, "read")[0].tolist() == [81, 2, 3]


def test_large_tensors_cross(session: SessionClient, on_ps: str) -> None:
    session.extend(graph_def(placeholder("x"), node("y", "Neg", "x", device=on_ps)))
    large = np.random.default_rng(0).random(50_000_000 // 4, np.float32)
    (value,) = run(session, "y", x=large)
    np.testing.assert_array_equal(value, -large)


def test_devices_are_listed(session: SessionClient, where: str) -> None:
    names = [device.name for device in session.list_devices()]
    if where == "local":
        assert "/job:localhost/replica:0/task:0/device:CPU:0" in names
    else:
        assert names[0] == "/job:worker/replica:0/task:0/device:CPU:0"  # the default comes first
        assert len(names) == 3


def test_partition_graphs_are_shown_when_asked_for(session: SessionClient, where: str) -> None:
    session.extend(graph_def(*counter(PS if where == "two tasks" else "")))
    _, nothing = session.run(["c:0"], {}, [])
    assert nothing is None
    feeds = {"x:0": np.float32([1])}
    _, metadata = session.run(["x:0"], feeds, ["init"], RunOptions(output_partition_graphs=True))
    assert metadata is not None
    assert len(metadata.partition_graphs) == (2 if where == "two tasks" else 1)


def test_graphs_after_each_pass_are_shown_when_asked_for(
    session: SessionClient, where: str
) -> None:
    nodes = [*counter(PS if where == "two tasks" else ""), const("k", 1.0)]
    session.extend(graph_def(*nodes, node("m", "Mul", "x", "k"), node("r", "Neg", "m")))
    feeds = {"x:0": np.float32([1])}
    for _ in range(2):  # the second time the step is ready
        values, metadata = session.run(["r:0"], feeds, [], RunOptions(output_pass_graphs=True))
        assert values == [np.float32([-1])]
        assert metadata is not None
        names = {each.name: [n.name for n in each.graph.node] for each in metadata.pass_graphs}
        assert list(names) == ["prune", "simplify", "place"]
        assert {"k", "m", "r"} <= set(names["prune"])
        assert not {"k", "m"} & set(names["simplify"])
        assert all(n.device for n in metadata.pass_graphs[-1].graph.node)
    _, metadata = session.run(["r:0"], feeds, [], RunOptions())
    assert metadata is not None
    assert not metadata.pass_graphs


def test_options_of_the_session(cluster: LocalCluster) -> None:
    pinned = graph_def(const("c", 1.0, device="/gpu:7"))
    for target in ("", cluster.target("worker", 0)):
        soft = open_session(target, config=ConfigProto(allow_soft_placement=True))
        soft.extend(pinned)
        assert soft.run(["c:0"], {}, [])[0] == [1]
        soft.close()
    filtered = ConfigProto(device_filters=["/job:ps"])
    session = open_session(cluster.target("worker", 1), config=filtered)
    assert [device.name for device in session.list_devices()] == [
        "/job:worker/replica:0/task:1/device:CPU:0",
        "/job:ps/replica:0/task:0/device:CPU:0",
    ]
    session.close()


def test_targets_that_lead_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remote_session, "TELL_INTERVAL_S", 0.2)
    with pytest.raises(NotFoundError, match="neither '' nor 'grpc://"):
        open_session("http://x")
    with LocalCluster(0, 1, token="right") as cluster:
        target = cluster.target("worker", 0)
        for token in (None, "wrong"):
            with pytest.raises(UnauthenticatedError):
                open_session(target, credentials=token)
        open_session(target, credentials="right").close()
    master = f"The master at {target[7:]}"
    with pytest.raises(DeadlineExceededError, match=f"{master} cannot be reached.* 0.5 s"):
        open_session(target, create_timeout_s=0.5)
    assert f"Session still waiting for response from {master}" in caplog.messages


def test_sessions_in_process_leave_no_threads() -> None:
    before = set(threading.enumerate())
    for _ in range(5):
        session = open_session()
        session.extend(graph_def(*queue("")))
        session.run([], {"x:0": np.float32(4)}, ["put"])
        session.close()
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT_S)
        assert not thread.is_alive()
