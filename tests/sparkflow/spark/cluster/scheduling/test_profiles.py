"""The total resources of tasks with their own profiles; with Spark, see `test_resources`."""

from typing import Any

import pytest

from sparkflow.spark.cluster.scheduling.profiles import NONE, Profiles, why_not
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.task_resources import RoleResources

PROFILE: Any = object()


def _profiles(worker: Any, ps: Any) -> Profiles:
    return Profiles(RoleResources.of(worker, ps), worker=PROFILE)


def test_servers_are_apart_where_there_are_profiles() -> None:
    layout = ClusterLayout(1, 2)
    assert _profiles({"gpu": 1}, {}).arranged(layout) == ClusterLayout(1, 2, servers_apart=True)
    assert NONE.arranged(layout) == layout
    hosted = ClusterLayout.of(0, 2, "sync")
    assert _profiles({"gpu": 1}, {}).arranged(hosted) == hosted


def test_cores_of_all_tasks() -> None:
    layout = ClusterLayout(2, 3, num_stages=2)
    assert _profiles({"cpus": 4}, {}).cpus(layout, {}) == 6 * 4 + 2
    # A role requested without cores takes one; one that is not requested takes what settings
    # specify.
    assert _profiles({"gpu": 1}, {}).cpus(layout, {"spark.task.cpus": "3"}) == 6 + 2 * 3
    assert _profiles({"gpu": 1}, {"cpus": 2}).cpus(layout, {}) == 6 + 2 * 2


def test_devices_are_more_than_cores() -> None:
    assert _profiles({"gpu": 1}, {}).takes_devices
    assert not _profiles({"cpus": 2}, {}).takes_devices


@pytest.mark.parametrize(
    ("master", "has_profiles"),
    [
        ("local", False),
        ("local[4]", False),
        ("local-cluster[2,2,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("yarn", True),
        ("k8s://https://x", True),
        ("", True),
        (None, True),
    ],
)
def test_threads_of_one_process_have_none(master: str | None, has_profiles: bool) -> None:
    assert (why_not(master) == "") == has_profiles
