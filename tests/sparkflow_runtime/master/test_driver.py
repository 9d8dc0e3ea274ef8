import contextlib
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
    NotFoundError,
    OutOfRangeError,
    UnavailableError,
)
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.master.driver import DriverMaster, DriverSession, OneTaskMaster
from sparkflow_runtime.master.loops.step_loop import Loop
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.transport.channel.address import Transport
from sparkflow_runtime.transport.threads import DaemonThreads
from sparkflow_runtime.worker.worker import Worker
from support.array_source import ArraySource
from support.graphs import const, graph_def, node, placeholder, variable

PS = "/job:ps/task:0"
WORKER = "/job:worker"
WAIT_S = 60


class Stalling:
    """A source that returns some batches and then waits until it is closed or released."""

    def __init__(self, batches: int) -> None:
        self.left = batches
        self.stalled = threading.Event()
        self.released = threading.Event()

    def next_batch(self) -> tuple[np.ndarray, ...]:
        if self.left:
            self.left -= 1
            return (np.float32([1, 1]),)
        self.stalled.set()
        assert self.released.wait(WAIT_S)
        raise OutOfRangeError(message="closed")

    def close(self) -> None:
        self.released.set()


def training(device: str = WORKER) -> list[Node]:
    """Adds the sum of each batch of `x` to variable `total` on the ps; `loss` is the sum."""
    kinds: dict[str, Any] = {"output_types": [dtypes.float32], "output_shapes": [(None,)]}
    return [
        variable("total", (), device=PS),
        const("zero", 0.0, device=PS),
        node("init", "Assign", "total", "zero", device=PS),
        node("data", "IteratorV2", shared_name="train", container="", device=device, **kinds),
        node("x", "IteratorGetNext", "data", device=device, **kinds),
        const("axis", [0], dtypes.int32),
        node("loss", "Sum", "x", "axis", device=device),
        node("rows", "Size", "x", device=device),
        node("before", "Identity", "total", device=PS),
        node("step", "AddV2", "loss", "before", device=device),
        node("delta", "Sub", "step", "before", device=device),
        node("train", "AssignAdd", "total", "delta", device=PS, use_locking=True),
    ]


def collect(loop: Loop) -> tuple[list[np.ndarray], list[int]]:
    """All values per fetch, and the numbers of the steps they belong to."""
    numbers: list[int] = []
    columns: list[list[np.ndarray]] = []
    for update in loop.updates():
        numbers += range(update.first_step, update.first_step + update.num_steps)
        columns = columns or [[] for _ in update.values]
        for column, values in zip(columns, update.values, strict=True):
            assert len(values) == update.num_steps
            column += list(values)
        assert 0 <= update.waited_s <= update.elapsed_s + 1e-3
    return [np.array(column) for column in columns], numbers


@contextlib.contextmanager
def deadline(driver: DriverMaster, seconds: float = WAIT_S) -> Iterator[None]:
    """Closes the driver's channels, which ends every wait, if the body takes too long."""
    timer = threading.Timer(seconds, driver.close)
    timer.start()
    try:
        yield
        assert timer.is_alive(), "took too long"
    finally:
        timer.cancel()
        timer.join()


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, 2, token="t") as made:
        yield made


@pytest.fixture
def driver(cluster: LocalCluster) -> Iterator[DriverMaster]:
    made = DriverMaster(cluster.cluster, "t")
    with deadline(made):
        yield made
    made.close()
    for server in cluster.servers:
        server.resources.clear()


def open_(driver: DriverMaster, worker: int = 0) -> DriverSession:
    filters = ["/job:ps", f"/job:worker/task:{worker}"]
    return driver.create_session(graph_def(*training()), device_filters=filters)


def feed(cluster: LocalCluster, source: Any, worker: int = 0) -> None:
    cluster.server("worker", worker).resources.put("", "train", source)


