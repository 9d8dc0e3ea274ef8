"""Which parameters make it a different training."""

from sparkflow.spark.params import table
from sparkflow.spark.params.identity import PLACEMENT, deciding, placement

ROWS = [row for group in table.TRAINER for row in group]
GIVEN = {row.name: row.default for row in ROWS}


def test_what_decides_is_what_the_rows_say_but_for_placement() -> None:
    found = deciding({**GIVEN, "earlyStoppingPatience": 3, "theEstimatorsOwn": 1}, ROWS)
    said = {row.name for row in ROWS if row.decides} - set(PLACEMENT)
    watched = {"earlyStoppingMetric", "earlyStoppingMode"}
    assert set(found) == said | watched | {"theEstimatorsOwn"}
    assert {"seed", "batchSize"} <= set(found)
    assert not {"numWorkers", "numPs", "checkpointDir", "epochs"} & set(found)


def test_what_is_watched_counts_only_where_it_ends_training() -> None:
    found = deciding({**GIVEN, "earlyStoppingPatience": 0}, ROWS)
    assert not {"earlyStoppingMetric", "earlyStoppingMode"} & set(found)


def test_values_are_those_that_a_checkpoint_gives_back() -> None:
    given = {**GIVEN, "b": (1, 2), "a": {"y": 1, "x": None}, "c": object}
    found = deciding(given, ROWS)
    assert (found["b"], found["a"]) == ([1, 2], {"x": None, "y": 1})
    assert list(found["a"]) == ["x", "y"]
    assert list(found) == sorted(found)
    assert found["c"] == str(object)


def test_placement() -> None:
    assert placement({"numWorkers": 3, "numPs": 2, "seed": 1}) == {"numPs": 2, "numWorkers": 3}
