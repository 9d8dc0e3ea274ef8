"""Plain steps with a remote task that take one message there and one back."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.master.client import SessionClient, open_session
from sparkflow_runtime.protos.config_pb2 import ConfigProto
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.transport.channel import handshake
from sparkflow_runtime.transport.channel.asking import Asker
from sparkflow_runtime.transport.channel.memory import ChannelMemory
from sparkflow_runtime.transport.channel.reactor import available
from sparkflow_runtime.transport.channel.serving import Serving
from sparkflow_runtime.worker.answering import MOST_KEPT_BYTES
from support.graphs import const, graph_def, node, placeholder, variable

pytestmark = pytest.mark.skipif(not (available() and SharedArena.available()), reason="needs Linux")
PS, WORKER = "/job:ps", "/job:worker"
LEARNING = 2
"""The number of steps that request variables before a step knows where they are."""

Frames = Callable[[], list[str]]


def training(rows: int) -> list[Any]:
    """A step that reads `w` [rows, 2] and a small `b`, and takes their gradients from them."""
    start = np.arange(rows * 2).reshape(rows, 2) / rows
    return [
        variable("w", (rows, 2), device=PS),
        variable("b", (2,), device=PS),
        const("w/start", start, device=PS),
        const("b/start", [1, 2], device=PS),
        node("w/set", "Assign", "w", "w/start", device=PS),
        node("b/set", "Assign", "b", "b/start", device=PS),
        node("w/read", "Identity", "w", device=PS),
        node("b/read", "Identity", "b", device=PS),
        placeholder("x", None, device=WORKER),
        node("y", "MatMul", "x", "w/read", device=WORKER),
        node("z", "AddV2", "y", "b/read", device=WORKER),
        const("axis", [0], dtypes.int32, device=WORKER),
        node("db", "Sum", "z", "axis", device=WORKER, Tidx=dtypes.int32, keep_dims=False),
        node("dw", "MatMul", "x", "z", device=WORKER, transpose_a=True),
        const("rate", 0.001, device=PS),
        node("w/train", "ApplyGradientDescent", "w", "rate", "dw", device=PS),
        node("b/train", "ApplyGradientDescent", "b", "rate", "db", device=PS),
        placeholder("w/given", None, device=PS),
        node("w/reset", "Assign", "w", "w/given", device=PS, validate_shape=False),
        node("b/reset", "Assign", "b", "rate", device=PS, validate_shape=False),
    ]


INIT = ["w/set", "b/set"]
TRAIN = ["w/train", "b/train"]


def run(client: SessionClient, x: Any) -> Any:
    """Returns what a step of training fetches."""
    [z], _ = client.run(["z:0"], {"x:0": x}, TRAIN)
    return z


def expected(x: Any, w: Any, b: Any) -> tuple[Any, Any, Any]:
    """The same by hand: what is fetched, and both variables afterwards."""
    z = x @ w + b
    return z, w - np.float32(0.001) * (x.T @ z), b - np.float32(0.001) * z.sum(0)


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> Frames:
    """Returns the frames that arrived, and at which end, since the last call."""
    seen: list[str] = []

    def noting(kind: type, to: str) -> None:
        handle = kind.handle  # type: ignore[attr-defined]

        def handle_noted(end: Any, header: Any, *rest: Any) -> None:
            seen.append(f"{header.kind.name} to {to}")
            handle(end, header, *rest)

        monkeypatch.setattr(kind, "handle", handle_noted)

    noting(Serving, "task")
    noting(Asker, "caller")

    def take() -> list[str]:
        found = [each for each in seen if not each.startswith("FINISH")]
        seen.clear()
        return found

    return take


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, 2) as made:
        yield made


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[SessionClient]:
    made = open_session(cluster.target("worker", 0))
    yield made
    made.close()


@pytest.mark.parametrize("rows", [3, 3000])
def test_a_step_is_one_message_there_and_one_back(
    client: SessionClient, frames: Frames, rows: int
) -> None:
    client.extend(graph_def(*training(rows)))
    client.run([], {}, INIT)
    [w, b], _ = client.run(["w:0", "b:0"], {}, [])
    x = np.linspace(0, 1, 4 * rows).reshape(4, rows).astype(np.float32)
    for turn in range(6):
        frames()
        z = run(client, x)
        right, w, b = expected(x, w, b)
        np.testing.assert_allclose(z, right, rtol=1e-4)
        if turn >= LEARNING + 1:  # the path it is sent through exists, too
            assert frames() == ["CALL to task", "REPLY to caller"]
    found, _ = client.run(["w:0", "b:0"], {}, [])
    np.testing.assert_allclose(found[0], w, rtol=1e-4)
    np.testing.assert_allclose(found[1], b, rtol=1e-4)


def test_what_others_assigned_is_seen_at_once(cluster: LocalCluster, client: SessionClient) -> None:
    client.extend(graph_def(*training(2000)))
    client.run([], {}, INIT)
    with_other = open_session(cluster.target("worker", 1))
    with_other.extend(graph_def(*training(2000)))
    x = np.ones((1, 2000), np.float32)
    for turn in range(LEARNING + 4):
        given = np.full((2000, 2), turn / 1000, np.float32)
        with_other.run([], {"w/given:0": given}, ["w/reset"])
        [b], _ = with_other.run(["b:0"], {}, [])
        np.testing.assert_allclose(run(client, x), [b + 2 * turn], rtol=1e-4)
    with_other.close()


def test_variables_that_lie_elsewhere_now_are_asked_for(
    cluster: LocalCluster, client: SessionClient, frames: Frames
) -> None:
    client.extend(graph_def(*training(2000)))
    client.run([], {}, INIT)
    other = open_session(cluster.target("worker", 1))
    other.extend(graph_def(*training(2000)))
    sizes = [2000, 3000, 1000]
    for rows in sizes:
        given = np.ones((rows, 2), np.float32) / 1000
        other.run([], {"w/given:0": given}, ["w/reset"])
        x = np.ones((1, rows), np.float32)
        for turn in range(LEARNING + 2):
            [w, b], _ = other.run(["w:0", "b:0"], {}, [])
            frames()
            right, _, _ = expected(x, w, b)
            np.testing.assert_allclose(run(client, x), right, rtol=1e-4)
            # The first step after a move asks, and so learns all places again.
            has_asked = "REQUEST to task" in frames()
            assert has_asked == (turn == 0 or (turn < LEARNING and rows == sizes[0]))
    other.close()


def test_a_step_that_fails_before_it_has_anything_is_not_called(
    client: SessionClient, frames: Frames
) -> None:
    client.extend(graph_def(*training(3)))
    client.run([], {}, INIT)
    x = np.ones((1, 3), np.float32)
    for _ in range(LEARNING + 1):
        run(client, x)
    [w, b], _ = client.run(["w:0", "b:0"], {}, [])
    frames()
    with pytest.raises(InvalidArgumentError, match="MatMul"):
        run(client, np.ones((1, 4), np.float32))
    assert "CALL to task" not in frames()
    np.testing.assert_allclose(run(client, x), expected(x, w, b)[0], rtol=1e-4)


def test_a_call_that_fails_tells_why(client: SessionClient) -> None:
    client.extend(graph_def(*training(3)))
    client.run([], {}, INIT)
    x = np.ones((1, 3), np.float32)
    for _ in range(LEARNING + 1):
        run(client, x)
    client.run([], {}, ["b/reset"])  # its gradient now has a different shape
    for _ in range(LEARNING + 1):
        with pytest.raises(InvalidArgumentError, match="b/train"):
            run(client, x)


def echoing(size: int) -> list[Any]:
    """A step that pushes `x`, sums it into `total`, and uses the result."""
    return [
        placeholder("x", None, device=WORKER),
        variable("total", (size,), device=PS),
        node("total/set", "Assign", "total", "zero", device=PS),
        const("zero", np.zeros(size), device=PS),
        node("pushed", "Neg", "x", device=WORKER),
        node("added", "AssignAdd", "total", "pushed", device=PS),
        node("now", "Neg", "added", device=PS),
        node("got", "Abs", "now", device=WORKER),
        node("after", "Identity", "total", device=PS, after=["added"]),
    ]


@pytest.mark.parametrize("size", [1, 3, 3000, 9000])
@pytest.mark.parametrize("fetched", [["got:0"], ["after:0", "got:0"]])
def test_a_small_bundle_comes_with_the_results(
    client: SessionClient, frames: Frames, size: int, fetched: list[str]
) -> None:
    client.extend(graph_def(*echoing(size)))
    client.run([], {}, ["total/set"])
    x = np.arange(size, dtype=np.float32)
    kept: list[Any] = []
    for turn in range(1, 6):
        frames()
        found, _ = client.run(fetched, {"x:0": x}, [])
        kept.append(found[-1])
        np.testing.assert_array_equal(abs(found[0]), turn * x)
        np.testing.assert_array_equal(found[-1], turn * x)
        # Memory is shared first, and a step that is over may say who requested its bundle.
        came = [each for each in frames() if not each.startswith(("SEGMENT", "FAIL"))]
        if 4 * size <= MOST_KEPT_BYTES:
            assert came == ["CALL to task", "REPLY to caller"]
        elif turn == 1:  # at first it is missing
            assert came == [
                *("CALL to task", "REPLY to caller"),
                *("REQUEST to task", "BUNDLE to caller"),
            ]
        else:  # and then requested
            assert came == [
                *("REQUEST to task", "CALL to task"),
                *("BUNDLE to caller", "REPLY to caller"),
            ]
    for turn, got in enumerate(kept):
        np.testing.assert_array_equal(got, (turn + 1) * x)


def test_bundles_without_tensors_come_too(client: SessionClient) -> None:
    """They only report that something is done: there, and back."""
    nodes = [
        placeholder("x", None, device=WORKER),
        node("y", "Neg", "x", device=WORKER),
        variable("v", (), device=PS),
        const("zero", 0, device=PS),
        const("one", 1, device=PS),
        node("v/set", "Assign", "v", "zero", device=PS),
        node("counted", "AssignAdd", "v", "one", device=PS, after=["y"]),
        node("z", "Neg", "y", device=WORKER, after=["counted"]),
    ]
    client.extend(graph_def(*nodes))
    client.run([], {}, ["v/set"])
    for turn in range(1, 4):
        [z], _ = client.run(["z:0"], {"x:0": np.float32(turn)}, [])
        [v], _ = client.run(["v:0"], {}, [])
        assert (z, v) == (turn, turn)


def test_an_error_behind_the_bundle_ends_who_waits_for_another(client: SessionClient) -> None:
    client.extend(graph_def(*echoing(3)))
    client.run([], {}, ["total/set"])
    for size in (4, 5):
        with pytest.raises(InvalidArgumentError, match="added"):
            client.run(["got:0"], {"x:0": np.ones(size, np.float32)}, [])
    client.run([], {}, ["total/set"])
    [got], _ = client.run(["got:0"], {"x:0": np.ones(3, np.float32)}, [])
    assert got.tolist() == [1, 1, 1]


def pushing(*names: str) -> list[Any]:
    nodes: list[Any] = [placeholder("x", None, device=WORKER)]
    for name in names:
        nodes += [
            variable(name, (2,), device=PS),
            node(f"{name}/made", "Neg", "x", device=WORKER),
            node(f"{name}/set", "Assign", name, f"{name}/made", device=PS),
        ]
    return nodes


@pytest.mark.parametrize("transport", ["tcp", "unix", "auto"])
def test_who_only_pushes_is_asked_for_nothing(transport: Any, frames: Frames) -> None:
    with LocalCluster(1, 1, transport=transport) as cluster:
        client = open_session(cluster.target("worker", 0))
        client.extend(graph_def(*pushing("v")))
        for turn in range(3):
            x = np.array([turn, 1], np.float32)
            frames()
            client.run([], {"x:0": x}, ["v/set"])
            if turn:
                assert frames() == ["CALL to task", "REPLY to caller"]
            [v], _ = client.run(["v:0"], {}, [])
            assert v.tolist() == [-turn, -1]
        client.close()


def counting(device: str) -> list[Any]:
    """A step that adds one to `v`."""
    return [
        variable("v", (), device=device),
        const("zero", 0, device=device),
        const("one", 1, device=device),
        node("v/set", "Assign", "v", "zero", device=device),
        node("v/more", "AssignAdd", "v", "one", device=device),
    ]


@pytest.mark.parametrize("minor", [handshake.REPEATS - 1, handshake.REPEATS])
@pytest.mark.parametrize("device", [PS, WORKER])
def test_steps_elsewhere_are_repeated_for_one_message(
    device: str, minor: int, frames: Frames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "VERSION", (2, minor))
    with LocalCluster(1, 1) as cluster:
        client = open_session(cluster.target("worker", 0))
        client.extend(graph_def(*counting(device)))
        client.run([], {}, ["v/set"])
        call = client.make_repeated(["v/more"])
        frames()
        call()
        calls = frames()
        [value], _ = client.run(["v:0"], {}, [])
        if device == PS and minor >= handshake.REPEATS:
            assert value > 20
        else:
            assert value == 1
        assert calls == (["CALL to task", "REPLY to caller"] if device == PS else [])
        client.close()


def test_steps_that_may_take_a_time_only_are_not_repeated() -> None:
    with LocalCluster(1, 1) as cluster:
        config = ConfigProto(operation_timeout_in_ms=60_000)
        client = open_session(cluster.target("worker", 0), config=config)
        client.extend(graph_def(*counting(PS)))
        client.run([], {}, ["v/set"])
        client.make_repeated(["v/more"])()
        assert client.run(["v:0"], {}, [])[0] == [1]
        client.close()


def test_who_has_steps_repeated_leaves_reading_to_others(frames: Frames) -> None:
    """Otherwise it would have to pass on what arrives for others while it waits."""
    with LocalCluster(1, 1) as cluster:
        client = open_session(cluster.target("worker", 0))
        client.extend(graph_def(*counting(PS)))
        readers: list[str] = []
        read = Asker.read

        def noting(asker: Any) -> None:
            readers.append(threading.current_thread().name)
            read(asker)

        client.run([], {}, ["v/set"])
        call = client.make_repeated(["v/more"])
        waiting = threading.Thread(target=call, name="repeats")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Asker, "read", noting)
            waiting.start()
            while waiting.is_alive():
                client.run(["v:0"], {}, [])
            waiting.join()
        assert "MainThread" in readers
        assert "repeats" not in readers
        client.close()


def test_an_older_task_is_called_as_before(frames: Frames, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "VERSION", (2, 0))  # of both, which is equivalent
    with LocalCluster(1, 1) as cluster:
        client = open_session(cluster.target("worker", 0))
        client.extend(graph_def(*training(3)))
        client.run([], {}, INIT)
        for _ in range(LEARNING + 2):
            frames()
            run(client, np.ones((1, 3), np.float32))
        came: Sequence[str] = frames()
        assert came.count("REQUEST to task") == 2  # each end asks the other
        client.close()


def test_a_variable_of_the_worker_is_pushed_without_a_copy(
    client: SessionClient, frames: Frames, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [
        variable("local", (9000,), device=WORKER),
        variable("v", (9000,), device=PS),
        placeholder("x", None, device=WORKER),
        node("local/set", "Assign", "local", "x", device=WORKER),
        const("zero", np.zeros(9000), device=PS),
        node("v/set", "Assign", "v", "zero", device=PS),
        node("pushed", "AssignAdd", "v", "local", device=PS),
    ]
    client.extend(graph_def(*nodes))
    client.run([], {"x:0": np.arange(9000, dtype=np.float32)}, ["local/set"])
    client.run([], {}, ["v/set"])
    copied: list[int] = []
    put = ChannelMemory.put

    def noting(self: ChannelMemory, buffers: Any, size_bytes: int) -> bytes:
        copied.append(size_bytes)
        return put(self, buffers, size_bytes)

    monkeypatch.setattr(ChannelMemory, "put", noting)
    for turn in range(1, 4):
        frames()
        client.run([], {}, ["pushed"])
        if turn > 1:
            assert frames() == ["CALL to task", "REPLY to caller"]
    assert copied == []
    [v], _ = client.run(["v:0"], {}, [])
    np.testing.assert_array_equal(v, 3 * np.arange(9000))


def test_two_servers_that_wait_for_each_other_are_called_with_their_bundles(
    frames: Frames,
) -> None:
    """The second one's update is awaited by the first, which counts the step."""
    first, second = "/job:ps/task:0", "/job:ps/task:1"
    nodes: list[Any] = [placeholder("x", None, device=WORKER)]
    for name, device in (("v", first), ("w", second)):
        nodes += [
            variable(name, (2,), device=device),
            const(f"{name}/zero", [0, 0], device=device),
            node(f"{name}/set", "Assign", name, f"{name}/zero", device=device),
            node(f"{name}/read", "Identity", name, device=device),
            node(f"{name}/grown", "Add", f"{name}/read", "x", device=WORKER),
            node(f"{name}/push", "AssignAdd", name, f"{name}/grown", device=device),
        ]
    nodes += [
        variable("step", (), device=first),
        const("one", 1, device=first),
        const("zero", 0, device=first),
        node("step/set", "Assign", "step", "zero", device=first),
        node("count", "AssignAdd", "step", "one", device=first, after=["v/push", "w/push"]),
    ]
    with LocalCluster(2, 1) as cluster:
        client = open_session(cluster.target("worker", 0))
        client.extend(graph_def(*nodes))
        client.run([], {}, ["v/set", "w/set", "step/set"])
        value = np.zeros(2, np.float32)
        for turn in range(5):
            x = np.array([1, turn], np.float32)
            frames()
            found, _ = client.run(["step:0", "w/grown:0"], {"x:0": x}, ["count"])
            np.testing.assert_array_equal(found[1], value + x)
            value = 2 * value + x
            assert found[0] == turn + 1
            if turn > LEARNING:
                came = frames()
                assert came.count("CALL to task") == 2
                assert came.count("REQUEST to task") == 1  # the first server asks the second
        found, _ = client.run(["v:0", "w:0"], {}, [])
        np.testing.assert_array_equal(found, [value, value])
        client.close()
