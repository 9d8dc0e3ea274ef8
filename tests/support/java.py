"""How the JVMs of tests run: they live for seconds or minutes.

What the second compiler (C2) makes pays in hours, and takes half of their processor time here: a
session on `local[4]` with its first job takes 6.9 s instead of 13.1 s, and jobs after it 45 % of
what they took (2026-11-27). Half of the rest is loading Spark's classes, which an archive of them
saves, see `class_archive`: a session on `local[2]` with four jobs takes 3.2 s instead of 5.9 s, and
3.6 s of processor time instead of 6.5 s (2026-11-28).
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
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
    return f"{_QUICK} {_QUIET} {_option('-XX:ArchiveClassesAtExit=', path)}"


def options() -> str:
    """Options of any JVM that a test starts, executors' among them."""
    found, path, temporary = _QUICK, archive_path(), temporary_directory()
    if path.is_file():
        found += f" {_QUIET} {_option('-XX:SharedArchiveFile=', path)}"
    if temporary.is_dir():
        found += f" {_option('-Djava.io.tmpdir=', temporary)}"
    return found


def temporary_directory() -> Path:
    """Where JVMs put their temporary files, libraries among them, if a test run has made it."""
    return Path(tempfile.gettempdir(), "java")


def _option(name: str, path: Path) -> str:
    return shlex.quote(f"{name}{path}")  # Spark divides options as a shell does


_WARM: Final = "-Dspark.python.daemon.module=tests.support.warm_daemon"


def for_drivers() -> None:
    """Has every driver's JVM that this process and its children start run so, with `warm_daemon`.

    Executors have `spark.executor.extraJavaOptions`. A test of what Spark's own daemon does, or of
    modules that workers get from elsewhere, starts its driver with `options()` alone.
    """
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{options()} {_WARM}")
