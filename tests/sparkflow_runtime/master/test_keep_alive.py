import threading
from collections.abc import Callable

from sparkflow_runtime.master.keep_alive import KEEP_ALIVE_S, KeepAlive
from sparkflow_runtime.master.links import LEASE_S, LocalLink
from sparkflow_runtime.master.session import MasterSession
from sparkflow_runtime.worker.worker import Worker


class Link:
    """A remote worker that counts the calls."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def keep_session(self, session: str) -> None:
        self.kept.append(session)


def pauses(count: int, done: threading.Event) -> Callable[[float], bool]:
    left = [count]

    def pause(seconds: float) -> bool:
        assert seconds == KEEP_ALIVE_S
        left[0] -= 1
        if left[0] < 0:
            done.set()
        return left[0] < 0

    return pause


def test_every_worker_elsewhere_is_told_after_each_pause() -> None:
    links, done = [Link(), Link()], threading.Event()
    KeepAlive("s", links, pauses(3, done))  # type: ignore[arg-type]
    assert done.wait(20)
    assert [link.kept for link in links] == [["s"] * 3] * 2
    assert 5 * KEEP_ALIVE_S < LEASE_S


def test_it_ends_when_closed_and_needs_no_thread_within_one_process() -> None:
    before = set(threading.enumerate())
    worker = Worker()
    MasterSession({worker.task: LocalLink(worker)}, default_task=worker.task).close()
    assert set(threading.enumerate()) <= before
    alive = KeepAlive("s", [Link()])  # type: ignore[list-item]
    (thread,) = set(threading.enumerate()) - before
    alive.close()
    alive.close()
    thread.join(20)
    assert not thread.is_alive()
    worker.close()
