"""GetSessionHandle, GetSessionTensor and DeleteSessionTensor; sessions use them in test_handles."""

import numpy as np
import pytest

import sparkflow_runtime.ops.state.session_handle  # noqa: F401 - registers the ops
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from support.eager import EagerBuilder


def test_a_kept_tensor_is_a_copy_until_it_is_deleted():
    g = EagerBuilder()
    array = np.float32([1, 2])
    handle = g.GetSessionHandle(array)
    array[0] = 9
    np.testing.assert_array_equal(
        g.GetSessionTensor(handle, dtype=dtypes.float32).value, np.float32([1, 2])
    )
    with pytest.raises(InvalidArgumentError, match="is of type float32, not int64"):
        g.GetSessionTensor(handle, dtype=dtypes.int64)
    g.DeleteSessionTensor(handle)
    with pytest.raises(InvalidArgumentError, match="is not in the session store"):
        g.GetSessionTensor(handle, dtype=dtypes.float32)
