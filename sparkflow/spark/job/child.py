"""The process of one task's server: `python -m sparkflow.spark.job.child`, started by `task`.

It reads lines of JSON from stdin: the configuration, then where its rows are. It ends when the
driver says so, or when stdin ends because the Spark task is gone. pyspark is never imported here.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_ORPHANED = 3
"""Exit code after the Spark task or the driver has gone away."""


def main() -> None:
    """Runs the process; see the module's docstring."""
    _die_with_parent()
    lines: queue.Queue[Mapping[str, Any]] = queue.Queue()
    config = json.loads(_first_line())
    threading.Thread(target=_read_lines, args=(lines,), name="stdin", daemon=True).start()
    # Imported late, so that the lines above are in force while numpy and gRPC load.
    from sparkflow.spark.job.layout import TaskName
    from sparkflow.spark.job.registration import RegistrationClient

    name = TaskName(config["job"], config["task"])
    client = RegistrationClient(config["driver"], config["token"])
    try:
        _serve(config, name, client, lines)
        code = 0
    except Exception as error:
        traceback.print_exc()
        client.report_failure(name, socket.gethostname(), error)
        code = 1
    client.close()
    sys.stderr.flush()
    # Threads of the server need not be waited for: nobody listens to it any more.
    os._exit(code)


def _serve(
    config: Mapping[str, Any], name: Any, client: Any, lines: queue.Queue[Mapping[str, Any]]
) -> None:
    import grpc

    from sparkflow.spark.feed.feed import ArrowSource, FeedPlan
    from sparkflow.spark.feed.inputs import TRAIN_DATA
    from sparkflow_runtime.errors import CancelledError, UnavailableError
    from sparkflow_runtime.server import Server

    host = _address_towards(config["driver"])
    server = Server(
        None,
        name.job,
        name.index,
        port=0,
        host=host,
        token=config["token"],
        gpus=0 if name.job == "ps" else None,  # those of the machine are the workers'
    )
    server.start()
    try:
        cluster = client.register(_describe(config, server.address))
    except CancelledError:
        return  # training ended before all tasks were there
    ended = client.await_end(name)
    ended.add_done_callback(lambda _: lines.put({"path": None}))  # if it ends before the rows come
    server.set_cluster(cluster)
    path = lines.get()["path"]
    source = ArrowSource(
        Path(path) if path is not None else None, FeedPlan(**config["plan"]), name.index
    )
    server.resources.put("", TRAIN_DATA, source)
    client.data_ready(name, source.rows, source.size_bytes)
    try:
        ended.result()
    except grpc.RpcError as error:
        raise UnavailableError(message=f"The driver is gone: {error}") from None


def _describe(config: Mapping[str, Any], address: str) -> Any:
    import google.protobuf
    import grpc
    import numpy as np

    from sparkflow_runtime.protos.rendezvous_pb2 import TaskInfo

    return TaskInfo(
        job=config["job"],
        task=config["task"],
        address=address,
        host=socket.gethostname(),
        pid=os.getpid(),
        spark_partition=config["partition"],
        task_attempt_id=config["attempt"],
        versions={
            "python": sys.version.split()[0],
            "numpy": np.__version__,
            "grpcio": grpc.__version__,
            "protobuf": google.protobuf.__version__,
        },
    )


def _die_with_parent() -> None:
    """Has the kernel kill this process when the Spark worker dies, whatever else happens."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    # Ctrl-C in a terminal reaches the whole group; who ends is the driver's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _first_line() -> str:
    line = sys.stdin.readline()
    if not line:
        sys.exit(_ORPHANED)
    return line


def _read_lines(lines: queue.Queue[Mapping[str, Any]]) -> None:
    for line in sys.stdin:
        lines.put(json.loads(line))
    # The other end is closed: nobody waits for what this process does, so nothing is tidied up.
    os._exit(_ORPHANED)


def _address_towards(driver: str) -> str:
    """This machine's address as the driver sees it. Sends nothing."""
    host, _, port = driver.rpartition(":")
    family, kind, protocol, _, address = socket.getaddrinfo(
        host.strip("[]"), int(port), type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


if __name__ == "__main__":
    main()