def nothing_runs(cluster: LocalCluster) -> None:
    """Checks that no task keeps anything of a step."""
    wait = threading.Event()
    for server in cluster.servers:
        for _ in range(200):
            if not server.worker.rendezvous._steps:
                break
            wait.wait(0.05)  # workers clean up asynchronously
        assert server.worker.rendezvous._steps == {}
        assert len(server.worker.sessions) == 0


def test_a_loop_of_n_steps(cluster: LocalCluster, driver: DriverMaster) -> None:
    feed(cluster, ArraySource([np.arange(1, 101, dtype=np.float32)], 2, epochs=None))
    session = open_(driver)
    session.run([], {}, ["init"])
    loop = session.start_loop(["loss:0", "rows:0"], ["train"], 50, first_step=7)
    (losses, rows), numbers = collect(loop)
    assert numbers == list(range(7, 57))
    assert rows.tolist() == [2] * 50
    assert losses.tolist() == [4 * i + 3 for i in range(50)]
    assert session.run(["total:0"], {}, []) == [5050]
    session.close()
    nothing_runs(cluster)


def test_a_loop_ends_with_its_data_and_drops_no_short_batch(
    cluster: LocalCluster, driver: DriverMaster
) -> None:
    feed(cluster, ArraySource([np.ones(1001, np.float32)], 10))
    session = open_(driver)
    session.run([], {}, ["init"])
    (rows, x), numbers = collect(session.start_loop(["rows:0", "loss:0"], ["train"]))
    assert numbers == list(range(101))
    assert rows.tolist() == [10] * 100 + [1]
    assert x.sum() == 1001
    assert session.run(["total:0"], {}, []) == [1001]
    # The source is exhausted: the next loop has no step.
    assert collect(session.start_loop(["rows:0"], ["train"])) == ([], [])
    session.close()
    nothing_runs(cluster)


def test_batches_of_different_size_can_be_fetched(
    cluster: LocalCluster, driver: DriverMaster
) -> None:
    feed(cluster, ArraySource([np.arange(25, dtype=np.float32)], 10))
    session = open_(driver)
    updates = list(session.start_loop(["x:0"], []).updates())
    assert [update.values[0].shape for update in updates][-1] == (1, 5)
    assert np.concatenate([u.values[0].reshape(-1) for u in updates]).tolist() == list(range(25))
    session.close()


def test_a_task_that_only_sends_ends_with_the_loop(
    cluster: LocalCluster, driver: DriverMaster
) -> None:
    feed(cluster, ArraySource([np.ones(300, np.float32)], 1))
    session = open_(driver)
    session.run([], {}, ["init"])
    # `step` reads the variable, nothing returns to the ps: without a bound it would run away.
    (values,), numbers = collect(session.start_loop(["step:0"], []))
    assert len(numbers) == 300
    assert set(values.tolist()) == {1}
    session.close()
    nothing_runs(cluster)


