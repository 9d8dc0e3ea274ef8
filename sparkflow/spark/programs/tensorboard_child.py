"""TensorBoard's server in a child process, which ends with its parent.

Reads one line of JSON from stdin, replies with one on stdout, and serves until stdin is closed.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import IO


def main(given: IO[bytes], answer: IO[bytes]) -> None:
    """Serves; replies with `error` if it cannot."""
    asked = json.loads(given.readline())
    logging.disable(logging.WARNING)  # that there is no TensorFlow is known
    try:
        from tensorboard import program  # type: ignore[import-not-found,unused-ignore]  # an extra

        server = program.TensorBoard()
        server.configure(
            argv=[
                "tensorboard",
                f"--logdir={asked['folder']}",
                f"--host={asked['host']}",
                f"--port={asked['port']}",
                "--load_fast=false",  # or a process of its own reads, which stays behind
            ]
        )
        told = {"url": server.launch()}
    except (Exception, SystemExit) as error:
        told = {"error": f"{type(error).__name__}: {error}"}
    answer.write(json.dumps(told).encode() + b"\n")
    answer.flush()
    if "url" in told:
        given.read()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
