"""Running the queues of a graph: `slim.queues.QueueRunners`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sparkflow as tf


@contextmanager
def QueueRunners(session: Any) -> Iterator[list[Any]]:
    """Starts the queue runners of the graph, and stops and joins them at the end.

    Args:
        session: Where they run.

    Yields:
        Their threads.
    """
    coordinator = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coordinator)
    try:
        yield threads
    finally:
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=120)
