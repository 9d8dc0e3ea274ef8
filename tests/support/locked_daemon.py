"""A daemon of Spark whose Python workers may not open sockets or start processes.

Passed to Spark as `spark.python.daemon.module`, to simulate shared compute. The workers that it
forks reach the JVM by an existing connection. The environment variable `LOCKED_BY` selects the
lock: `filter`, a seccomp filter that forbids new ones, `namespace`, a separate network without
active interfaces, or both.
"""

import ctypes
import os
import struct
from typing import Any

from pyspark import daemon

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_ALLOW, _DENY_EPERM, _DENY_ENOSYS = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _FIRST_ARGUMENT = 0, 16
_CLONE_THREAD, _CLONE_NEWNET = 0x10000, 0x40000000

# x86-64: socket, connect, bind, listen, vfork, fork, execve, execveat.
DENIED = (41, 42, 49, 50, 57, 58, 59, 322)
_CLONE, _CLONE3 = 56, 435


def lock_in() -> None:
    """Denies sockets and new processes to this process and its children; threads are allowed."""
    program = [(_LOAD, 0, 0, _NUMBER)]
    for number in DENIED:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _DENY_EPERM)]
    # glibc then takes clone, whose flags a filter can see.
    program += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _DENY_ENOSYS)]
    program += [
        (_EQUAL, 0, 3, _CLONE),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _DENY_EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = b"".join(struct.pack("HBBI", *each) for each in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("HP", len(program), ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0
    ):
        raise OSError(ctypes.get_errno(), "no seccomp filter can be installed here")


def leave_network() -> None:
    """Moves this process to a separate network without active interfaces, not even loopback.

    Raises:
        OSError: It is not permitted: that requires root.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "no network namespace can be made here")


_worker = daemon.worker


def _locked_worker(sock: Any, authenticated: bool) -> int:
    locked_by = os.environ.get("LOCKED_BY", "filter").split()
    if "namespace" in locked_by:
        leave_network()
    if "filter" in locked_by:
        lock_in()
    return int(_worker(sock, authenticated))


if __name__ == "__main__":
    daemon.worker = _locked_worker
    daemon.manager()
