"""An S3 server of its own process, reached through a link that can break.

moto keeps the objects in memory, so they live as long as the server does. That it stands still,
refuses and cuts connections is what the link does; then it is all there again.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sparkflow_runtime.testing.faulty_link import FaultyLink

_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0)
server.start()
print("at", *server.get_host_and_port(), flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A running server.

    Attributes:
        process: The server.
        link: What is between it and everybody else.
        environment: What a program needs to find it.
    """

    process: subprocess.Popen[str]
    link: FaultyLink
    environment: dict[str, str]

    def kill(self) -> None:
        """Ends the server as a lost machine does."""
        self.process.kill()
        self.process.wait()


@contextmanager
def object_store(bucket: str = "bucket") -> Iterator[ObjectStore]:
    """An S3 server with an empty bucket; it ends with the block, and with this process."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    with process:
        assert process.stdout is not None
        # The web server says things of its own, too.
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
            yield ObjectStore(process, link, environment)
        finally:
            link.close()
            process.kill()
