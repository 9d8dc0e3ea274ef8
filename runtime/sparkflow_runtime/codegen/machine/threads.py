"""The thread pool that kernels share, in machine code, and its number of threads.

Python's threads cost a lock and a context switch per hand-over, tens of microseconds; a small
kernel takes less. These are OS threads that never run Python. They start with the first call of
`pool_addresses`, spin for `SPIN_S` after the last job, yield for a while, then sleep, and end with
the interpreter. A forked child has none until it asks for them.

Where there is no futex (not Linux) everything runs on the calling thread.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Final

from sparkflow_runtime.codegen.machine import threads_ir
from sparkflow_runtime.codegen.machine.linking import link
from sparkflow_runtime.codegen.machine.threads_ir import Place
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.once import Once

VARIABLE: Final = "OMP_NUM_THREADS"
SPIN_S: Final = 50e-6
"""How long a worker spins for the next job before it yields, and a caller for workers before it
sleeps."""
_ALIGNMENT: Final = 64
_TRIED_SPINS: Final = 1000

_limit = 0
"""The limit from `set_count`; 0 for none."""


def count() -> int:
    """Returns how many threads kernels may use: the processors of this process, unless limited.

    Without `set_count`, `OMP_NUM_THREADS` applies, as for BLAS libraries.
    """
    if not _has_futex():
        return 1
    processors = len(os.sched_getaffinity(0))
    return min(processors, _limit or limit_in(os.environ) or processors)


def limit_in(environ: Mapping[str, str]) -> int:
    """Returns the number of threads that an environment requests; 0 if it does not say."""
    text = environ.get(VARIABLE, "").partition(",")[0].strip()  # a list is for nested loops
    return int(text) if text.isdecimal() else 0


def set_count(number: int) -> int:
    """Limits the threads of kernels that are bound from now on, in the whole process.

    Args:
        number: The maximum; 0 for the default, see `count`.

    Returns:
        The previous limit; 0 for none.

    Raises:
        InvalidArgumentError: The number is negative.
    """
    if number < 0:
        raise InvalidArgumentError(
            message=f"The number of threads must be 0 (the default) or more, got {number}"
        )
    global _limit
    before, _limit = _limit, number
    return before


def pool_addresses() -> tuple[int, int]:
    """Returns the pool's addresses for machine code; starts its threads if necessary.

    Returns:
        The address of `void run(ptr control, ptr function, ptr argument, i32 parts)`, and that of
        the control block. `run` calls `function(ptr argument, i64 part)` for every part from 0 on,
        part 0 on the calling thread, and returns when all have run. Several threads may call it at
        once: one gets the pool, the others run their parts themselves. Both addresses stay valid,
        even in a forked child.

    Raises:
        RuntimeError: No code generator is available, see `host.available`.
    """
    if not _has_futex():
        return link(threads_ir.SERIAL_TEXT, ("run",)).address("run"), 0
    pool = _pools.get(None, _started)
    with _lock:
        return pool.addresses(count() - 1)


class _Pool:
    """The compiled functions, control block and threads; guarded by `_lock` once created."""

    def __init__(self) -> None:
        names = ("worker", "run", "stop", "spin")
        linked = link(threads_ir.text(platform.machine()), names)
        self._worker, self._run, self._stop, self._spin = map(linked.address, names)
        self._c = ctypes.CDLL(None)
        # Never freed: a thread that outlives the interpreter may still read it.
        self._c.aligned_alloc.restype = ctypes.c_void_p
        self._c.aligned_alloc.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
        self._control: int = self._c.aligned_alloc(_ALIGNMENT, threads_ir.SIZE)
        self._workers: list[ctypes.c_ulong] = []
        self._spins = 0
        self._is_closed = False
        self.forget()
        self._spins = self._measured_spins()
        self.forget()

    def addresses(self, workers: int) -> tuple[int, int]:
        """See `pool_addresses`; starts workers up to the given number."""
        if len(self._workers) < workers and not self._is_closed:
            with _signals_blocked():  # they are Python's threads' to handle
                while len(self._workers) < workers and self._start_worker():
                    pass
            field = ctypes.c_int32.from_address(self._control + Place.WORKERS)
            field.value = len(self._workers)
        return self._run, self._control

    def forget(self) -> None:
        """Resets the control block to the state without workers."""
        self._workers = []
        ctypes.memset(self._control, 0, threads_ir.SIZE)
        ctypes.c_int64.from_address(self._control + Place.SPINS).value = self._spins

    def close(self) -> None:
        """Ends the workers and waits for their end; later calls of `run` do without them."""
        self._is_closed = True
        if self._workers:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._stop)(self._control)
            for worker in self._workers:
                self._c.pthread_join(worker, None)
            self._workers = []

    def _start_worker(self) -> bool:
        """Starts one thread; False if the system allows no more, which only costs speed."""
        thread = ctypes.c_ulong()
        failed = self._c.pthread_create(
            ctypes.byref(thread),
            None,
            ctypes.c_void_p(self._worker),
            ctypes.c_void_p(self._control),
        )
        if not failed:
            self._workers.append(thread)
        return not failed

    def _measured_spins(self) -> int:
        """Measures the spins in `SPIN_S`: a pause takes 4 to 140 cycles, depending on processor."""
        spin = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self._spin)
        times = []
        for _ in range(3):
            start = time.perf_counter()
            spin(self._control, _TRIED_SPINS)
            times.append(time.perf_counter() - start)
        return max(1, int(_TRIED_SPINS * SPIN_S / min(times)))


_lock = threading.Lock()
"""Guards the pool's contents. No `once` value may be requested while holding it."""
_pools: Once[None, _Pool] = Once()
"""The pool of this process."""


def _started() -> _Pool:
    made = _Pool()
    atexit.register(_close, made)
    os.register_at_fork(after_in_child=lambda: _forget(made))
    return made


def _close(pool: _Pool) -> None:
    with _lock:
        pool.close()


def _forget(pool: _Pool) -> None:
    """Runs in a forked child: the parent's workers do not exist there, and the lock is free."""
    global _lock
    _lock = threading.Lock()
    pool.forget()


def _has_futex() -> bool:
    return sys.platform == "linux" and platform.machine() in threads_ir.FUTEX_NUMBERS


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
