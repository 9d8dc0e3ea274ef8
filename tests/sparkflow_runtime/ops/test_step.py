import numpy as np

import sparkflow_runtime.ops.step  # noqa: F401 - registers StepNumber
from support.eager import EagerBuilder
from support.step import FakeStep


def test_step_number_is_that_of_the_running_step():
    g = EagerBuilder()
    g.step = FakeStep(step_id=7, iteration=2, number=12)
    number = g.StepNumber()
    assert number.value == 12
    assert number.value.dtype == np.int64
