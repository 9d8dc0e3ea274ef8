"""The process of a function: `python -m sparkflow.spark.programs.function_child`.

Its Spark task writes to stdin what it hosts, as JSON, and the pickled function and its arguments,
each after its length, and reads from stdout what it
returned, pickled, or its traceback. The process goes on, and ends when stdin does.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from sparkflow.spark.cluster.child import ORPHANED, die_with_parent
from sparkflow.spark.programs.function_process import RAISED, RETURNED, SIZE
from sparkflow_runtime.security.defaults import give_process

if TYPE_CHECKING:
    from sparkflow_runtime.resources.datasets.dataset import Dataset


def main() -> None:
    """Runs the process; see the module's docstring."""
    die_with_parent()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the function prints is no answer
    stdin = sys.stdin.buffer
    hosted, work = json.loads(_part(stdin)), _part(stdin)
    if hosted["worker"] is not None:
        from sparkflow_runtime.resources.datasets import hosted_datasets

        hosted_datasets.host(_Hosted(hosted["worker"], hosted["rows"]).find)
    over = threading.Event()
    threading.Thread(target=_end_with, args=(stdin,), daemon=True).start()
    try:
        # From our own parent, through a pipe.
        function, args, credentials = pickle.loads(work)  # noqa: S301
        give_process(credentials)
        from pyspark import cloudpickle  # what the function defines cannot be imported elsewhere

        answer = RETURNED + cloudpickle.dumps(function(*args))  # type: ignore[no-untyped-call]
    except BaseException:
        answer = RAISED + traceback.format_exc().encode("utf-8", "replace")
    sys.stdout.flush()
    sys.stderr.flush()
    answers.write(answer)
    answers.close()
    # The function's server serves others until the task says that all have returned.
    over.wait()


def _part(stdin: IO[bytes]) -> bytes:
    head = stdin.read(SIZE.size)
    if len(head) < SIZE.size:
        os._exit(ORPHANED)
    return stdin.read(*SIZE.unpack(head))


class _Hosted:
    """The rows of the process, made with the first question: most functions ask none.

    `_lock` guards `_made`.
    """

    def __init__(self, worker: int, rows: Sequence[Mapping[str, Any]]) -> None:
        self._worker = worker
        self._rows = rows
        self._lock = threading.Lock()
        self._made: Any = None

    def find(self, source: str) -> Dataset:
        with self._lock:
            if self._made is None:
                # With pyarrow, which is a fifth of a process's start.
                from sparkflow.spark.data.hosted.hosted_rows import HostedRows

                self._made = HostedRows(self._worker)
                for message in self._rows:
                    self._made.take(message)
        found: Dataset = self._made.find(source)
        return found


def _end_with(stdin: object) -> None:
    stdin.read()  # type: ignore[attr-defined]  # the task closes it, or ends
    os._exit(ORPHANED)


if __name__ == "__main__":
    main()
