import numpy as np
import pytest
from hypothesis import given, strategies as st

from sparkflow_runtime import shapes
from sparkflow_runtime.errors import InvalidArgumentError

DIMS = st.lists(st.sampled_from([1, 1, 2, 3]), max_size=4).map(tuple)


@given(DIMS, DIMS)
def test_broadcast_agrees_with_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(InvalidArgumentError, match="Dimensions must be equal, but are"):
            shapes.broadcast(a, b)
    else:
        assert shapes.broadcast(a, b) == expected


@given(DIMS, DIMS, st.data())
def test_broadcast_of_partly_known_shapes_never_contradicts(
    a: tuple[int, ...], b: tuple[int, ...], data: st.DataObject
) -> None:
    def forget(shape: tuple[int, ...]) -> tuple[int | None, ...]:
        return tuple(None if data.draw(st.booleans()) else dim for dim in shape)

    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        return
    assert shapes.is_compatible(shapes.broadcast(forget(a), forget(b)), expected)


def test_broadcast_of_unknown() -> None:
    assert shapes.broadcast(None, (2,)) is None
    assert shapes.broadcast((None, 3), (1,)) == (None, 3)
    assert shapes.broadcast((None,), (5,)) == (5,)
    assert shapes.broadcast((None,), (1,)) == (None,)


def test_texts_are_tensorflow_s() -> None:
    assert shapes.text(None) == "<unknown>"
    assert shapes.text(()) == "()"
    assert shapes.text((None,)) == "(?,)"
    assert shapes.text((2, None)) == "(2, ?)"


def test_merge_and_compatibility() -> None:
    assert shapes.merge((None, 3), (2, None)) == (2, 3)
    assert shapes.merge(None, (1,)) == (1,)
    assert shapes.is_compatible((None,), (7,))
    assert not shapes.is_compatible((1,), (1, 1))
    with pytest.raises(InvalidArgumentError, match=r"Shapes \(2,\) and \(3,\) are not compatible"):
        shapes.merge((2,), (3,))


def test_sizes_and_axes() -> None:
    assert shapes.num_elements((2, 3)) == 6
    assert shapes.num_elements(()) == 1
    assert shapes.num_elements((2, None)) is None
    assert shapes.is_fully_defined(())
    assert not shapes.is_fully_defined(None)
    assert shapes.unknown(2) == (None, None)
    assert shapes.concatenate((1,), (None,)) == (1, None)
    assert shapes.as_shape([2, -1, None]) == (2, None, None)
    with pytest.raises(InvalidArgumentError, match="got -2"):
        shapes.as_shape([-2])
    with pytest.raises(InvalidArgumentError, match=r"Axis 3 is outside \[-3, 3\)"):
        shapes.canonical_axis(3, 3)
