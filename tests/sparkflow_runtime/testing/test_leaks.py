import socket
import subprocess
import sys
import threading
from functools import partial

import pytest

from sparkflow_runtime.resources.spare_threads import idle_threads, start_thread
from sparkflow_runtime.testing.leaks import assert_idle, assert_nothing_left
from sparkflow_runtime.testing.local_cluster import LocalCluster


def test_what_was_there_before_may_stay() -> None:
    with socket.socket(), assert_nothing_left():
        pass


def test_what_ends_late_is_waited_for() -> None:
    end = threading.Event()
    with assert_nothing_left():
        threading.Thread(target=end.wait, args=(60,)).start()
        threading.Timer(0.05, end.set).start()


def test_a_thread_a_socket_and_a_process_are_found() -> None:
    end = threading.Event()
    with pytest.raises(AssertionError, match="'stays'"), assert_nothing_left(0.05):
        threading.Thread(target=end.wait, args=(60,), name="stays").start()
    end.set()
    with pytest.raises(AssertionError, match="socket:"), assert_nothing_left(0.05):
        left = socket.socket()
    left.close()
    with pytest.raises(AssertionError, match="Processes are left"), assert_nothing_left(0.05):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.DEVNULL)
    child.wait(60)


def test_a_thread_that_waits_for_calls_of_the_process_is_nobody_s() -> None:
    called, end = threading.Event(), threading.Event()
    with assert_nothing_left():
        start_thread(called.set)
        assert called.wait(60)

    def occupy() -> None:
        for _ in range(len(idle_threads()) + 1):  # at least one of them in a new thread
            start_thread(partial(end.wait, 60))

    with pytest.raises(AssertionError, match="'sparkflow-strand'"), assert_nothing_left(0.05):
        occupy()
    end.set()


def test_a_server_that_holds_a_step_or_a_session_is_named() -> None:
    with LocalCluster(1, 0) as cluster:
        worker = cluster.servers[0].worker
        assert_idle(cluster.servers)
        worker.rendezvous.find(7)
        with pytest.raises(AssertionError, match=r"/job:ps/.* still has the steps \[7\]"):
            assert_idle(cluster.servers, 0.05)
        worker.rendezvous.finish(7)
        worker.sessions.create("left")
        with pytest.raises(AssertionError, match=r"still has the sessions \['left'\]"):
            assert_idle(cluster.servers, 0.05)
        worker.sessions.delete("left")
        assert_idle(cluster.servers)
