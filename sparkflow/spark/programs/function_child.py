"""The process of a function: `python -m sparkflow.spark.programs.function_child`.

Its Spark task writes the hosted rows as JSON, and the pickled function with its arguments, to
stdin, each preceded by its length, and reads the pickled result or the traceback from stdout. The
process continues until stdin is closed.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import sys
import threading
import traceback
from typing import IO

from sparkflow.spark.cluster.child import ORPHANED, end_with_the_worker
from sparkflow.spark.data.hosted.on_demand import HostedOnDemand
from sparkflow.spark.programs.function_process import RAISED, RETURNED, SIZE
from sparkflow_runtime.security.defaults import give_process


def main() -> None:
    """Runs the process; see the module's docstring."""
    end_with_the_worker()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the function prints is no answer
    stdin = sys.stdin.buffer
    hosted, work = json.loads(_part(stdin)), _part(stdin)
    if hosted["worker"] is not None:
        from sparkflow_runtime.resources.datasets import hosted_datasets

        hosted_datasets.host(HostedOnDemand(hosted["worker"], hosted["rows"]).find)
    over = threading.Event()
    threading.Thread(target=_end_with, args=(stdin,), daemon=True).start()
    try:
        # From our own parent, through a pipe.
        function, args, credentials = pickle.loads(work)  # noqa: S301
        cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
        give_process(credentials, itertools.chain(*cluster.values()))
        from pyspark import cloudpickle  # what the function defines cannot be imported elsewhere

        answer = RETURNED + cloudpickle.dumps(function(*args))  # type: ignore[no-untyped-call]
    except BaseException as error:
        name = type(error).__name__
        answer = RAISED + f"{name}\n{traceback.format_exc()}".encode("utf-8", "replace")
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


def _end_with(stdin: object) -> None:
    stdin.read()  # type: ignore[attr-defined]  # the task closes it, or ends
    os._exit(ORPHANED)


if __name__ == "__main__":
    main()
