"""How the JVMs of tests run: they live for seconds or minutes.

What the second compiler (C2) makes pays in hours, and takes half of their processor time here: a
session on `local[4]` with its first job takes 6.9 s instead of 13.1 s, and jobs after it 45 % of
what they took (2026-11-27).
"""

from __future__ import annotations

import os
from typing import Final

OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def for_drivers() -> None:
    """Has every driver's JVM that this process and its children start run so.

    Executors have `spark.executor.extraJavaOptions`.
    """
    os.environ.setdefault("SPARK_SUBMIT_OPTS", OPTIONS)
