"""The compatibility check of the registered tasks and the driver. No I/O but one log line.

A difference that cannot work is an error, one that may work is a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from sparkflow.spark.cluster.scheduling.gpus import describe_clashes, describe_unseen
from sparkflow.spark.cluster.task_lifecycle import versions
from sparkflow.spark.cluster_layout import TaskName
from sparkflow_runtime.protos.rendezvous_pb2 import TaskInfo

_log = logging.getLogger(__name__)

_PARTS_THAT_COUNT = {"python": 2, "sparkflow": 3, "numpy": 1, "pyarrow": 1, "protobuf": 1}
"""The number of leading version parts that must be equal; other packages may differ."""


def check_compatibility(infos: Sequence[TaskInfo]) -> str:
    """Returns why the tasks are incompatible; empty if they are not. Logs doubtful differences."""
    here = versions()
    problem = describe_versions(infos, here, fatal=True) or describe_clashes(infos)
    if not problem:
        for doubt in (describe_versions(infos, here, fatal=False), describe_unseen(infos)):
            if doubt:
                _log.warning("%s", doubt)
    return problem


def describe_versions(infos: Sequence[TaskInfo], here: Mapping[str, str], fatal: bool) -> str:
    """Returns which versions differ from the driver's, and what to do; empty if none.

    Args:
        infos: The tasks.
        here: Package to version on the driver.
        fatal: Whether to return differences that cannot work, or all others.
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    for info in infos:
        for package, version in info.versions.items():
            wanted = here.get(package, version)
            if version == wanted:
                continue
            parts = _PARTS_THAT_COUNT.get(package, 0)
            differs = version.split(".")[:parts] != wanted.split(".")[:parts]
            if differs == fatal:
                where = f"{TaskName(info.job, info.task)} on {info.host}"
                found.setdefault((package, version, wanted), []).append(where)
    if not found:
        return ""
    lines = [
        f"{package} is {version} for {', '.join(sorted(where))}, and {wanted} on the driver"
        for (package, version, wanted), where in sorted(found.items())
    ]
    advice = (
        "Install the driver's versions there, ship its environment (--archives and "
        "spark.pyspark.python), or set PYSPARK_PYTHON to the same Python everywhere"
    )
    return f"Executors and driver differ: {'; '.join(lines)}. {advice}"