def test_a_task_that_waits_for_something_else_ends_with_the_loop(
    cluster: LocalCluster, driver: DriverMaster
) -> None:
    kinds: dict[str, Any] = {"component_types": [dtypes.float32]}
    feed(cluster, ArraySource([np.ones(3, np.float32)], 1))
    queue = [
        node("q", "FIFOQueueV2", shared_name="q", device=PS, **kinds),
        node("item", "QueueDequeueV2", "q", device=PS, **kinds),
        placeholder("put_this"),
        node("put", "QueueEnqueueV2", "q", "put_this", device=PS, Tcomponents=[dtypes.float32]),
        node("both", "AddV2", "item", "loss", device=WORKER),
    ]
    session = driver.create_session(
        graph_def(*training(), *queue), device_filters=["/job:ps", "/job:worker/task:0"]
    )
    for number in range(3):
        session.run([], {"put_this:0": np.float32(number)}, ["put"])
    # In the fourth step the ps waits for a fourth item while the worker finds no more data.
    (values,), numbers = collect(session.start_loop(["both:0"], []))
    assert (values.tolist(), numbers) == ([1, 2, 3], [0, 1, 2])
    session.close()
    nothing_runs(cluster)


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_what_tasks_do_not_answer_in_time_is_out_of_reach(
    cluster: LocalCluster, transport: Transport
) -> None:
    """Otherwise a lost message is not noticed; loops take as long as they need."""
    kinds: dict[str, Any] = {"component_types": [dtypes.float32]}
    nodes = [
        *training(),
        node("q", "FIFOQueueV2", shared_name="never filled", device=PS, **kinds),
        node("item", "QueueDequeueV2", "q", device=PS, **kinds),
        node("near", "Identity", "item", device=WORKER),
    ]
    driver = DriverMaster(cluster.cluster, cluster.token, transport, answer_timeout_s=0.3)
    with contextlib.closing(driver), deadline(driver):
        session = driver.create_session(graph_def(*nodes), device_filters=["/job:ps", WORKER])
        session.run([], {}, ["init"])
        with pytest.raises(UnavailableError, match=r"answer from .*/job:ps.* longer than 0\.3 s"):
            session.run(["near:0"], {}, [])
        source = Stalling(2)
        feed(cluster, source)
        loop = session.start_loop(["loss:0"], ["train"])
        assert source.stalled.wait(WAIT_S)
        time.sleep(0.5)
        source.close()
        assert loop.wait().num_steps == 2
        feed(cluster, ArraySource([np.ones(3, np.float32)], 1))
        session.run_loop(["loss:0"], ["train"], 1, 7)
        source = Stalling(0)
        feed(cluster, source)
        with pytest.raises(UnavailableError, match=r"answer from all tasks in step 8: .* 0\.3 s"):
            session.run_loop(["loss:0"], ["train"], 1, 8)
        source.close()
        session.close()


def test_loops_of_several_sessions_share_the_variables(
    cluster: LocalCluster, driver: DriverMaster
) -> None:
    sessions = [open_(driver, worker) for worker in (0, 1)]
    sessions[0].run([], {}, ["init"])
    for worker in (0, 1):
        feed(cluster, ArraySource([np.ones(100, np.float32)], 1), worker)
    loops = [session.start_loop(["rows:0"], ["train"]) for session in sessions]
    for loop in loops:
        assert len(collect(loop)[1]) == 100
    assert sessions[1].run(["total:0"], {}, []) == [200]
    for session in sessions:
        session.close()
    nothing_runs(cluster)


def test_a_loop_without_fetches_counts_its_steps(
    cluster: LocalCluster, driver: DriverMaster
) -> None:
    feed(cluster, ArraySource([np.ones(5, np.float32)], 1))
    session = open_(driver)
    session.run([], {}, ["init"])
    values, numbers = collect(session.start_loop([], ["train"]))
    assert (values, numbers) == ([], list(range(5)))
    session.close()


def test_an_error_ends_all_tasks_with_its_own_text(
    cluster: LocalCluster, driver: DriverMaster
) -> None:
    class Wrong(Stalling):
        def next_batch(self) -> tuple[np.ndarray, ...]:
            if self.left:
                return super().next_batch()
            return (np.zeros((2, 2), np.float32),)

    feed(cluster, Wrong(20))
    session = open_(driver)
    session.run([], {}, ["init"])
    loop = session.start_loop(["loss:0"], ["train"])
    seen: list[int] = []
    with pytest.raises(InvalidArgumentError) as info:
        seen.extend(update.num_steps for update in loop.updates())
    assert sum(seen) in (19, 20)  # what all tasks had done before is reported
    assert "Component 0 of the batch is float32 (2, 2)" in str(info.value)
    assert "[[node 'x' (IteratorGetNext) on /job:worker/replica:0/task:0" in str(info.value)
    # The session continues; the ps may have been stopped before it applied the last step.
    assert session.run(["total:0"], {}, [])[0] in (38, 40)
    session.close()
    nothing_runs(cluster)


