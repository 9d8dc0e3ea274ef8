import ctypes
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.threads_ir import MAX_PARTS, SERIAL_TEXT, Place
from sparkflow_runtime.errors import InvalidArgumentError

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")

PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)

COUNTING = """
define void @count(ptr %counts, i64 %part) {
  %at = getelementptr i64, ptr %counts, i64 %part
  atomicrmw add ptr %at, i64 1 monotonic, align 8
  ret void
}
define void @often(ptr %run, ptr %control, ptr %counts, i32 %parts, i64 %times) {
start:
  br label %again
again:
  %i = phi i64 [0, %start], [%next, %again]
  call void %run(ptr %control, ptr @count, ptr %counts, i32 %parts)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %again, label %end
end:
  ret void
}
"""


@pytest.fixture
def two_threads(monkeypatch):
    """A pool of two threads, whatever the machine has."""
    monkeypatch.setattr(threads, "count", lambda: 2)
    return threads.pool_addresses()


def run(function, parts, addresses=None):
    """Runs a Python function of the part on the pool."""
    address, control = addresses or threads.pool_addresses()
    callback = PART(lambda argument, part: function(part))
    RUN(address)(control, ctypes.cast(callback, ctypes.c_void_p), None, parts)


def counted(addresses, parts, times):
    """Counts how often each part ran in `times` jobs."""
    linked = native.link(COUNTING, ("often",))
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64)
    counts = np.zeros(max(parts, 1), np.int64)
    often = ctypes.CFUNCTYPE(None, *kinds)(linked.address("often"))
    often(*addresses, counts.ctypes.data, parts, times)
    return counts


@pytest.mark.parametrize("parts", [0, 1, 2, 3, 7, 64, MAX_PARTS, MAX_PARTS + 1])
def test_every_part_runs_once(two_threads, parts):
    assert (counted(two_threads, parts, 3) == (3 if parts else 0)).all()


def test_many_jobs_one_after_the_other(two_threads):
    assert (counted(two_threads, 3, 50_000) == 50_000).all()


def test_part_0_runs_on_the_calling_thread(two_threads):
    ran = {}
    run(lambda part: ran.update({part: threading.get_native_id()}), 5)
    assert sorted(ran) == [0, 1, 2, 3, 4]
    assert ran[0] == threading.get_native_id()


def test_two_parts_run_at_once(two_threads):
    if not threads._has_futex():
        pytest.skip("one thread only")
    both = threading.Barrier(2, timeout=30)
    run(lambda part: both.wait(), 2)  # otherwise the barrier breaks
    assert not both.broken


def test_the_pool_sleeps_and_wakes(two_threads):
    if not threads._has_futex():
        pytest.skip("one thread only")
    _, control = two_threads
    sleepers = ctypes.c_int32.from_address(control + Place.SLEEPERS)
    turn = threading.Event()
    for _ in range(3):
        for _ in range(30_000):
            if sleepers.value == len(threads._pools.found(None)._workers):
                break
            turn.wait(0.001)
        assert sleepers.value == len(threads._pools.found(None)._workers)
        both = threading.Barrier(2, timeout=30)
        run(lambda part, both=both: both.wait(), 2)
        assert not both.broken


def test_several_threads_share_it(two_threads):
    found = []
    callers = [
        threading.Thread(target=lambda: found.append(counted(two_threads, 4, 20_000)))
        for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 4
    assert all((counts == 20_000).all() for counts in found)


def test_a_part_may_run_a_job(two_threads):
    ran = []
    run(lambda outer: run(lambda inner: ran.append((outer, inner)), 3), 2)
    assert sorted(ran) == [(outer, inner) for outer in range(2) for inner in range(3)]


def test_workers_are_no_threads_of_python(two_threads):
    assert all("pool" not in thread.name for thread in threading.enumerate())
    assert threads.pool_addresses() == two_threads


def test_without_workers_all_parts_run_here():
    linked = native.link(SERIAL_TEXT, ("run",))
    ran = []
    run(lambda part: ran.append((part, threading.get_native_id())), 4, (linked.address("run"), 0))
    assert ran == [(part, threading.get_native_id()) for part in range(4)]
    assert counted((linked.address("run"), 0), 0, 1) == 0


def test_where_there_is_no_futex_there_is_one_thread(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert threads.count() == 1
    assert (counted(threads.pool_addresses(), 3, 2) == 2).all()


def test_count(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5})
    monkeypatch.setattr(threads, "_has_futex", lambda: True)
    monkeypatch.setattr(threads, "_limit", 0)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads.count() == 3
    threads.set_count(2)
    assert threads.count() == 2
    threads.set_count(8)
    assert threads.count() == 3
    threads.set_count(0)
    assert threads.count() == 3
    with pytest.raises(InvalidArgumentError, match="or more, got -1"):
        threads.set_count(-1)


def test_the_environment_says_how_many_unless_it_is_set(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5})
    monkeypatch.setattr(threads, "_has_futex", lambda: True)
    monkeypatch.setattr(threads, "_limit", 0)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads.count() == 2
    threads.set_count(3)
    assert threads.count() == 3


@pytest.mark.parametrize(
    ("text", "limit"), [("4", 4), (" 2,1", 2), ("", 0), ("0", 0), ("-1", 0), ("many", 0)]
)
def test_limits_in_the_environment(text, limit):
    assert threads.limit_in({"OMP_NUM_THREADS": text}) == limit
    assert threads.limit_in({}) == 0


SCRIPT = """
import ctypes, os, sys, threading
from sparkflow_runtime.codegen.machine import threads
threads.count = lambda: 3
PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
ran = []
part = PART(lambda argument, part: ran.append((part, threading.get_native_id())))
def run():
    address, control = threads.pool_addresses()
    again(address, control)
def again(address, control):
    ran.clear()
    RUN(address)(control, ctypes.cast(part, ctypes.c_void_p), None, 4)
    assert sorted(number for number, _ in ran) == [0, 1, 2, 3], ran
run()
"""

ENDINGS = {
    "plain": "",
    "exit in a thread": "t = threading.Thread(target=lambda: (run(), sys.exit())); t.start()",
    "exit code": "sys.exit(7)",
    "exception": "raise SystemExit(7)",
    "daemon thread at work": """
started = threading.Event()
def forever():
    while True:
        RUN(address)(control, nothing, None, 4)
        started.set()
from sparkflow_runtime.codegen.machine import native
nothing = native.link("define void @f(ptr %a, i64 %p) {\\n ret void\\n}", ("f",)).address("f")
address, control = threads.pool_addresses()
threading.Thread(target=forever, daemon=True).start()
started.wait()
""",
    "child": """
child = os.fork()
if not child:
    again(*threads._pools.found(None).addresses(0))  # what kernels have that were bound before
    assert {thread for _, thread in ran} == {threading.get_native_id()}
    run()
    again(*threads.pool_addresses())
    os._exit(7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
    "child that ends as programs do": """
child = os.fork()
run()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else 7)
""",
    "late use": """
pool = threads._pools.found(None)
threads._close(pool)
run()
threads._close(pool)
sys.exit(7)
""",
}


@pytest.mark.parametrize("ending", list(ENDINGS))
def test_ends_with_the_interpreter(ending):
    if "child" in ending and sys.version_info >= (3, 12):
        options = ["-W", "ignore::DeprecationWarning"]  # for forks of processes with threads
    else:
        options = []
    done = subprocess.run(
        [sys.executable, *options, "-c", SCRIPT + ENDINGS[ending]],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.returncode == (7 if "7" in ENDINGS[ending] else 0)
