"""An S3 server in a separate process, reached through a link that can break.

moto stores the objects in memory, so they live as long as the server. The link simulates a server
that hangs, refuses or cuts connections; afterwards, everything is available again.
"""

from __future__ import annotations

import http.client
import itertools
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np

from sparkflow.spark.control.checkpoints.snapshot import Position, Snapshot
from sparkflow_runtime.testing.faulty_link import FaultyLink

_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0)
server.start()
print("at", *server.get_host_and_port(), flush=True)
sys.stdin.read()
"""


MOST_S: Final = 200.0
"""The maximum time after which a server that does not answer is given up."""
SNAPSHOT: Final = Snapshot(
    step=1,
    position=Position((0,), (1,), {}),
    shared={"v": np.arange(6, dtype=np.float32)},
    best={},
    workers=(),
    history={},
    early_stopping={},
)
"""The contents of checkpoints on such a server."""


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A running server.

    Attributes:
        process: The server.
        link: The link between it and all clients.
        root: The URI of its empty bucket or container.
        environment: The variables with which a program finds it.
    """

    process: subprocess.Popen[str]
    link: FaultyLink
    root: str
    environment: dict[str, str]

    def kill(self) -> None:
        """Ends the server like a lost machine."""
        self.process.kill()
        self.process.wait()

    def kills(self, number: int, writer: Writer, what: str = "") -> bool:
        """Kills a writer of `what` just before this piece, numbered from 0, would pass the link.

        Pieces of its connections in both directions are counted. Returns whether there were so
        many.
        """
        numbers = itertools.count()
        reached, dead = threading.Event(), threading.Event()

        def pass_on(piece: bytes) -> bytes | None:
            if next(numbers) < number:
                return piece
            reached.set()
            dead.wait()
            return None

        self.link.disturb(lambda: pass_on)
        pid = writer.begin(what)
        while not reached.wait(0.005) and not writer.has_ended:
            pass
        if reached.is_set():
            os.kill(pid, signal.SIGKILL)
        code = writer.end()
        dead.set()
        self.link.restore()
        assert code == (-signal.SIGKILL if reached.is_set() else 0)
        return reached.is_set()


_WRITER: Final = """
import os, sys
{setup}
for line in sys.stdin:
    what = line.strip()
    pid = os.fork()
    if not pid:
        {act}
        os._exit(0)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Writer:
    """A program that repeatedly writes the same, each time in a new process.

    Args:
        setup: Lines of Python that import what is needed, without connecting to anything.
        act: A line that writes what the variable `what` specifies.
        arguments: Its `sys.argv[1:]`.
    """

    def __init__(self, setup: str, act: str, *arguments: str) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-c", _WRITER.format(setup=setup, act=act), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.kill()
        self._program.communicate()

    def begin(self, what: str = "") -> int:
        """Begins to write; returns the process."""
        assert self._program.stdin is not None
        self._program.stdin.write(f"{what}\n")
        self._program.stdin.flush()
        return self._said()

    @property
    def has_ended(self) -> bool:
        """Whether it has written everything; only before `end`."""
        assert self._program.stdout is not None
        return bool(select.select([self._program.stdout], [], [], 0)[0])

    def end(self) -> int:
        """Waits for the end; returns the exit code."""
        return self._said()

    def _said(self) -> int:
        assert self._program.stdout is not None
        return int(self._program.stdout.readline())


@contextmanager
def server_process(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Starts a server that prints its address on standard output; it is killed with the block."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def object_store(bucket: str = "bucket") -> Iterator[ObjectStore]:
    """Starts an S3 server with an empty bucket; it ends with the block, and with this process."""
    with server_process([sys.executable, "-c", _SERVER]) as process:
        assert process.stdout is not None
        # The web server prints lines of its own, too.
        found = next(line.split() for line in process.stdout if line.startswith("at "))
        host, port = found[1:]
        link = FaultyLink(f"{host}:{port}")
        try:
            making = http.client.HTTPConnection(host, int(port), timeout=60)
            making.request("PUT", f"/{bucket}")
            assert making.getresponse().status == 200
            making.close()
            environment = {
                "AWS_ACCESS_KEY_ID": "nobody",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_ENDPOINT_URL": f"http://{link.address}",
            }
            yield ObjectStore(process, link, f"s3://{bucket}", environment)
        finally:
            link.close()
