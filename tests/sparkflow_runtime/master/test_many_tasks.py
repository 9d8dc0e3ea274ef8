"""A session over a thousand tasks makes the same few requests to each of them once."""

import threading
from collections import Counter
from concurrent.futures import Future
from typing import Any

import pytest

from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import FailedPreconditionError, UnavailableError
from sparkflow_runtime.ir.graph_def import import_graph
from sparkflow_runtime.master.links import MAX_ASKING
from sparkflow_runtime.master.running import InBackground, Pending, RunningStep
from sparkflow_runtime.master.session import MasterSession, reset_containers
from support.graphs import graph_def, node, variable

NUM_PS, NUM_WORKERS = 100, 900


class Link:
    """A worker that counts requests."""

    def __init__(self, task: str) -> None:
        self.task = task
        self.calls: Counter[str] = Counter()
        self.threads: set[int] = set()
        self.fails: str | None = None

    def devices(self) -> list[DeviceSpec]:
        self._note("devices")
        return [DeviceSpec.from_string(f"{self.task}/device:CPU:0")]

    def create_session(self, *_: Any) -> None:
        self._note("create_session")

    def keep_session(self, *_: Any) -> None:
        """Does nothing: tests do not take that long."""

    def delete_session(self, *_: Any) -> None:
        self._note("delete_session")

    def register(self, *_: Any) -> str:
        self._note("register")
        return "handle"

    def begin(self, _session: str, _handle: str, step: RunningStep, *_: Any, **__: Any) -> Pending:
        self._note("begin")
        done: Future[dict[int, Any]] = Future()
        done.set_result({})
        return InBackground(step, done)

    def finish_step(self, *_: Any) -> None:
        self._note("finish_step")

    def clear(self, *_: Any) -> None:
        self._note("clear")

    def _note(self, name: str) -> None:
        self.calls[name] += 1
        self.threads.add(threading.get_ident())
        if self.fails == name:
            raise FailedPreconditionError(message=f"{self.task} fails")


def links_of(num_ps: int, num_workers: int) -> dict[str, Link]:
    names = [f"/job:ps/replica:0/task:{index}" for index in range(num_ps)]
    names += [f"/job:worker/replica:0/task:{index}" for index in range(num_workers)]
    return {name: Link(name) for name in names}


def open_on(links: dict[str, Link]) -> MasterSession:
    return MasterSession(links, default_task="/job:worker/replica:0/task:0")  # type: ignore[arg-type]


def test_each_task_is_asked_once_and_a_device_is_not_looked_for_among_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = links_of(NUM_PS, NUM_WORKERS)
    session = open_on(links)
    nodes = [variable(f"v{ps}", (4,), device=f"/job:ps/task:{ps}") for ps in range(NUM_PS)]
    for worker in range(NUM_WORKERS):
        ps, device = worker % NUM_PS, f"/job:worker/task:{worker}"
        nodes += [
            node(f"read{worker}", "Identity", f"v{ps}", device=device),
            node(f"add{worker}", "AssignAdd", f"v{ps}", f"read{worker}", use_locking=True),
        ]
    session.extend(import_graph(graph_def(*nodes)))
    matches, compared = DeviceSpec.matches, Counter[str]()

    def counted(self: DeviceSpec, full: DeviceSpec) -> bool:
        compared["devices"] += 1
        return matches(self, full)

    monkeypatch.setattr(DeviceSpec, "matches", counted)
    executable = session.prepare([], [], [f"add{worker}" for worker in range(NUM_WORKERS)])
    assert compared["devices"] <= 2 * len(links)
    assert session.prepare([], [], [f"add{w}" for w in range(NUM_WORKERS)]) is executable
    executable.run([])
    session.close()
    session.close()
    asked = ("devices", "create_session", "register", "begin", "finish_step", "delete_session")
    assert all(link.calls == dict.fromkeys(asked, 1) for link in links.values())
    # Opening, registering and closing have their own threads each; steps begin in ours.
    assert len(set().union(*(link.threads for link in links.values()))) <= 3 * MAX_ASKING + 1


def test_a_task_that_refuses_leaves_no_session_anywhere() -> None:
    links = links_of(2, 3)
    refusing = links["/job:ps/replica:0/task:1"]
    refusing.fails = "create_session"
    with pytest.raises(FailedPreconditionError, match="task:1 fails"):
        open_on(links)
    assert all(link.calls["delete_session"] == 1 for link in links.values())


def test_closing_and_resetting_go_on_when_a_task_fails() -> None:
    links = links_of(2, 3)
    first = links["/job:ps/replica:0/task:0"]
    session = open_on(links)
    first.fails = "delete_session"
    session.close()
    assert all(link.calls["delete_session"] == 1 for link in links.values())
    first.fails = "clear"
    with pytest.raises(FailedPreconditionError, match="task:0 fails"):
        reset_containers(links, ["c"])  # type: ignore[arg-type]
    assert all(link.calls["clear"] == 1 for link in links.values())


def test_closing_does_not_wait_for_a_step_that_is_being_registered() -> None:
    links = links_of(0, 2)
    session = open_on(links)
    registering, go_on = threading.Event(), threading.Event()

    class Slow(Link):
        def register(self, *_: Any) -> str:
            registering.set()
            assert go_on.wait(20)
            raise UnavailableError(message="what a worker says of a session that is gone")

    session._links["/job:worker/replica:0/task:1"] = Slow("slow")  # type: ignore[assignment]
    session.extend(
        import_graph(
            graph_def(variable("v", (4,), device="/job:worker/task:1"), node("r", "Identity", "v"))
        )
    )
    errors: list[Exception] = []

    def run() -> None:
        try:
            session.prepare([], ["r:0"], [])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert registering.wait(20)
    session.close()
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert [str(error) for error in errors] == ["Session has been closed."] * 2
