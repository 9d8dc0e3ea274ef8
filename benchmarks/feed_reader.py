"""The child process of `spark_feed.py`: `feed_reader.py WORKER BATCH_SIZE`, the file from stdin."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from sparkflow.spark.feed.feed import ArrowSource, FeedPlan
from sparkflow_runtime.errors import OutOfRangeError


def main() -> None:
    worker, batch_size = map(int, sys.argv[1:])
    plan = FeedPlan(batch_size=batch_size, epochs=1, steps_per_epoch=0, shuffle=True, seed=0)
    path = Path(sys.stdin.readline().strip())
    source = ArrowSource(path, plan, worker)
    first = 0.0
    rows = 0
    try:
        while True:
            features, _, _ = source.next_batch()
            first = first or time.monotonic()
            rows += len(features)
    except OutOfRangeError:
        last = time.monotonic()
    print(json.dumps({"first": first, "last": last, "rows": rows}))


if __name__ == "__main__":
    main()
