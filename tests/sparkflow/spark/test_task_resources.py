"""What users may request, and what is requested from Spark instead."""

from typing import Any

import pytest
from pyspark.resource import ExecutorResourceRequests, ResourceProfileBuilder, TaskResourceRequests

from sparkflow.spark import SparkTrainer
from sparkflow.spark.task_resources import RoleResources, TaskResources


def test_amounts_by_name() -> None:
    found = TaskResources.of({"gpu": 1, "cpus": 2})
    assert found.to_json() == {"task": {"cpus": 2.0, "gpu": 1.0}, "executor": {}}
    assert str(found) == "2 cpus and 1 gpu"
    assert TaskResources.of(found.to_json()) == found


def test_nothing_is_nothing() -> None:
    assert not TaskResources.of({})
    assert TaskResources.of({}).to_json() == {}
    assert not RoleResources.of({}, {})
    assert RoleResources.of({}, {"cpus": 1})


def test_executors_of_their_own() -> None:
    memory = {"memory": "8g", "memoryOverhead": 512, "cores": 4}
    gpu = {"amount": 1, "discoveryScript": "/opt/gpus.sh", "vendor": "nvidia.com"}
    found = TaskResources.of({"task": {"cpus": 4}, "executor": {**memory, "gpu": gpu}})
    assert found.to_json()["executor"] == {
        "cores": {"amount": 4},
        "gpu": gpu,
        "memory": {"amount": 8192},
        "memoryOverhead": {"amount": 512},
    }
    assert TaskResources.of(found.to_json()) == found


def test_a_profile_of_pysparks() -> None:
    tasks = TaskResourceRequests().cpus(2).resource("gpu", 1)
    executors = ExecutorResourceRequests().cores(4).memory("2g").resource("gpu", 2, "/opt/gpus.sh")
    profile = ResourceProfileBuilder().require(tasks).require(executors).build
    found = TaskResources.of(profile)
    assert found.task == {"cpus": 2.0, "gpu": 1.0}
    assert found.executor == {
        "cores": {"amount": 4},
        "gpu": {"amount": 2, "discoveryScript": "/opt/gpus.sh"},
        "memory": {"amount": 2048},
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("gpu", "workerResources: a dictionary of amounts"),
        (7, "workerResources: a dictionary of amounts"),
        ({1: 2}, "workerResources: a dictionary of amounts"),
        ({"gpu": 0.5}, "gpu=0.5 makes tasks share a GPU"),
        ({"gpu": 1.5}, "gpu=1.5: use a whole number"),
        ({"cpus": 0.5}, "cpus=0.5: use a whole number"),
        ({"cpus": 0}, "cpus=0: use a positive number"),
        ({"cpus": float("nan")}, "use a positive number"),
        ({"cpus": float("inf")}, "use a positive number"),
        ({"cpus": True}, "cpus needs a number"),
        ({"cpus": None}, "cpus needs a number"),
        ({"cpus": "2"}, "cpus needs a number"),
        (
            {"task": {"cpus": 1}, "executors": {}},
            "only 'task' and 'executor' are known, got executors",
        ),
        ({"task": 3}, "a dictionary of amounts is needed for a task"),
        ({"executor": []}, "a dictionary of amounts is needed for an executor"),
        ({"executor": {"gpu": {"amount": 1, "script": "x"}}}, "not script"),
        ({"executor": {"gpu": {}}}, "gpu needs a number"),
        ({"executor": {"memory": "much"}}, "memory='much': write a size as 512m"),
        ({"executor": {"memory": "1b"}}, "memory='1b': write a size as 512m"),
        ({"executor": {"memory": "5k"}}, "memory=0.0: use a positive number"),
        ({"executor": {"cores": 1.5}}, "cores=1.5: use a whole number"),
    ],
)
def test_what_is_refused(value: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        SparkTrainer(model_fn=lambda features: None, workerResources=value)


def test_parameter_servers_take_no_gpu() -> None:
    with pytest.raises(
        ValueError, match="psResources: gpu=1: parameter servers compute on the CPU"
    ):
        SparkTrainer(model_fn=lambda features: None, psResources={"gpu": 1})
