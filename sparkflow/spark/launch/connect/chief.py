"""The chief's process: `python -m sparkflow.spark.launch.connect.chief`, started by task 0.

The first line on stdin has the job's credentials and names two paths in a directory that only this
user can read: the pickled `Leadership`, which Spark delivered with the job's code, and the
destination of the outcome. The process reports its address to the task as JSON on stdout, and exits
when training ends or the task is gone.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import threading
from pathlib import Path
from typing import Any

from sparkflow.spark.cluster.child import (
    beat,
    end_with_the_worker,
    first_line,
    read_lines,
    take_stdout,
)


def main() -> None:
    """Runs the process; see the module's docstring."""
    end_with_the_worker()
    tell = take_stdout()
    config = json.loads(first_line())
    threading.Thread(target=beat, args=(tell,), name="pulse", daemon=True).start()
    messages: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=read_lines, args=(messages,), name="stdin", daemon=True).start()
    # Imported late, so that the lines above take effect before numpy and gRPC load.
    from sparkflow.spark.cluster.failures import is_restartable
    from sparkflow.spark.control.callbacks import Callbacks
    from sparkflow.spark.control.checkpoints.packed import pack, unpack
    from sparkflow.spark.launch.connect.lead import JobCluster, lead
    from sparkflow.spark.launch.connect.outcome import (
        EVENTS,
        Outcome,
        error_to_parts,
        to_parts,
        to_rows,
    )
    from sparkflow.spark.launch.connect.relay import Relay
    from sparkflow_runtime.security import Credentials

    # Not from the network: written by the Spark task, to which Spark sent it with the task's code.
    work = pickle.loads(Path(config["work"]).read_bytes())  # noqa: S301
    credentials = Credentials.from_export(config["credentials"])
    left = {part: Path(path).read_bytes() for part, path in config["remembered"].items()}
    remembered = unpack(left) if left else None
    relay = Relay(work.needs_epochs, work.stop)
    services = [relay.handlers()] if work.live else []
    cluster = JobCluster(
        work.plan.layout, credentials, config["host"], work.plan.config.ports, services
    )
    tell({"event": "address", "port": cluster.port})
    reason, values = "", None
    try:
        callbacks = Callbacks([relay] if work.live else [])
        found = lead(work, credentials, cluster, callbacks, remembered, lambda: relay.wants_pause)
        if isinstance(found, Outcome):
            values = parts = to_parts(found)
        else:
            parts = pack(found)
    except Exception as error:
        reason = "Training was given up"
        parts = error_to_parts(error, is_restartable(error))
    if work.live:
        # A copy, because events not yet delivered to callbacks are not part of the variables.
        parts[EVENTS] = relay.end(None if values is None else dict(values))
    folder = Path(config["outcome"])
    for index, (part, number, content) in enumerate(to_rows(parts)):
        (folder / f"{index:06d}-{number}-{part}").write_bytes(content)
    cluster.close(reason)
    tell({"event": "end"})
    # Tasks learn from the service that training has ended, so it listens until all have ended.
    threading.Event().wait(config["linger_s"])
    os._exit(0)


if __name__ == "__main__":
    main()
