"""The checks of `python -m sparkflow doctor`: software, processors, BLAS, compilers, GPUs."""

from __future__ import annotations

import enum
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import threadpoolctl

from sparkflow import other_package
from sparkflow.spark import interpreter
from sparkflow.version import SPARKFLOW_VERSION, VERSION
from sparkflow_runtime.codegen.machine import host, native, object_cache, private_folder, threads
from sparkflow_runtime.device.device import count_gpus
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.process import SLOWER_KERNEL

OLDEST_JAVA: Final = 17
_NEEDED: Final = ("numpy", "scipy", "protobuf", "grpcio", "threadpoolctl")
_SPARK: Final = ("pyspark", "pyspark-client", "databricks-connect")
"""Distributions with the module `pyspark`, those with a JVM first."""
_TIMEOUT_S: Final = 60.0
_ASK_BLAS: Final = (
    "import json, numpy, threadpoolctl; print(json.dumps(threadpoolctl.threadpool_info()))"
)


class Verdict(enum.Enum):
    """The severity of a finding; the value is printed before it."""

    FINE = "  "
    WARNING = "! "
    MISSING = "X "


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        subject: What was looked at.
        text: What was found, and what to do where that is not good.
        verdict: Whether it is good.
    """

    subject: str
    text: str
    verdict: Verdict = Verdict.FINE


def examine() -> list[Finding]:
    """All findings. Starts `java` and, where OpenBLAS was told what to use, another Python."""
    spark = pyspark()
    return [
        sparkflow_itself(Path(__file__).parent),
        Finding("Python", f"{platform.python_version()}, {sys.executable}"),
        *(package(name) for name in _NEEDED),
        package("pyarrow", "arrow"),
        processors(),
        *blas(os.environ),
        machine_code(),
        kernel_cache(os.environ),
        spark,
        *([java(os.environ), spark_python(os.environ)] if spark.subject == _SPARK[0] else []),
        gpus(),
    ]


def report(findings: Iterable[Finding]) -> str:
    """The findings as text, a line each; `!` marks warnings and `X` what is missing."""
    lines = list(findings)
    width = max(len(each.subject) for each in lines)
    return "\n".join(
        f"{each.verdict.value}{each.subject.ljust(width)}  {each.text}" for each in lines
    )


def package(name: str, extra: str = "") -> Finding:
    """Whether a distribution is installed, and its version.

    Args:
        name: Of the distribution.
        extra: The extra of ours that brings it, of what is not always needed.
    """
    try:
        return Finding(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        if extra:
            text = f"not installed: pip install 'sparkflow-ml[{extra}]' if it is needed"
            return Finding(name, text)
        text = f"not installed: pip install {name}"
        return Finding(name, text, Verdict.MISSING)


def sparkflow_itself(folder: Path) -> Finding:
    """Our version, and whether another distribution has files in our folder."""
    text = f"{SPARKFLOW_VERSION}, the interface of TensorFlow {VERSION}, {folder}"
    if not (folder / other_package.FILE).exists():
        return Finding("sparkflow", text)
    text += f". PyPI's `sparkflow`, another project, has files there too. {other_package.REPAIR}"
    return Finding("sparkflow", text, Verdict.WARNING)


def pyspark() -> Finding:
    """The pyspark that `sparkflow.spark` would import; its subject is the distribution's name."""
    for name in _SPARK:
        try:
            return Finding(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            continue
    if importlib.util.find_spec(_SPARK[0]) is not None:
        return Finding(_SPARK[0], "there, without metadata")  # that of SPARK_HOME
    text = "none: training from DataFrames needs pip install 'sparkflow-ml[spark]'"
    return Finding("Spark", text, Verdict.WARNING)


def processors() -> Finding:
    """How many processors there are, and how many threads kernels use."""
    if hasattr(os, "sched_getaffinity"):
        usable = len(os.sched_getaffinity(0))
    else:
        usable = os.cpu_count() or 1
    text = f"{usable} of {os.cpu_count()} for this process; kernels use {threads.count()} threads"
    asked = threads.limit_in(os.environ)
    if asked and asked < usable:
        return Finding("processors", f"{text} ({threads.VARIABLE}={asked})", Verdict.WARNING)
    return Finding("processors", text)


def blas(environ: Mapping[str, str]) -> list[Finding]:
    """The libraries that numpy and scipy multiply matrices with, and their kernels."""
    found = []
    forced = environ.get(SLOWER_KERNEL)
    better = _kernels_without_force(environ) if forced else {}
    for library in _blas_libraries(threadpoolctl.threadpool_info()):
        name, kernel = Path(library["filepath"]).name, library.get("architecture", "unknown")
        text = f"{library['internal_api']} {library['version']}, kernel {kernel}, {name}"
        free = better.get(name, kernel)
        if free == kernel:
            found.append(Finding("BLAS", text))
        else:
            text += f"; without {SLOWER_KERNEL}={forced} it would be {free}: unset the variable"
            found.append(Finding("BLAS", text, Verdict.WARNING))
    return found or [Finding("BLAS", "unknown to threadpoolctl", Verdict.WARNING)]


def machine_code() -> Finding:
    """Whether kernels are compiled, and for what."""
    if not native.available():
        text = (
            "llvmlite is missing, before 0.45, or does not work here: graphs run, but several "
            "times slower: pip install 'sparkflow-ml[compiled]'"
        )
        return Finding("machine code", text, Verdict.WARNING)
    here = host.host()
    version = metadata.version("llvmlite")
    text = f"llvmlite {version} for {here.cpu}, vectors of {here.vector_bytes} bytes"
    return Finding("machine code", text)


def kernel_cache(environ: Mapping[str, str]) -> Finding:
    """Where compiled kernels are kept."""
    subject = "kernel cache"
    try:
        folder = object_cache.default_folder(environ)
    except InvalidArgumentError as error:
        return Finding(subject, error.message, Verdict.MISSING)
    if folder is None:
        text = f"none: kernels are compiled in every process ({object_cache.VARIABLE} is empty)"
        return Finding(subject, text, Verdict.WARNING)
    try:
        os.close(private_folder.open_private(folder))
    except private_folder.NotPrivateError as error:
        text = f"{folder} is not used: {error.filename}: {error.strerror}"
        return Finding(subject, text, Verdict.WARNING)
    except OSError:
        pass  # it is made when it is needed, if it can be
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(nearest, os.W_OK):
        text = f"{folder} cannot be written: set {object_cache.VARIABLE} to another folder"
        return Finding(subject, text, Verdict.WARNING)
    return Finding(subject, str(folder))


def java(environ: Mapping[str, str]) -> Finding:
    """The Java that pyspark would start."""
    home = environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    program = shutil.which(command, path=environ.get("PATH"))
    if program is None:
        text = f"{command} not found: Spark needs Java {OLDEST_JAVA} or newer"
        return Finding("Java", text, Verdict.MISSING)
    done = subprocess.run(
        [program, "-version"], check=False, capture_output=True, text=True, timeout=_TIMEOUT_S
    )
    shown = re.search(r'version "([^"]+)"', done.stderr)
    version = shown[1] if shown else "unknown"
    if java_release(version) < OLDEST_JAVA:
        text = f"{version} at {program}: Spark needs Java {OLDEST_JAVA} or newer"
        return Finding("Java", text, Verdict.MISSING)
    return Finding("Java", f"{version} at {program}")


def java_release(version: str) -> int:
    """17 for `17.0.9`, 8 for `1.8.0_392`, 0 for what is no version."""
    numbers = re.match(r"(?:1\.)?(\d+)", version)
    return int(numbers[1]) if numbers else 0


def spark_python(environ: Mapping[str, str]) -> Finding:
    """The Python that Spark would start for Python functions, and whether sparkflow is there."""
    subject = "Spark's Python"
    program = interpreter.interpreter_of(environ)
    problem = interpreter.describe_missing(program, interpreter.packages_missing_in(program))
    if not problem:
        return Finding(subject, program)
    if environ.get(interpreter.VARIABLE):
        return Finding(subject, problem, Verdict.MISSING)
    text = (
        f"{problem}. Sessions whose executors are on this machine run ours by {sys.executable} "
        "without that"
    )
    return Finding(subject, text, Verdict.WARNING)


def gpus() -> Finding:
    """How many GPUs can be used."""
    count = count_gpus()
    if not count:
        return Finding("GPUs", "none (they need cupy: pip install 'sparkflow-ml[gpu12]')")
    return Finding("GPUs", str(count))


def _blas_libraries(pools: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [pool for pool in pools if pool["user_api"] == "blas"]


def _kernels_without_force(environ: Mapping[str, str]) -> dict[str, str]:
    """By library, the kernel that it chooses itself; empty where that cannot be told."""
    free = {name: value for name, value in environ.items() if name != SLOWER_KERNEL}
    done = subprocess.run(
        [sys.executable, "-c", _ASK_BLAS],
        env=free,
        check=False,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    if done.returncode:
        return {}
    pools = _blas_libraries(json.loads(done.stdout))
    return {
        Path(pool["filepath"]).name: pool["architecture"]
        for pool in pools
        if "architecture" in pool
    }
