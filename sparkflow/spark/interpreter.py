"""The Python that Spark starts for our functions: the driver's own, where executors are here.

Spark starts `PYSPARK_PYTHON`, or else whatever `python3` is first on PATH. A program that runs in
an environment which was not activated gets another Python than its own by that, in which sparkflow
is not installed.
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
"""What a Python worker of ours imports first."""

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
    """Has the Python functions of a session run where sparkflow is, if its executors are here.

    Where all executors of a classic session are on this machine (`local`, `local-cluster`, a
    standalone cluster of this host alone) and nobody chose an interpreter, functions that are sent
    from now on run by the one that runs this program. What somebody chose stays. In both cases
    the interpreter is asked once per session whether it has what our functions import.

    Trainers and models call it; call it yourself before `spark.dataSource.register`.

    Args:
        session: The session; one of Spark Connect is left as it is.

    Raises:
        SparkTrainingError: The interpreter lacks packages, or does not start; the text says which
            one it is and how to choose another.
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
            "Spark's Python workers run by %s, as this program does (%s is not set)",
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
    """The Python that Spark would start where these are the environment variables."""
    return environ.get(VARIABLE) or _DEFAULT


def packages_missing_in(program: str, paths: Sequence[str] = ()) -> list[str] | None:
    """Which of `PACKAGES` an interpreter does not find; None where it does not start.

    Args:
        program: The interpreter, a path or a name to be found on PATH.
        paths: Where it looks beside its own folders and those of PYTHONPATH.
    """
    searched = [*paths, *filter(None, [os.environ.get("PYTHONPATH")])]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(searched)}
    # Spark starts it with `-m`, which looks into the current folder as `-c` does.
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
    """What is wrong with an interpreter and what to do; an empty text if nothing is.

    Args:
        program: The interpreter.
        missing: What `packages_missing_in` found.
    """
    if missing is not None and not missing:
        return ""
    lacks = "does not start" if missing is None else f"does not find {', '.join(missing)}"
    if _is_ours(program):
        # This process finds them, by what it has added to sys.path.
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
    """Whether a name or path is the interpreter of this process, or lies beside it.

    Links are not followed: environments are links to one interpreter, with packages of their own.
    """
    found = shutil.which(program)
    return found is not None and os.path.dirname(os.path.abspath(found)) == os.path.dirname(
        os.path.abspath(sys.executable)
    )


def _import_shipped_wheel(context: Any, archive: str) -> None:
    """Has Python workers import this package from a wheel that was given by `--py-files`.

    Spark sends such a file to the executors as any other, but puts only those called .zip, .egg and
    .jar on the path of their Python workers.

    Args:
        context: The session's.
        archive: Where this process has the package from.
    """
    from pyspark import SparkFiles

    name = os.path.basename(archive)
    if not name.endswith(".whl") or name in context._python_includes:
        return
    if os.path.isfile(os.path.join(SparkFiles.getRootDirectory(), name)):
        context._python_includes.append(name)


def _shipped_paths(context: Any) -> list[str]:
    """Where Spark puts what `--py-files` and `addPyFile` send along, and what its settings name."""
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
    # The driver is in the map, too, with its block manager's address.
    addresses = context._jsc.sc().getExecutorMemoryStatus().keySet()
    iterator, hosts = addresses.iterator(), set()
    while iterator.hasNext():
        hosts.add(str(iterator.next()).rpartition(":")[0])
    return len(hosts) == 1 and addresses.size() > 1
