"""The process of one task's server: `python -m sparkflow.spark.cluster.child`, started by the task.

It reads lines of JSON from stdin: the configuration, then the locations of its rows. It ends when
the driver says so, or when stdin is closed because the Spark task is gone. It reports events to the
task as lines of JSON on stdout. pyspark is never imported here.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final

from sparkflow_runtime.parent_process import die_with_parent

ORPHANED: Final = 3
"""Exit code after the Spark task or the driver has disappeared or given up this process."""
PULSE_S: Final = 1.0
"""The maximum number of seconds between two lines to the Spark task, unless the process stalls."""


def main() -> None:
    """Runs the process; see the module's docstring."""
    end_with_the_worker()
    tell = take_stdout()
    messages: queue.Queue[Mapping[str, Any]] = queue.Queue()
    config = json.loads(first_line())
    threading.Thread(target=beat, args=(tell,), name="pulse", daemon=True).start()
    threading.Thread(target=read_lines, args=(messages,), name="stdin", daemon=True).start()
    # Imported late, so that the lines above are in force while numpy and gRPC load.
    from sparkflow.spark.cluster.registration_client import RegistrationClient
    from sparkflow.spark.cluster_layout import TaskName
    from sparkflow_runtime.errors import UnauthenticatedError, UnavailableError
    from sparkflow_runtime.security import Credentials

    name = TaskName(config["job"], config["task"])
    credentials = Credentials.from_export(config["credentials"])
    client = RegistrationClient(config["driver"], credentials)
    try:
        # While 800 modules load, garbage collection takes a tenth of the time.
        gc.disable()
        from sparkflow.spark.cluster.task_lifecycle import TaskLifecycle

        gc.freeze()
        gc.enable()
        TaskLifecycle(config, name, credentials, client, messages, tell).run()
        code = 0
    except (UnavailableError, UnauthenticatedError) as error:
        # This process is the one that is lost, so it has nothing to report; its task does so. The
        # token came from the driver: if it is refused, it was corrupted on the way.
        print(error, file=sys.stderr)
        code = ORPHANED
    except Exception as error:
        traceback.print_exc()
        client.report_failure(name, socket.gethostname(), error)
        code = 1
    client.close()
    sys.stderr.flush()
    # The server's threads need not be joined: it no longer has clients.
    os._exit(code)


def end_with_the_worker() -> None:
    """Makes the kernel kill this process when the Spark worker dies, and ignores Ctrl-C."""
    die_with_parent()
    # Ctrl-C in a terminal reaches the whole group; the driver decides which process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def take_stdout() -> Callable[[Mapping[str, Any]], None]:
    """Reserves stdout for messages: other output goes to stderr from here on."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lock = threading.Lock()

    def tell(message: Mapping[str, Any]) -> None:
        with lock:
            out.write(json.dumps(message) + "\n")
            out.flush()

    return tell


def beat(tell: Callable[[Mapping[str, Any]], None]) -> None:
    """Sends heartbeats to the Spark task; runs in its own thread, which does not end."""
    pause = threading.Event()
    while True:
        tell({"event": "pulse"})
        pause.wait(PULSE_S)


def first_line() -> str:
    """Reads the first line from stdin; ends the process if there is none."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(ORPHANED)
    return line


def read_lines(messages: queue.Queue[Mapping[str, Any]]) -> None:
    """Adds lines from stdin to the messages; ends the process when stdin is closed."""
    for line in sys.stdin:
        messages.put(json.loads(line))
    # The other end is closed: nothing depends on this process any more, so nothing is cleaned up.
    os._exit(ORPHANED)


if __name__ == "__main__":
    main()
