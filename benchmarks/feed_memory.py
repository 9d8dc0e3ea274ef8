"""Feeds two epochs of rows larger than their memory: `feed_memory.py MEMORY_BYTES ROWS_BYTES`.

Prints the maximum additional memory, and how much of it is not mapped files.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa

from sparkflow.spark.data.feed.row_table import Chunk, MappedChunks, RowTable
from sparkflow.spark.data.feed.source import TrainingSource
from sparkflow.spark.data.feed_plan import PERMUTED, FeedPlan
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
from sparkflow.spark.data.spool.spool import RowSpool, local_directories
from sparkflow_runtime.errors import OutOfRangeError

DIM = 784
ROWS_AT_ONCE = 4096


def main() -> None:
    memory, size = map(int, sys.argv[1:])
    features = Input("features", DENSE, "float32", (DIM,))
    row_format = RowFormat((features,), None, None, named=False)
    table = RowTable(row_format, MappedChunks(memory))
    source = TrainingSource(table, FeedPlan(row_format, 128, epochs=2, order=PERMUTED), 0)

    def tell(message: Any) -> None:
        if "chunk" in message:
            source.add(Chunk(message["chunk"]))
        else:
            source.complete()

    spool = RowSpool(row_format, local_directories(os.environ), tell)
    spool.take(_batches(size))
    before = _memory()
    resident = anonymous = rows = 0
    began = time.perf_counter()
    try:
        for step in range(sys.maxsize):
            *_, count = source.next_batch()
            rows += int(count)
            if step % 50 == 0:
                now = _memory()
                resident = max(resident, now["Rss"] - before["Rss"])
                anonymous = max(anonymous, now["Anonymous"] - before["Anonymous"])
    except OutOfRangeError:
        seconds = time.perf_counter() - began
    spool.close()
    facts = {"resident": resident, "anonymous": anonymous, "rows_per_s": rows / seconds}
    print(json.dumps(facts))


def _batches(size: int) -> Any:
    generator = np.random.default_rng(0)
    values = pa.array(generator.random(ROWS_AT_ONCE * DIM, np.float32))
    rows = pa.FixedSizeListArray.from_arrays(values, DIM)
    for first in range(0, size // (4 * DIM), ROWS_AT_ONCE):
        numbers = pa.array(np.arange(first, first + ROWS_AT_ONCE))
        yield pa.RecordBatch.from_arrays([rows, numbers], ["features", "row_number"])


def _memory() -> dict[str, int]:
    found = {}
    with open("/proc/self/smaps_rollup") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name in ("Rss", "Pss", "Anonymous"):
                found[name] = int(rest.split()[0]) << 10
    return found


if __name__ == "__main__":
    main()
