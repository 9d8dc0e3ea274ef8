"""Loops over several partitions: joined updates, common ends, held and cancelled loops."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import CancelledError, InvalidArgumentError, OpError, UnavailableError
from sparkflow_runtime.master.client import SessionClient, open_session
from sparkflow_runtime.master.loops.step_loop import JoinedUpdates, Loop
from sparkflow_runtime.master.remote_session import RemoteSession
from sparkflow_runtime.master.running import RunningSteps
from sparkflow_runtime.master.running_loops import RunningLoop
from sparkflow_runtime.protos.config_pb2 import ConfigProto
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.worker.loop import LoopEnd, LoopTerms, LoopUpdate
from support.graphs import const, graph_def, node, placeholder, variable

PS = [f"/job:ps/task:{i}" for i in range(2)]
WAIT_S = 60


def update(first: int, *rows: float) -> LoopUpdate:
    return LoopUpdate(first, len(rows), (np.array(rows),), 0.5 * len(rows), 1.0 * len(rows))


def test_updates_are_joined_by_step() -> None:
    found: list[LoopUpdate] = []
    joined = JoinedUpdates([(2,), (), (0,)], found.append)
    first, second, third = joined.listeners
    first(update(5, 1, 2, 3))
    third(update(5, 10))
    assert found == []  # the second has not completed a step yet
    second(LoopUpdate(5, 2, (), 9.0, 9.0))
    assert [(each.first_step, each.num_steps) for each in found] == [(5, 1)]
    third(update(6, 20, 30))
    assert [(each.first_step, each.num_steps) for each in found] == [(5, 1), (6, 1)]
    second(LoopUpdate(7, 5, (), 9.0, 9.0))
    assert [(each.first_step, each.num_steps) for each in found] == [(5, 1), (6, 1), (7, 1)]
    # By the position in the fetches; the times are those of steps that fetch something.
    assert [[v.tolist() for v in each.values] for each in found] == [
        [[10], [1]],
        [[20], [2]],
        [[30], [3]],
    ]
    assert found[0].waited_s == pytest.approx(0.5)
    assert found[0].elapsed_s == pytest.approx(1.0)


def test_what_one_partition_did_alone_is_not_reported() -> None:
    found: list[LoopUpdate] = []
    ahead, behind = JoinedUpdates([(0,), (1,)], found.append).listeners
    ahead(update(0, 1, 2, 3))
    behind(update(0, 1, 2))
    assert sum(each.num_steps for each in found) == 2


class LoopLink:
    """A worker whose loop ends when the test says so, or when it is told the number of steps."""

    def __init__(self) -> None:
        self.future: Future[LoopEnd] = Future()
        self.ended: list[int] = []

    def run_loop(self, *_: Any) -> "Future[LoopEnd]":
        return self.future

    def end_loop(self, step_id: int, num_steps: int) -> None:
        self.ended.append(num_steps)
        if not self.future.done():
            self.future.set_result(LoopEnd(num_steps))

    def finish_step(self, step_id: int, error: OpError | None = None) -> None:
        """Does nothing: there is nothing to forget."""


def loop_of(links: list[LoopLink], terms: LoopTerms) -> Loop:
    parts = [SimpleNamespace(link=link, handle="", args=(), results=()) for link in links]
    steps = RunningSteps(links)
    made = SimpleNamespace(parts=parts, steps=steps, session="", check_args=lambda args: None)
    return Loop(made, terms)  # type: ignore[arg-type]  # all that a loop asks of an executable


def test_a_partition_whose_data_end_ends_the_others_at_that_count() -> None:
    links = [LoopLink(), LoopLink(), LoopLink()]
    loop = loop_of(links, LoopTerms(100))
    links[1].future.set_result(LoopEnd(5, "The data ended"))
    assert loop.wait(WAIT_S) == LoopEnd(5, "The data ended")
    assert [link.ended for link in links] == [[5], [5], [5]]


def test_partitions_that_complete_a_loop_end_by_themselves() -> None:
    links = [LoopLink(), LoopLink(), LoopLink()]
    for link in links:
        link.future.set_result(LoopEnd(100))
    assert loop_of(links, LoopTerms(100)).wait(WAIT_S) == LoopEnd(100)
    assert [link.ended for link in links] == [[], [], []]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(2, 1) as made:
        yield made


@pytest.fixture(params=["local", "remote"])
def client(request: pytest.FixtureRequest, cluster: LocalCluster) -> Iterator[SessionClient]:
    target = cluster.target("worker", 0) if request.param == "remote" else ""
    config = ConfigProto(isolate_session_state=True) if target else ConfigProto()
    config.device_count["CPU"] = 2
    made = open_session(target, config=config)
    devices = PS if target else ["/device:CPU:0", "/device:CPU:1"]
    made.extend(graph_def(*counters(devices)))
    made.run([], {}, ["init0", "init1"])
    yield made
    made.close()


def counters(devices: list[str]) -> list[Any]:
    """Two independent counters, a queue nobody fills, and a sum of both counters."""
    nodes = [
        placeholder("by", ()),
        node("q", "FIFOQueueV2", shared_name="q", component_types=[dtypes.float32]),
        node("item", "QueueDequeueV2", "q", component_types=[dtypes.float32]),
        node("put", "QueueEnqueueV2", "q", "by", Tcomponents=[dtypes.float32]),
        node("sum", "AddV2", "add0", "add1"),
    ]
    for i, device in enumerate(devices):
        nodes += [
            variable(f"v{i}", (), device=device),
            const(f"zero{i}", 0.0, device=device),
            const(f"one{i}", 1.0, device=device),
            node(f"init{i}", "Assign", f"v{i}", f"zero{i}", device=device),
            node(f"add{i}", "AssignAdd", f"v{i}", f"one{i}", device=device),
            node(f"more{i}", "AssignAdd", f"v{i}", "by", device=device),
        ]
    return nodes


def values(client: SessionClient) -> list[float]:
    found, _ = client.run(["v0:0", "v1:0"], {}, [])
    return [float(value) for value in found]


def columns(loop: RunningLoop) -> list[list[float]]:
    rows = [list(zip(*each.values, strict=True)) for each in loop.updates()]
    return [list(column) for column in zip(*(row for part in rows for row in part), strict=True)]


def test_fetches_of_several_devices_come_together(client: SessionClient) -> None:
    fetches = ["add1:0", "sum:0", "add0:0"]
    loop = client.start_loop(fetches, {}, [], LoopTerms(40))
    counts = list(range(1, 41))
    assert columns(loop) == [counts, [2 * each for each in counts], counts]
    assert loop.wait(WAIT_S) == LoopEnd(40)
    assert values(client) == [40, 40]


def test_all_partitions_stop_at_one_step(client: SessionClient) -> None:
    for _ in range(5):
        before = values(client)
        loop = client.start_loop([], {}, ["add0", "add1"], LoopTerms())
        next(iter(loop.updates()))
        loop.stop()
        count = loop.wait(WAIT_S).num_steps
        assert count > 0
        assert values(client) == [each + count for each in before]
        loop.stop()  # already ended


def test_a_loop_stopped_at_once_has_whole_steps(client: SessionClient) -> None:
    loop = client.start_loop([], {}, ["add0", "add1"], LoopTerms())
    loop.stop()
    loop.stop()
    count = loop.wait(WAIT_S).num_steps
    assert values(client) == [count, count]


def test_a_stop_waits_for_the_step_and_cancel_does_not(client: SessionClient) -> None:
    client.run([], {"by:0": np.float32(3)}, ["put"])
    loop = client.start_loop(["item:0"], {}, [], LoopTerms())
    assert next(iter(loop.updates())).values[0] == [3]  # the next step waits for an item
    loop.stop()
    with pytest.raises(TimeoutError):
        loop.wait(0.2)
    loop.cancel("enough of it")
    with pytest.raises(CancelledError, match=r"enough of it|QueueDequeueV2"):
        loop.wait(WAIT_S)
    assert loop.done
    loop.cancel()


def test_closing_the_session_ends_loops(client: SessionClient) -> None:
    loops = [client.start_loop([], {}, ["add0"], LoopTerms()) for _ in range(2)]
    for loop in loops:
        next(iter(loop.updates()))
    client.close()
    for loop in loops:
        assert loop.done
        with pytest.raises(CancelledError, match="closed"):
            loop.wait(WAIT_S)


def test_bounds_end_all_partitions(client: SessionClient) -> None:
    loop = client.start_loop(["sum:0", "add0:0"], {}, [], LoopTerms(None, 0, {0: 20.0, 1: 50.0}))
    assert loop.wait(WAIT_S).num_steps == 10
    # What does not need the sum may be ahead, as far as a loop allows.
    assert all(10 <= value < 20 for value in values(client))


def test_feeds_are_checked_and_given_to_every_step(client: SessionClient) -> None:
    feeds = {"by:0": np.float32(2)}
    loop = client.start_loop(["more0:0", "more1:0"], feeds, [], LoopTerms(3))
    assert columns(loop) == [[2, 4, 6], [2, 4, 6]]
    with pytest.raises(InvalidArgumentError, match="Feed 0 has dtype int64, expected float32"):
        client.start_loop(["more0:0"], {"by:0": np.int64(2)}, [], LoopTerms(3)).wait(WAIT_S)
    with pytest.raises(InvalidArgumentError, match="cannot have -3 steps"):
        client.start_loop(["add0:0"], {}, [], LoopTerms(-3)).wait(WAIT_S)
    with pytest.raises(InvalidArgumentError, match="at least one operation"):
        client.start_loop([], {}, [], LoopTerms(3)).wait(WAIT_S)
    empty = client.start_loop(["add0:0"], {}, [], LoopTerms(0))
    assert list(empty.updates()) == []
    assert empty.wait(WAIT_S) == LoopEnd(0)


def test_a_loop_can_have_several_listeners(client: SessionClient) -> None:
    loop = client.start_loop(["add0:0"], {}, [], LoopTerms(500))
    listeners = [loop.updates(), loop.updates()]
    first, second = (
        [
            step
            for each in listener
            for step in range(each.first_step, each.first_step + each.num_steps)
        ]
        for listener in listeners
    )
    assert first == list(range(500))
    assert second == first[len(first) - len(second) :]


def test_a_client_without_a_word_ends_its_loop(cluster: LocalCluster) -> None:
    client = open_session(cluster.target("worker", 0))
    assert isinstance(client, RemoteSession)
    client.extend(graph_def(*counters(PS)))
    client.run([], {}, ["init0", "init1"])
    loop = client.start_loop([], {}, ["add0", "add1"], LoopTerms())
    next(iter(loop.updates()))
    client._channel.close()  # as if its process had been killed
    with pytest.raises((CancelledError, UnavailableError)):
        loop.wait(WAIT_S)
    wait = threading.Event()
    for server in cluster.servers:
        for _ in range(400):
            if not server.worker.rendezvous._steps:
                break
            wait.wait(0.05)
        assert server.worker.rendezvous._steps == {}


def test_a_master_that_does_not_know_the_session(cluster: LocalCluster) -> None:
    client = open_session(cluster.target("worker", 0))
    assert isinstance(client, RemoteSession)
    client._handle = "gone"
    loop = client.start_loop([], {}, ["x"], LoopTerms())
    loop.stop()
    loop.cancel()
    with pytest.raises(OpError, match="gone"):
        loop.wait(WAIT_S)
    client._channel.close()


def test_a_worker_that_cannot_be_asked_ends_a_stopped_loop(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = open_session(cluster.target("worker", 0))
    client.extend(graph_def(*counters(PS)))
    client.run([], {}, ["init0", "init1"])
    loop = client.start_loop([], {}, ["add0", "add1"], LoopTerms())
    next(iter(loop.updates()))

    def silent(step_id: int) -> int:
        raise UnavailableError(message="busy")

    monkeypatch.setattr(cluster.server("ps", 1).worker, "hold_loop", silent)
    loop.stop()
    with pytest.raises(UnavailableError, match="busy"):
        loop.wait(WAIT_S)
    client.close()
