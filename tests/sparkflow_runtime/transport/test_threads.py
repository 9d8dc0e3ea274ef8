import subprocess
import sys
import threading
from concurrent.futures import wait

import pytest

from sparkflow_runtime.transport.threads import DaemonThreads


def names_of(prefix: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == prefix]


def test_results_and_errors_arrive() -> None:
    threads = DaemonThreads(2, "pool-results")
    assert threads.submit(lambda x, *, y: x + y, 1, y=2).result(10) == 3
    with pytest.raises(KeyError, match="lost"):
        threads.submit({}.__getitem__, "lost").result(10)
    threads.shutdown()


def test_idle_threads_are_used_again() -> None:
    threads = DaemonThreads(8, "pool-reuse")
    used = {threads.submit(threading.get_ident).result(10) for _ in range(50)}
    assert len(names_of("pool-reuse")) <= 2  # a thread may not be idle yet when its result arrives
    assert len(used) <= 2
    threads.shutdown()


def test_no_more_threads_than_allowed() -> None:
    threads = DaemonThreads(3, "pool-bound")
    release, running = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        running.release()
        assert release.wait(10)

    futures = [threads.submit(work) for _ in range(7)]
    for _ in range(3):
        assert running.acquire(timeout=10)
    assert not running.acquire(blocking=False)
    assert len(names_of("pool-bound")) == 3
    release.set()
    for future in futures:
        future.result(10)
    threads.shutdown()


def test_blocked_calls_never_wait_for_a_thread_that_is_free() -> None:
    threads = DaemonThreads(64, "pool-chain")
    events = [threading.Event() for _ in range(40)]

    def wait_for(index: int) -> int:
        # Each call needs the one after it: all of them must run at once.
        if index + 1 < len(events):
            assert events[index + 1].wait(10)
        events[index].set()
        return index

    futures = [threads.submit(wait_for, index) for index in range(len(events))]
    assert [future.result(10) for future in futures] == list(range(40))
    threads.shutdown()


def test_shutdown_ends_threads_and_cancels_what_waits() -> None:
    threads = DaemonThreads(1, "pool-shutdown")
    release, started = threading.Event(), threading.Event()

    def work() -> str:
        started.set()
        assert release.wait(10)
        return "done"

    running, waiting = threads.submit(work), threads.submit(work)
    assert started.wait(10)
    threads.shutdown(cancel_futures=True)
    threads.shutdown()
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="after the shutdown"):
        threads.submit(work)
    release.set()
    assert running.result(10) == "done"
    for thread in names_of("pool-shutdown"):
        thread.join(10)
    assert names_of("pool-shutdown") == []


def test_a_blocked_call_does_not_keep_the_process() -> None:
    program = (
        "import threading\n"
        "from sparkflow_runtime.transport.threads import DaemonThreads\n"
        "started = threading.Event()\n"
        "def block():\n"
        "    started.set()\n"
        "    threading.Event().wait()\n"
        "DaemonThreads(1, 'x').submit(block)\n"
        "assert started.wait(10)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_who_waits_for_a_call_that_never_began_learns_that_it_is_cancelled() -> None:
    threads = DaemonThreads(1, "pool-cancelled")
    begun, release = threading.Event(), threading.Event()

    def hold() -> bool:
        begun.set()
        return release.wait(60)

    running = threads.submit(hold)
    assert begun.wait(60)
    waiting = threads.submit(hold)
    threads.shutdown(cancel_futures=True)
    done, _ = wait([waiting], timeout=60)
    assert done == {waiting}
    assert waiting.cancelled()
    release.set()
    assert running.result(60)


def test_a_thread_that_the_process_cannot_have_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = DaemonThreads(2, "pool-refused")
    called: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for number in range(3):
            with pytest.raises(RuntimeError, match="can't start"):
                threads.submit(called.append, number)
    release = threading.Event()
    first = threads.submit(release.wait, 10)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        second = threads.submit(called.append, 3)  # the existing one does it
    release.set()
    wait([first, second], 10)
    assert called == [3]
    threads.shutdown()
