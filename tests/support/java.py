"""Options for the JVMs of tests, which live for seconds or minutes.

The second compiler (C2) pays off only after hours, and takes half of their processor time here: a
session on `local[4]` with its first job takes 6.9 s instead of 13.1 s without it, and later jobs
45 % of their time (2026-11-27). Half of the rest is loading Spark's classes, which an archive of
them saves, see `class_archive`: a session on `local[2]` with four jobs takes 3.2 s instead of
5.9 s, and 3.6 s of processor time instead of 6.5 s (2026-11-28).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Final

_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
# The archive of a different Java or Spark is not used, without a message.
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"

_NONE: Final = "none"


def spark_home() -> Path:
    """Returns a folder for SPARK_HOME: the installed Spark, without its zipped Python packages.

    Spark puts them first on the path of its Python workers, and Python compiles the modules of a
    zip file in each process: 0.7 s of processor time (2026-11-30). Without them, workers import the
    package that is installed.
    """
    folder = Path(sys.prefix) / f"spark-{_spark()}"
    if folder.is_dir() or _spark() == _NONE:
        return folder
    part = Path(tempfile.mkdtemp(dir=folder.parent))
    for name in ("bin", "data", "jars", "sbin"):
        (part / name).symlink_to(str(files("pyspark") / name))
    with contextlib.suppress(OSError):  # another process was faster
        part.rename(folder)
    shutil.rmtree(part, ignore_errors=True)
    return folder


def archive_path() -> Path:
    """Returns the path of the archive for this environment's Spark and the current Java."""
    home = os.environ.get("JAVA_HOME")
    program = Path(home, "bin/java") if home else Path(shutil.which("java") or "no-java/bin/java")
    java = program.resolve().parents[1].name
    return spark_home().with_name(f"{spark_home().name}-home-{java}.jsa")


def _spark() -> str:
    """Returns its version; `_NONE` without its JVM part, since other tests run there, too."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return _NONE


def making_archive(path: Path) -> str:
    """Returns options that make a JVM write an archive of its loaded classes when it ends."""
    return f"{_QUICK} {_QUIET} {_option('-XX:ArchiveClassesAtExit=', path)}"


def options() -> str:
    """Returns the options of any JVM that a test starts, including executors."""
    found, path, temporary = _QUICK, archive_path(), temporary_directory()
    if path.is_file():
        found += f" {_QUIET} {_option('-XX:SharedArchiveFile=', path)}"
    if temporary.is_dir():
        found += f" {_option('-Djava.io.tmpdir=', temporary)}"
    return found


def temporary_directory() -> Path:
    """Returns the directory for JVMs' temporary files and libraries, if the test run has one."""
    return Path(tempfile.gettempdir(), "java")


def _option(name: str, path: Path) -> str:
    return shlex.quote(f"{name}{path}")  # Spark splits options like a shell


_WARM: Final = "-Dspark.python.daemon.module=tests.support.warm_daemon"


def for_drivers() -> None:
    """Sets these options, `warm_daemon` and `spark_home` for this process and its children.

    For executors, use `spark.executor.extraJavaOptions`. A test of Spark's own daemon, or of
    modules that workers get elsewhere, starts its driver with only `options()`.
    """
    os.environ.setdefault("SPARK_HOME", str(spark_home()))
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{options()} {_WARM}")
