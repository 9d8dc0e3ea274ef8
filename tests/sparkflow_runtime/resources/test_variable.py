"""The state behind a variable's reference."""

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import FailedPreconditionError
from sparkflow_runtime.resources.variable import Variable


def test_reading_gives_the_array_itself():
    variable = Variable("w", dtypes.float32, (2,))
    variable.array = np.ones(2, np.float32)
    assert variable.read() is variable.array


def test_another_array_is_told_of_and_another_value_in_it_is_not():
    variable = Variable("w", dtypes.float32, (2,))
    seen = []
    variable.note_moved = lambda left: seen.append((left, variable.array))
    first = np.ones(2, np.float32)
    variable.array = first
    variable.array[...] = 2
    variable.array = first
    variable.array = None
    assert [(left is first, array is first) for left, array in seen] == [
        (False, True),
        (True, False),  # reported after it was set, with its contents
    ]


def test_reading_before_the_first_assignment_names_the_variable():
    with pytest.raises(FailedPreconditionError) as caught:
        Variable("layer/w", dtypes.float32, (2,)).read()
    assert str(caught.value).startswith("Attempting to use uninitialized value layer/w;")