@pytest.mark.parametrize("way", ["cancel", "close"])
def test_a_running_loop_can_be_ended(cluster: LocalCluster, driver: DriverMaster, way: str) -> None:
    source = Stalling(3)
    feed(cluster, source)
    session = open_(driver)
    session.run([], {}, ["init"])
    loop = session.start_loop(["loss:0"], ["train"])
    assert source.stalled.wait(WAIT_S)
    threads = DaemonThreads(1, "release")
    # The kernel that waits for data cannot be interrupted by the step; its source can.
    threads.submit(lambda: source.close() if source.stalled.wait(WAIT_S) else None)
    if way == "cancel":
        loop.cancel("enough")
    else:
        session.close()
    with pytest.raises(
        CancelledError, match="enough" if way == "cancel" else "Session has been closed"
    ):
        collect(loop)
    session.close()
    threads.shutdown()
    nothing_runs(cluster)


def test_a_closed_session_begins_nothing(cluster: LocalCluster, driver: DriverMaster) -> None:
    session = open_(driver)
    session.run([], {}, ["init"])
    session.close()
    session.close()
    with pytest.raises(Exception, match="Session has been closed"):
        session.start_loop(["loss:0"], [], 1)


def test_what_no_loop_can_run(cluster: LocalCluster, driver: DriverMaster) -> None:
    session = open_(driver)
    with pytest.raises(NotFoundError, match="no node 'gone'"):
        session.start_loop(["gone:0"], [], 1)
    with pytest.raises(InvalidArgumentError, match="at least one operation"):
        session.start_loop([], [], 1)
    with pytest.raises(InvalidArgumentError, match="cannot have -1 steps"):
        session.start_loop(["before:0"], [], -1)
    session.close()


def test_filters_choose_the_task_of_unnumbered_devices(
    cluster: LocalCluster, driver: DriverMaster
) -> None:
    session = open_(driver, 1)
    feed(cluster, ArraySource([np.ones(1, np.float32)], 1), 1)
    assert session.run(["loss:0"], {}, []) == [1]
    session.close()
    with pytest.raises(InvalidArgumentError, match="'/job:tpu' matches none of /job:ps"):
        driver.create_session(graph_def(), device_filters=["/job:tpu"])


def test_steps_with_feeds(cluster: LocalCluster, driver: DriverMaster) -> None:
    nodes = [
        placeholder("a", (None,), device=PS),
        node("b", "Neg", "a", device=WORKER),
        node("c", "Neg", "b", device=PS),
    ]
    session = driver.create_session(graph_def(*nodes))
    values = session.run(["b:0", "c:0"], {"a:0": np.float32([1, 2])}, [])
    assert [value.tolist() for value in values] == [[-1, -2], [1, 2]]
    with pytest.raises(InvalidArgumentError, match="Feed 0 has dtype float64, expected float32"):
        session.run(["b:0"], {"a:0": np.zeros(1)}, [])
    session.close()


@pytest.fixture
def processes() -> Iterator[LocalCluster]:
    with LocalCluster(1, 2, token="t", processes=True) as made:
        yield made


@pytest.mark.parametrize("victim", [("worker", 0), ("ps", 0)])
def test_a_killed_task_is_named(processes: LocalCluster, victim: tuple[str, int]) -> None:
    driver = DriverMaster(processes.cluster, "t")
    ones = [
        variable("total", (), device=PS),
        const("one", 1.0, device=WORKER),
        node("init", "Assign", "total", "one", device=PS),
        node("before", "Identity", "total", device=PS),
        node("delta", "RandomUniform", "shape", device=WORKER, T=dtypes.int32),
        const("shape", [], dtypes.int32),
        node("sum", "AddV2", "before", "delta", device=WORKER),
        node("train", "AssignAdd", "total", "sum", device=PS),
    ]
    with deadline(driver):
        session = driver.create_session(
            graph_def(*ones), device_filters=["/job:ps", "/job:worker/task:0"]
        )
        session.run([], {}, ["init"])
        loop = session.start_loop(["delta:0"], ["train"], None)
        updates = loop.updates()
        assert next(updates).num_steps > 0
        processes.kill(*victim)
        task = f"/job:{victim[0]}/replica:0/task:{victim[1]}"
        name = f"Task {task} (broke|at 127.0.0.1:.* cannot be)"
        with pytest.raises(UnavailableError, match=name):
            for _ in updates:
                pass
        session.close()
        # The others still work: a new session over them succeeds.
        other = driver.create_session(
            graph_def(const("c", 3.0, device="/job:worker/task:1")),
            device_filters=["/job:worker/task:1"],
        )
        assert other.run(["c:0"], {}, []) == [3]
        other.close()
    driver.close()


