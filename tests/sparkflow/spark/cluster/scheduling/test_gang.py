"""Which sessions start their tasks in a barrier stage, and what dynamic allocation can provide."""

import pytest

from sparkflow.spark.cluster.scheduling.gang import describe_growth, gang_start, most_slots
from sparkflow.spark.cluster_layout import ClusterLayout

DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}
FORCED = {"spark.sparkflow.barrier": "false"}


@pytest.mark.parametrize(
    ("settings", "master", "barrier", "grows"),
    [
        ({}, "yarn", True, False),
        ({}, "local[4]", True, False),
        (DYNAMIC, "yarn", False, True),
        ({"spark.dynamicAllocation.enabled": " TRUE "}, "k8s://x", False, True),
        (DYNAMIC, "", False, True),  # Spark Connect
        (DYNAMIC, "local-cluster[3,1,1024]", False, True),
        (DYNAMIC, "local[4]", True, False),  # where Spark ignores it
        (FORCED, "local[4]", False, False),
        (FORCED, "spark://x:7077", False, True),
        ({"spark.sparkflow.barrier": "True"}, "yarn", True, False),
        ({**DYNAMIC, "spark.sparkflow.barrier": "auto"}, "yarn", False, True),
    ],
)
def test_the_choice(settings: dict[str, str], master: str, barrier: bool, grows: bool) -> None:
    found = gang_start(settings, master)
    assert (found.barrier, found.grows) == (barrier, grows)
    assert str(found).startswith("a barrier stage: " if barrier else "an ordinary stage")
    assert found.reason


@pytest.mark.parametrize("value", ["", "yes", "1"])
def test_a_setting_that_is_none(value: str) -> None:
    with pytest.raises(ValueError, match=r"spark.sparkflow.barrier=.*: it is auto, true or false"):
        gang_start({"spark.sparkflow.barrier": value})


def test_what_dynamic_allocation_gives_at_most() -> None:
    most = {**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "3", "spark.executor.cores": "4"}
    assert most_slots(most) == 12
    assert most_slots({**most, "spark.task.cpus": "3"}) == 3
    assert most_slots(DYNAMIC) is None
    assert most_slots({**most, "spark.dynamicAllocation.enabled": "false"}) is None
    assert describe_growth(most, ClusterLayout(4, 8)) == ""
    text = describe_growth(most, ClusterLayout(5, 8))
    assert "numWorkers=8 and numPs=5 need 13 task slots at once" in text
    assert "at most 12 (spark.dynamicAllocation.maxExecutors=3, 4 per executor)" in text
    assert "Set it to 4 or more" in text
