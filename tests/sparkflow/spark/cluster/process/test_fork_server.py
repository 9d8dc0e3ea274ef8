"""The fork server by itself: what it has imported, and when it ends."""

import os
import socket
import subprocess
import sys
from typing import Any

import pytest

from sparkflow.spark.cluster.process.fork_server import FUNCTION, MODULE, TRAINING

WAIT_S = 30
UNLOADED = "server.preload = lambda module: None\nserver.main()"
FIRST = b'{"module": "any"}'
HERE = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def started(program: str) -> tuple["subprocess.Popen[str]", socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        pipe: Any = subprocess.PIPE
        command = [sys.executable, "-c", f"import {MODULE} as server\n{program}"]
        process = subprocess.Popen(command, stdin=theirs, stdout=pipe, text=True, env=HERE)
    return process, ours


def test_it_ends_when_it_has_been_idle() -> None:
    process, requests = started(
        "server.IDLE_S = 0.05\nserver.preload = lambda module: None\nserver.main()"
    )
    with requests, process:
        requests.send(FIRST)
        assert process.wait(WAIT_S) == 0


@pytest.mark.parametrize("sent", [(), (FIRST,), (FIRST, b'{"retire": true}')])
def test_it_ends_when_nobody_can_ask_any_more(sent: tuple[bytes, ...]) -> None:
    process, requests = started(UNLOADED)
    with process:
        with requests:
            for each in sent:
                requests.send(each)
            if len(sent) == 2:
                assert process.wait(WAIT_S) == 0
        assert process.wait(WAIT_S) == 0


@pytest.mark.parametrize(("module", "others"), [(TRAINING, ""), (FUNCTION, "pyspark")])
def test_what_is_imported_leaves_one_thread_and_no_connection(module: str, others: str) -> None:
    """Python threads are counted: OpenBLAS and jemalloc end or restart their own at a fork."""
    process, requests = started(
        "import gc, os, sys, threading\n"
        f"server.preload({module!r})\n"
        "print(threading.active_count())\n"
        "folder = '/proc/self/fd/'\n"
        "paths = [folder + number for number in os.listdir(folder)]\n"
        "links = [os.readlink(path) for path in paths if os.path.lexists(path)]\n"
        "print(sum('socket' in each for each in links) - 1)\n"  # its input
        "print(*sorted({'cupy', 'pyspark', 'pandas'} & set(sys.modules)))\n"
    )
    with requests, process:
        assert process.stdout is not None
        assert process.stdout.read().splitlines() == ["1", "0", others]