@pytest.mark.parametrize("transport", ["auto", "tcp", "grpc"])
def test_nobody_waits_for_a_task_that_was_given_up(transport: Transport) -> None:
    with LocalCluster(1, 2, token="t") as cluster:
        _give_up(cluster, transport)


def _give_up(cluster: LocalCluster, transport: Transport) -> None:
    driver = DriverMaster(cluster.cluster, "t", transport)
    source = Stalling(0)
    feed(cluster, source)
    with deadline(driver):
        session, there = open_(driver), open_(driver, 1)
        session.run([], {}, ["init"])
        threads = DaemonThreads(1, "step")
        step = threads.submit(session.run, ["loss:0"], {}, [])
        assert source.stalled.wait(WAIT_S)
        loop = session.start_loop(["loss:0"], ["train"])
        driver.lose("/job:worker/replica:0/task:0")
        driver.lose("/job:worker/replica:0/task:7")
        began = time.monotonic()
        assert isinstance(step.exception(WAIT_S), UnavailableError | CancelledError)
        with pytest.raises((UnavailableError, CancelledError, AbortedError)):
            loop.wait(WAIT_S)
        with pytest.raises((UnavailableError, CancelledError)):
            session.run(["loss:0"], {}, [])
        loop.stop()
        assert there.run(["total:0"], {}, []) == [0]
        session.close()
        there.close()
        assert time.monotonic() - began < 5
        source.close()
        threads.shutdown()
    driver.close()


def test_tasks_end_the_steps_of_a_master_that_is_gone(
    cluster: LocalCluster, driver: DriverMaster
) -> None:
    source = Stalling(3)
    feed(cluster, source)
    session = open_(driver)
    session.run([], {}, ["init"])
    wait_for_the_end_of_steps(cluster)  # nobody waits for the message that a step may be forgotten
    loop = session.start_loop(["loss:0"], ["train"])
    assert source.stalled.wait(WAIT_S)
    for link in driver._links.values():
        link.close()  # as if its process had been killed
    source.close()
    with pytest.raises((CancelledError, UnavailableError)):
        collect(loop)
    wait_for_the_end_of_steps(cluster)
    for server in cluster.servers:
        server.worker.sessions.clear()  # as when their leases end


def wait_for_the_end_of_steps(cluster: LocalCluster) -> None:
    deadline_s = time.monotonic() + 20.0
    for server in cluster.servers:
        while server.worker.rendezvous.running() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert server.worker.rendezvous.running() == []


HOSTS = {f"/job:ps/replica:0/task:{each}": f"/job:worker/replica:0/task:{each}" for each in (0, 1)}


@pytest.fixture(scope="module")
def workers() -> Iterator[LocalCluster]:
    with LocalCluster(0, 2, token="t") as made:
        yield made


@pytest.fixture
def hosting(workers: LocalCluster) -> Iterator[DriverMaster]:
    made = DriverMaster(workers.cluster, "t", hosts=HOSTS)
    with deadline(made):
        yield made
    made.close()
    for server in workers.servers:
        server.resources.clear()


def test_the_task_of_a_host_runs_the_nodes_of_what_it_hosts(
    workers: LocalCluster, hosting: DriverMaster
) -> None:
    feed(workers, ArraySource([np.arange(1, 5, dtype=np.float32)], 2))
    session = open_(hosting)
    session.run([], {}, ["init"])
    (losses,), _ = collect(session.start_loop(["loss:0"], ["train"], 2))
    assert losses.tolist() == [3, 7]
    worker = workers.server("worker", 0).worker
    (handle,) = worker.sessions.handles()
    assert len(worker.sessions.find(handle).graphs) == 2  # one each for `init` and the loop
    session.close()


