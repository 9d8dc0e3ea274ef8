"""A task's process that appears to be on a different machine, reached through `bad_network`."""

from __future__ import annotations

import functools

from sparkflow.spark.cluster import child


def main() -> None:
    """Runs the process, which announces a different address than the one it listens on."""
    from sparkflow.spark.cluster import task_lifecycle
    from sparkflow_runtime.server import Server
    from sparkflow_runtime.transport.channel import listener
    from support.bad_network import AT

    listener.own_host_id = lambda: ""  # type: ignore[attr-defined]
    task_lifecycle.Server = functools.partial(Server, advertised_host=AT)  # type: ignore[attr-defined,assignment]
    child.main()


if __name__ == "__main__":
    main()
