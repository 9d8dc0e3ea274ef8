"""The process of a function: `python -m sparkflow.spark.programs.function_child`.

Its Spark task writes the pickled function and its arguments to stdin, and reads from stdout what it
returned, pickled, or its traceback. The process goes on, and ends when stdin does.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import traceback

from sparkflow.spark.cluster.child import ORPHANED, die_with_parent
from sparkflow.spark.programs.function_process import RAISED, RETURNED, SIZE


def main() -> None:
    """Runs the process; see the module's docstring."""
    die_with_parent()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the function prints is no answer
    stdin = sys.stdin.buffer
    head = stdin.read(SIZE.size)
    if len(head) < SIZE.size:
        os._exit(ORPHANED)
    work = stdin.read(*SIZE.unpack(head))
    over = threading.Event()
    threading.Thread(target=_end_with, args=(stdin,), daemon=True).start()
    try:
        # From our own parent, through a pipe.
        function, args = pickle.loads(work)  # noqa: S301
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


def _end_with(stdin: object) -> None:
    stdin.read()  # type: ignore[attr-defined]  # the task closes it, or ends
    os._exit(ORPHANED)


if __name__ == "__main__":
    main()
