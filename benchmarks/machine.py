"""The machine of a measurement: processor, libraries, the BLAS kernel in use, the load."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Some images set it to a kernel that is slower than the one OpenBLAS would choose.
_SLOWER_KERNEL = "OPENBLAS_CORETYPE"
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_BLAS_PROGRAM = """
import json, numpy, threadpoolctl
print(json.dumps([pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]))
"""


def clean_environment(threads: int | None = None) -> dict[str, str]:
    """Returns the environment for processes that a benchmark starts.

    Args:
        threads: The size of the thread pools of numerical libraries; None for their default.
    """
    environment = {key: value for key, value in os.environ.items() if key != _SLOWER_KERNEL}
    if threads is not None:
        environment.update(dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    return environment


def clean_own_environment() -> None:
    """Sets the same for this process and its children; to be called before numpy is imported."""
    os.environ.pop(_SLOWER_KERNEL, None)


def describe(packages: Sequence[str]) -> dict[str, str]:
    """Returns machine and software, by heading.

    Args:
        packages: Distributions whose versions matter; those not installed are left out.
    """
    return {
        "machine": f"{_processor()}, {len(os.sched_getaffinity(0))} cores, "
        f"{_memory_gib():.0f} GiB, {platform.system()} {platform.release()}",
        "software": ", ".join(
            [f"Python {platform.python_version()}", *_versions(packages), _blas()]
        ),
        "commit": _commit(),
    }


def load() -> str:
    """Returns the load averages over the last one and five minutes."""
    one, five, _ = os.getloadavg()
    return f"{one:.1f} (1 min), {five:.1f} (5 min)"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _versions(packages: Sequence[str]) -> list[str]:
    installed = {item.metadata["Name"].lower(): item.version for item in metadata.distributions()}
    return [f"{name} {installed[name]}" for name in packages if name in installed]


def _blas() -> str:
    """Returns numpy's BLAS and its kernel in a process with a clean environment."""
    answer = subprocess.run(
        [sys.executable, "-c", _BLAS_PROGRAM],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    pools: list[Mapping[str, str]] = json.loads(answer.stdout)
    if not pools:
        return "BLAS unknown"
    pool = pools[0]
    return f"{pool['internal_api']} {pool['version']} with kernel {pool.get('architecture', '?')}"


def _commit() -> str:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]  # found on PATH, as a developer's tool
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "sparkflow", "runtime", "benchmarks/*.py")
        return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
