import numpy as np
import pytest

from sparkflow_runtime.ops.fusion import NotFusableError, axes_of, fit, is_uniform, squeezed


def test_dimensions_of_size_one_are_no_part_of_the_space() -> None:
    assert squeezed((1, 3, 1, 2)) == (3, 2)
    assert squeezed((1, 1)) == squeezed(()) == ()


def test_one_number_repeated_without_memory_is_uniform() -> None:
    assert is_uniform(np.array(3.0))
    assert is_uniform(np.ones((1, 1)))
    assert is_uniform(np.broadcast_to(np.float32(2), (4, 5)))
    assert not is_uniform(np.ones((2,)))
    assert not is_uniform(np.broadcast_to(np.ones(3), (2, 3)))
    assert not is_uniform(np.ones((0,)))


def test_tensors_lie_along_the_last_dimensions_that_fit() -> None:
    assert fit((2, 3), (2, 3), [None, None], [True, True]) == (0, 1)
    assert fit((3, 3), (3,), [None], [True]) == (1,)
    assert fit((2, 3), (2, 1), [None, None], [True, False]) == (0, None)
    assert fit((3, 2, 3), (3, 2), [None, None], [True, True]) == (0, 1)
    assert fit((3, 3), (3, 1, 3), [0, None, None], [False, False, True]) == (0, None, 1)


@pytest.mark.parametrize(
    ("space", "shape", "dims", "needed"),
    [
        ((2, 3), (4,), [None], [True]),
        ((2, 3), (3, 2), [None, None], [True, True]),
        ((3,), (3, 3), [None, None], [True, True]),
        ((2, 3), (3, 2), [1, 0], [False, False]),
        ((3, 3), (3, 3), [1, None], [False, True]),
    ],
)
def test_what_does_not_fit_is_not_fused(
    space: tuple[int, ...], shape: tuple[int, ...], dims: list[int | None], needed: list[bool]
) -> None:
    with pytest.raises(NotFusableError):
        fit(space, shape, dims, needed)


def test_axes_are_positions_in_ascending_order() -> None:
    assert axes_of(np.array([-1, 0]), 3) == (0, 2)
    assert axes_of(np.array(1), 2) == (1,)
    assert axes_of(np.array([], np.int32), 2) == ()
    for wrong in (None, np.array([2]), np.array([-3]), np.array([0, -2])):
        with pytest.raises(NotFusableError):
            axes_of(wrong, 2)
