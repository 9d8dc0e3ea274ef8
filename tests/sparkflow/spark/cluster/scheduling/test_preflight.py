"""Which settings are rejected, with which numbers."""

import pytest

from sparkflow.spark.cluster.scheduling.preflight import (
    describe_memory,
    describe_settings,
    describe_slots,
)
from sparkflow.spark.cluster_layout import ClusterLayout

LAYOUT = ClusterLayout(1, 4)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, ""),
        ({"spark.dynamicAllocation.enabled": "false"}, ""),
        (
            {"spark.dynamicAllocation.enabled": "true", "spark.sparkflow.barrier": "true"},
            "spark.sparkflow.barrier=true asks for a barrier stage, which Spark refuses with",
        ),
        ({"spark.sparkflow.barrier": "no"}, "it is auto, true or false"),
        ({"spark.dynamicAllocation.enabled": "true", "spark.executor.cores": "2"}, ""),
        (
            {
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.maxExecutors": "2",
                "spark.executor.cores": "2",
            },
            "dynamic allocation gives at most 4",
        ),
        (
            {"spark.task.cpus": "4", "spark.executor.cores": "2"},
            "spark.task.cpus=4 cores and an executor has spark.executor.cores=2",
        ),
        (
            {"spark.task.resource.gpu.amount": "0.25", "spark.executor.resource.gpu.amount": "1"},
            "gpu.amount=0.25 makes 4 tasks share a GPU",
        ),
        (
            {"spark.task.resource.gpu.amount": "2", "spark.executor.resource.gpu.amount": "1"},
            "gpu.amount=2 GPUs and an executor has spark.executor.resource.gpu.amount=1",
        ),
        (
            {"spark.executor.pyspark.memory": "2g", "spark.executor.cores": "4"},
            "limits each of 4 tasks of an executor to 512 MiB of address space",
        ),
        ({"spark.executor.pyspark.memory": "8g", "spark.executor.cores": "4"}, ""),
    ],
)
def test_settings(settings: dict[str, str], text: str) -> None:
    found = describe_settings(settings, LAYOUT)
    assert text in found
    assert bool(text) == bool(found)


def test_too_few_slots() -> None:
    text = describe_slots(3, LAYOUT, {"spark.task.cpus": "2"})
    assert "need 5 task slots at once, and Spark has 3 (each of spark.task.cpus=2 cores)" in text
    assert "more cores (--num-executors" in text
    text = describe_slots(3, LAYOUT, {"spark.dynamicAllocation.enabled": "true"})
    assert "spark.dynamicAllocation.maxExecutors" in text


@pytest.mark.parametrize(
    ("master", "settings", "variable_mib", "text"),
    [
        ("local[4]", {}, 10_000, ""),
        ("yarn", {"spark.executor.memory": "4g"}, 10, ""),
        (
            "yarn",
            {"spark.executor.memory": "4g", "spark.executor.cores": "4"},
            100,
            "up to 4 tasks, whose processes need about 2400 MiB beside the JVM, and "
            "spark.executor.memoryOverhead leaves 409 MiB",
        ),
        ("k8s://x", {"spark.executor.memoryOverhead": "4g"}, 100, ""),
    ],
)
def test_memory(master: str, settings: dict[str, str], variable_mib: int, text: str) -> None:
    found = describe_memory(settings, master, LAYOUT, variable_mib << 20)
    assert text in found
    assert bool(text) == bool(found)
