"""A server with few descriptors, for test_strangers.py; reports its resources on request.

    python files/guarded_server.py TOKEN DESCRIPTORS [CERTIFICATES]

Prints the target and its channel's port; then, for each line of standard input, its resident
memory, that at its peak (both in MiB), descriptors and threads.
"""

import os
import resource
import sys
import threading
from pathlib import Path

import sparkflow as tf
from sparkflow_runtime.security import Tls


def main() -> None:
    token, descriptors, *folder = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(descriptors), int(descriptors)))
    names = ("ca.pem", "certificate.pem", "key.pem")
    tls = (
        Tls.from_files(
            *(Path(folder[0]) / name for name in names), server_name="task.sparkflow.internal"
        )
        if folder
        else None
    )
    server = tf.train.Server({"local": ["127.0.0.1:0"]}, token=token, tls=tls)
    channel = server._server.worker.channel_address
    print(server.target, channel.port, flush=True)
    for _ in sys.stdin:
        found = dict(
            line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines()
        )
        resident, peak = (int(found[key].split()[0]) >> 10 for key in ("VmRSS", "VmHWM"))
        print(
            resident, peak, len(os.listdir("/proc/self/fd")), threading.active_count(), flush=True
        )
    server.stop()


main()
