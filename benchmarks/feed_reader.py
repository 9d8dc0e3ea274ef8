"""The child process of `spark_feed.py`: reads lines of JSON, a plan and then row locations."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from sparkflow.spark.data.feed.worker_feed import WorkerFeed
from sparkflow.spark.data.feed_plan import FeedPlan
from sparkflow_runtime.errors import OutOfRangeError


def main() -> None:
    config = json.loads(sys.stdin.readline())
    feed = WorkerFeed(FeedPlan.from_json(config["plan"]), config["worker"])
    found: dict[str, Any] = {}
    reader = threading.Thread(target=draw, args=(feed, found))
    reader.start()
    for line in sys.stdin:
        if feed.take(json.loads(line)):
            break
    reader.join()
    print(json.dumps(found))


def draw(feed: WorkerFeed, found: dict[str, Any]) -> None:
    """Draws all batches as they arrive and reports the times of the first and the last one."""
    first = 0.0
    rows = 0
    try:
        while True:
            *_, count = feed.train.next_batch()
            first = first or time.monotonic()
            rows += int(count)
    except OutOfRangeError:
        last = time.monotonic()
    found |= {"first": first or last, "last": last, "rows": rows}


if __name__ == "__main__":
    main()
