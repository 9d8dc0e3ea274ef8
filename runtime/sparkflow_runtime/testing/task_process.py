"""One task of a `LocalCluster` as a process: `python -m sparkflow_runtime.testing.task_process`.

It reads two lines of JSON from its standard input and answers each with one on its standard output:

    {"job": "ps", "index": 0, "port": 0, "token": null,
     "insecure": false, "tls": null, "transport": "auto"}
                                               ->  {"address": "127.0.0.1:40123"}
    {"ps": ["127.0.0.1:40123"], "worker": []}  ->  {"ready": true}

and serves until its standard input ends, which it does however the parent ends.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Final

from sparkflow_runtime.parent_process import die_with_parent
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.security import Tls
from sparkflow_runtime.server import Server

OUTLIVES_THREAD: Final = "--outlives-thread"
"""The task does not die with the thread that started it, only with the process."""


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Runs one task until `requests` ends.

    Args:
        requests: Where the task's name and then the cluster are read from, see the module.
        answers: Where the address and then the readiness are written to.
    """
    task = json.loads(requests.readline())
    server = Server(
        None,
        task["job"],
        task["index"],
        port=task["port"],
        token=task["token"],
        insecure=task["insecure"],
        tls=None if task["tls"] is None else Tls.from_export(task["tls"]),
        transport=task["transport"],
    )
    try:
        _answer(answers, {"address": server.address})
        line = requests.readline()
        if not line:
            return  # The parent gave up before all tasks had an address.
        server.set_cluster(cluster_of(json.loads(line)))
        server.start()
        _answer(answers, {"ready": True})
        while requests.readline():
            continue
    finally:
        server.stop()


def cluster_of(addresses: Mapping[str, Sequence[str]]) -> ClusterDef:
    """The addresses of each job's tasks as ClusterDef; jobs without tasks are left out."""
    cluster = ClusterDef()
    for name, tasks in addresses.items():
        if tasks:
            job = cluster.job.add(name=name)
            for index, address in enumerate(tasks):
                job.tasks[index] = address
    return cluster


def _answer(answers: IO[str], value: object) -> None:
    print(json.dumps(value), file=answers, flush=True)


if __name__ == "__main__":
    if OUTLIVES_THREAD not in sys.argv:
        die_with_parent()  # elsewhere than on Linux the end of its input must do
    serve(sys.stdin, sys.stdout)
