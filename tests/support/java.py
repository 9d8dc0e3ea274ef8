"""How the JVMs of tests run: they live for seconds or minutes.

What the second compiler (C2) makes pays in hours, and takes half of their processor time here: a
session on `local[4]` with its first job takes 6.9 s instead of 13.1 s, and jobs after it 45 % of
what they took (2026-11-27). Half of the rest is loading Spark's classes, which an archive of them
saves, see `class_archive`: a session on `local[2]` with four jobs takes 3.2 s instead of 5.9 s, and
3.6 s of processor time instead of 6.5 s (2026-11-28).
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# One of another Java or Spark is not used, and nobody needs to know.
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def archive_path() -> Path:
    """Where the archive of this environment's Spark for the Java at hand is, or would be."""
    home = os.environ.get("JAVA_HOME")
    program = Path(home, "bin/java") if home else Path(shutil.which("java") or "no-java/bin/java")
    java = program.resolve().parents[1].name
    return Path(sys.prefix) / f"spark-{_spark()}-{java}.jsa"


def _spark() -> str:
    """Its version, "none" where its JVM's half is not installed: other tests run there, too."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return "none"


def making_archive(path: Path) -> str:
    """Options of a JVM that writes an archive of the classes that it has loaded when it ends."""
    return f"{_QUICK} {_QUIET} -XX:ArchiveClassesAtExit={path}"


def _options() -> str:
    path = archive_path()
    return f"{_QUICK} {_QUIET} -XX:SharedArchiveFile={path}" if path.is_file() else _QUICK


OPTIONS: Final = _options()


_WARM: Final = "-Dspark.python.daemon.module=tests.support.warm_daemon"


def for_drivers() -> None:
    """Has every driver's JVM that this process and its children start run so, with `warm_daemon`.

    Executors have `spark.executor.extraJavaOptions`. A test of what Spark's own daemon does, or of
    modules that workers get from elsewhere, starts its driver with `OPTIONS` alone.
    """
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{OPTIONS} {_WARM}")