def test_replicas_share_what_hosts_hold_and_compute_on_their_own_worker(
    workers: LocalCluster, hosting: DriverMaster
) -> None:
    for worker in (0, 1):
        feed(workers, ArraySource([np.full(4, 1 + worker, np.float32)], 2), worker)
    first, second = open_(hosting, 0), open_(hosting, 1)
    first.run([], {}, ["init"])
    # The data come from worker 1, though the session may use worker 0, which holds the variable.
    (losses,), _ = collect(second.start_loop(["loss:0"], ["train"], 2))
    assert losses.tolist() == [4, 4]
    assert first.run(["total:0"], {}, []) == [8]
    (losses,), _ = collect(first.start_loop(["loss:0"], ["train"], 1))
    assert losses.tolist() == [2]
    assert second.run(["total:0"], {}, []) == [10]
    first.close()
    second.close()


def test_only_hosts_of_what_the_filters_match_are_used(hosting: DriverMaster) -> None:
    session = hosting.create_session(
        graph_def(const("one", 1.0, device=WORKER)),
        device_filters=["/job:ps/task:1", "/job:worker/task:0"],
    )
    assert {spec.task_name for spec in session._session.devices} == set(HOSTS.values())
    alone = hosting.create_session(
        graph_def(const("one", 1.0, device=WORKER)), device_filters=["/job:worker/task:1"]
    )
    assert {spec.task for spec in alone._session.devices} == {1}
    session.close()
    alone.close()


def test_devices_of_what_is_hosted_are_those_of_the_host(hosting: DriverMaster) -> None:
    nodes = [
        const("unplaced", 1.0, device="/job:ps"),
        const("placed", 2.0, device="/job:ps/task:1/device:CPU:0"),
        node("sum", "AddV2", "unplaced", "placed", device=WORKER),
    ]
    session = hosting.create_session(
        graph_def(*nodes), device_filters=["/job:ps", "/job:worker/task:1"]
    )
    assert session.run(["sum:0"], {}, []) == [3]
    with pytest.raises(InvalidArgumentError, match="GPU"):
        hosting.create_session(
            graph_def(const("there", 1.0, device="/job:ps/task:1/device:GPU:0")),
            device_filters=["/job:ps", "/job:worker/task:1"],
        ).run(["there:0"], {}, [])
    session.close()


def test_one_worker_that_hosts_the_server_runs_one_piece() -> None:
    worker = Worker("worker", 0, cpus=1)
    worker.resources.put("", "train", ArraySource([np.arange(1, 7, dtype=np.float32)], 2))
    here = OneTaskMaster(worker, HOSTS)
    try:
        session = here.create_session(graph_def(*training()), device_filters=["/job:ps"])
        session.run([], {}, ["init"])
        (losses,), _ = collect(session.start_loop(["loss:0"], ["train"], 3))
        assert losses.tolist() == [3, 7, 11]
        (handle,) = worker.sessions.handles()
        assert len(worker.sessions.find(handle).graphs) == 2
        session.close()
    finally:
        here.close()
        worker.close(CancelledError)


def test_one_worker_plays_all_tasks_and_cuts_the_graph_alike() -> None:
    worker = Worker("worker", 0, cpus=2)
    worker.resources.put("", "train", ArraySource([np.arange(1, 7, dtype=np.float32)], 2))
    here = OneTaskMaster(worker)
    try:
        session = here.create_session(graph_def(*training()), device_filters=["/job:ps"])
        session.run([], {}, ["init"])
        (losses,), numbers = collect(session.start_loop(["loss:0"], ["train"], 3))
        assert numbers == [0, 1, 2]
        assert losses.tolist() == [3, 7, 11]
        assert session.run(["total:0"], {}, []) == [21]
        # One piece for the server and one for the worker, which exchange tensors.
        (handle,) = worker.sessions.handles()
        assert any(each.number for each in worker.sessions.find(handle).graphs.values())
        session.close()
    finally:
        here.close()
        here.close()
        worker.close(CancelledError)
