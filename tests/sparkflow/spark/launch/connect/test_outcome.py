import json

import numpy as np
import pytest

from sparkflow.spark.errors import LostTaskError, SparkTrainingError
from sparkflow.spark.launch.connect.outcome import (
    Outcome,
    error_to_parts,
    from_parts,
    from_rows,
    to_parts,
    to_rows,
)
from sparkflow_runtime.errors import InvalidArgumentError


def test_values_of_all_shapes_and_sizes_come_back() -> None:
    values = {
        "scalar": np.float32(2.5),
        "step": np.array(7, np.int64),
        "large": np.arange(3 << 20, dtype=np.float32).reshape(3, -1),
        "empty": np.zeros((0, 4), np.float64),
    }
    rows = list(to_rows(to_parts(Outcome(values, {"loss": [1.0]}))))
    assert max(len(content) for _, _, content in rows) <= 4 << 20
    assert len(rows) > 3
    outcome = from_parts(from_rows(reversed(rows)))
    assert outcome.history == {"loss": [1.0]}
    assert set(outcome.values) == set(values)
    for name, value in values.items():
        np.testing.assert_array_equal(outcome.values[name], value)
        assert outcome.values[name].dtype == value.dtype
        assert outcome.values[name].shape == value.shape


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidArgumentError(message="label 7 in worker task 1"), InvalidArgumentError),
        (LostTaskError("worker task 1 was killed"), LostTaskError),
        (ValueError("checkpointDir"), ValueError),
        (SparkTrainingError("no"), SparkTrainingError),
    ],
)
def test_errors_come_back_as_what_they_were(error: Exception, kind: type[Exception]) -> None:
    message = error.message if isinstance(error, InvalidArgumentError) else str(error)
    with pytest.raises(kind) as caught:
        from_parts(from_rows(to_rows(error_to_parts(error, restartable=False))))
    assert type(caught.value) is kind
    assert message in str(caught.value)


def test_unknown_errors_are_named_and_nothing_is_looked_up_elsewhere() -> None:
    class Odd(Exception):
        pass

    with pytest.raises(SparkTrainingError, match="Odd: what"):
        from_parts(error_to_parts(Odd("what"), restartable=False))
    described = {"type": "system", "message": "x", "notes": ["Restarted 1 times"], "restartable": 1}
    with pytest.raises(LostTaskError, match="x") as caught:
        from_parts({"error": json.dumps(described).encode()})
    assert getattr(caught.value, "__notes__", ["Restarted 1 times"]) == ["Restarted 1 times"]


def test_no_outcome_is_an_error() -> None:
    with pytest.raises(SparkTrainingError, match="without reporting a result"):
        from_parts({})
