"""The Python that Spark starts for our functions: the driver's own if the executors are local.

Spark starts `PYSPARK_PYTHON`, or else the first `python3` on PATH. If a program's environment is
not activated, that is a different Python, in which sparkflow is not installed.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import sparkflow
from sparkflow.spark.errors import SparkTrainingError

VARIABLE: Final = "PYSPARK_PYTHON"
"""The environment variable that names the Python of Spark's Python workers."""

PACKAGES: Final = ("sparkflow", "sparkflow_runtime", "numpy", "pyarrow", "grpc")
"""The packages that our Python workers import first."""

_DEFAULT: Final = "python3"  # Spark's
_SETTING: Final = "spark.pyspark.python"
_TIMEOUT_S: Final = 60.0
_ASK: Final = (
    "import importlib.util as u, json, sys; "
    "print(json.dumps([n for n in sys.argv[1:] if u.find_spec(n) is None]))"
)
_log = logging.getLogger(__name__)
_CHECKED: Final = "_sparkflow_checked_python"


def use_this_python(session: Any) -> None:
    """Makes a session's Python functions run under this interpreter if its executors are local.

    If all executors of a classic session are on this machine (`local`, `local-cluster`, a
    standalone cluster of this host alone) and no interpreter was configured, functions sent from
    now on run under the interpreter of this program. A configured interpreter is kept. In both
    cases, once per session, the interpreter is checked for the packages that our functions import.

    Trainers and models call this; call it yourself before `spark.dataSource.register`.

    Args:
        session: The session; a Spark Connect session is left unchanged.

    Raises:
        SparkTrainingError: The interpreter lacks packages or does not start; the message names it
            and says how to choose another.
    """
    if not hasattr(session, "_jsparkSession"):
        return
    context = session.sparkContext
    _import_shipped_wheel(context, os.path.dirname(sparkflow.__path__[0]))
    if not _executors_are_here(context):
        return
    is_chosen = bool(os.environ.get(VARIABLE) or context.getConf().get(_SETTING))
    if not is_chosen and sys.executable and not _is_ours(context.pythonExec):
        _log.info(
            "Spark's Python workers run under %s, like this program (%s is not set)",
            sys.executable,
            VARIABLE,
        )
        context.pythonExec = sys.executable
    if getattr(context, _CHECKED, None) == context.pythonExec:
        return
    missing = packages_missing_in(context.pythonExec, _shipped_paths(context))
    problem = describe_missing(context.pythonExec, missing)
    if problem:
        raise SparkTrainingError(problem)
    setattr(context, _CHECKED, context.pythonExec)


def interpreter_of(environ: Mapping[str, str]) -> str:
    """Returns the Python that Spark would start with these environment variables."""
    return environ.get(VARIABLE) or _DEFAULT


def packages_missing_in(program: str, paths: Sequence[str] = ()) -> list[str] | None:
    """Returns which of `PACKAGES` an interpreter lacks; None if it does not start.

    Args:
        program: The interpreter: a path, or a name to look up on PATH.
        paths: Folders that it searches in addition to its own and those of PYTHONPATH.
    """
    searched = [*paths, *filter(None, [os.environ.get("PYTHONPATH")])]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(searched)}
    # Spark starts it with `-m`, which searches the current folder, as `-c` does.
    command = [program, "-c", _ASK, *PACKAGES]
    try:
        done = subprocess.run(
            command, env=environ, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
        found: list[str] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    return found


def describe_missing(program: str, missing: list[str] | None) -> str:
    """Returns what is wrong with an interpreter and what to do; an empty string if nothing is.

    Args:
        program: The interpreter.
        missing: The result of `packages_missing_in`.
    """
    if missing is not None and not missing:
        return ""
    lacks = "does not start" if missing is None else f"does not find {', '.join(missing)}"
    if _is_ours(program):
        # This process finds them through its additions to sys.path.
        advice = (
            "Install sparkflow into it, or name the folder in PYTHONPATH before the Spark session "
            "is started, instead of changing sys.path"
        )
    else:
        advice = (
            f"This program runs by {sys.executable}: set {VARIABLE} to that before the Spark "
            f"session is started, or install sparkflow there"
        )
    return f"Spark's Python workers would run by {program}, which {lacks}. {advice}"


def _is_ours(program: str) -> bool:
    """Returns whether a name or path is this process's interpreter, or in the same folder.

    Links are not followed: environments link to one interpreter but have their own packages.
    """
    found = shutil.which(program)
    return found is not None and os.path.dirname(os.path.abspath(found)) == os.path.dirname(
        os.path.abspath(sys.executable)
    )


def _import_shipped_wheel(context: Any, archive: str) -> None:
    """Makes Python workers import this package from a wheel passed with `--py-files`.

    Spark sends a wheel to the executors like any other file, but adds only .zip, .egg and .jar
    files to the path of their Python workers.

    Args:
        context: The session's Spark context.
        archive: The file that this process imported the package from.
    """
    from pyspark import SparkFiles

    name = os.path.basename(archive)
    if not name.endswith(".whl") or name in context._python_includes:
        return
    if os.path.isfile(os.path.join(SparkFiles.getRootDirectory(), name)):
        context._python_includes.append(name)


def _shipped_paths(context: Any) -> list[str]:
    """The folders of files sent with `--py-files` and `addPyFile`, or named in Spark's settings."""
    from pyspark import SparkFiles  # `doctor` asks for the rest of this module without pyspark

    shipped = [
        os.path.join(SparkFiles.getRootDirectory(), each) for each in context._python_includes
    ]
    named = context.getConf().get("spark.executorEnv.PYTHONPATH")
    return [*shipped, *filter(None, [named])]


def _executors_are_here(context: Any) -> bool:
    master = str(context.master)
    if master.startswith("local"):
        return True
    if not master.startswith("spark://"):
        return False  # containers of YARN and Kubernetes have files of their own
    # The map also contains the driver, under its block manager's address.
    addresses = context._jsc.sc().getExecutorMemoryStatus().keySet()
    iterator, hosts = addresses.iterator(), set()
    while iterator.hasNext():
        hosts.add(str(iterator.next()).rpartition(":")[0])
    return len(hosts) == 1 and addresses.size() > 1
