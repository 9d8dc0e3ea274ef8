"""Reading reduction axes, which are cached for constants."""

import numpy as np
import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernels.filling import remembering
from sparkflow_runtime.ops.reduction.axes import checked_axes, read_axes

X = (2, 3, 4)


def constant(*axes):
    array = np.array(axes, np.int32)
    array.flags.writeable = False
    return array


def test_axes_count_from_the_end_where_negative():
    assert checked_axes([-1, 0], (2, 3, 4)) == (2, 0)
    assert checked_axes([], ()) == ()


@pytest.mark.parametrize("axes", [[3], [-4]])
def test_axes_that_do_not_exist_are_refused(axes):
    with pytest.raises(
        InvalidArgumentError, match=r"for input with 3 dimensions, shape \(2, \?, 4"
    ):
        checked_axes(axes, (2, None, 4))


def test_an_array_that_may_change_is_read_every_time():
    read, axes = remembering(read_axes), np.array([0], np.int32)
    assert read(X, axes) == (0,)
    axes[0] = 1
    assert read(X, axes) == (1,)


def test_a_constant_is_read_again_for_another_rank_or_another_constant():
    read, axes = remembering(read_axes), constant(-1)
    assert [read(X, axes), read((3, 4), axes), read(X, axes)] == [(2,), (1,), (2,)]
    assert read(X, constant(0)) == (0,)


def test_a_scalar_is_one_axis():
    assert read_axes(X, np.int32(1)) == (1,)


def test_an_error_is_not_remembered_as_an_answer():
    read, axes = remembering(read_axes), constant(2)
    assert read(X, axes) == (2,)
    with pytest.raises(InvalidArgumentError, match="Invalid reduction dimension 2"):
        read((3, 4), axes)
    assert read(X, axes) == (2,)
