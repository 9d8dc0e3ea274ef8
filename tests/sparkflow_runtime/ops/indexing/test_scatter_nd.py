"""Updates of parts of a variable by index vectors and slices, against plain numpy."""

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import FailedPreconditionError, InvalidArgumentError
from support.eager import EagerBuilder

REDUCTIONS = {
    "ScatterNdAdd": np.add,
    "ScatterNdSub": np.subtract,
    "ScatterNdMax": np.maximum,
    "ScatterNdMin": np.minimum,
}
INDICES = {
    "elements": np.int32([[0, 1], [2, 2], [0, 1]]),
    "rows": np.int64([[1], [0]]),
    "nested": np.int32([[[1, 0]], [[2, 1]]]),
    "everything": np.zeros((1, 0), np.int32),
    "none": np.zeros((0, 2), np.int32),
}


@pytest.fixture
def g():
    return EagerBuilder()


def variable(g, value):
    value = np.asarray(value)
    ref = g.VariableV2(name="v", shape=value.shape, dtype=dtypes.as_dtype(value.dtype))
    g.Assign(ref, value)
    return ref


CASES = [
    (op, dtype)
    for op in ("ScatterNdUpdate", *REDUCTIONS)
    for dtype in (np.float32, np.int64, np.complex64)
    if dtype is not np.complex64 or op not in ("ScatterNdMax", "ScatterNdMin")
]


@pytest.mark.parametrize("indices", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_each_index_vector_counts(g, op, indices, dtype):
    start = np.arange(9).reshape(3, 3).astype(dtype)
    shape = indices.shape[:-1] + start.shape[indices.shape[-1] :]
    updates = (np.arange(np.prod(shape)).reshape(shape) + 10).astype(dtype)
    expected = start.copy()
    for place in np.ndindex(*indices.shape[:-1]):
        where = tuple(indices[place])
        old = expected[where]
        expected[where] = (
            REDUCTIONS[op](old, updates[place]) if op in REDUCTIONS else updates[place]
        )
    ref = variable(g, start)
    out = getattr(g, op)(ref, indices, updates)
    np.testing.assert_array_equal(ref.value.read(), expected)
    assert out.value is ref.value
    assert out.static_shape == (3, 3)


def test_strings_can_be_set(g):
    ref = variable(g, np.array([b"a", b"b"], np.object_))
    g.ScatterNdUpdate(ref, np.int32([[1]]), np.array([b"c"], np.object_))
    assert ref.value.read().tolist() == [b"a", b"c"]


@pytest.mark.parametrize(
    ("indices", "updates", "text"),
    [
        ([[3, 0]], [1.0], r"indices\[0\] = \[3, 0\] does not index into shape \[3,3\]"),
        ([[-1, 0]], [1.0], r"indices\[0\] = \[-1, 0\] does not index"),
        ([[1, 0]], [1.0, 2.0], r"updates must have shape .* = \[1\], but has \[2\]"),
        ([[1, 0, 0]], [1.0], r"must be <= rank of .*, but is 3 and the rank is 2"),
        (1, [1.0], r"indices must be at least a vector"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(g, indices, updates, text):
    ref = variable(g, np.zeros((3, 3), np.float32))
    with pytest.raises(InvalidArgumentError, match=text):
        g.ScatterNdAdd(ref, np.int32(indices), np.float32(updates))
    assert not ref.value.read().any()


def test_an_uninitialised_variable_is_refused(g):
    ref = g.VariableV2(name="v", shape=(3,), dtype=dtypes.float32)
    with pytest.raises(FailedPreconditionError, match="uninitialized value v"):
        g.ScatterNdAdd(ref, np.int32([[1]]), np.float32([1]))


class TestStridedSliceAssign:
    def test_a_slice_is_set(self, g):
        ref = variable(g, np.zeros((3, 4), np.float32))
        bounds = (np.int32([1, 0]), np.int32([3, 4]), np.int32([1, 2]))
        out = g.StridedSliceAssign(ref, *bounds, np.float32([[1, 2], [3, 4]]))
        expected = np.zeros((3, 4), np.float32)
        expected[1:3, 0:4:2] = [[1, 2], [3, 4]]
        np.testing.assert_array_equal(ref.value.read(), expected)
        assert out.value is ref.value

    def test_masks_mean_what_they_mean_when_slicing(self, g):
        ref = variable(g, np.zeros((2, 3), np.int32))
        bounds = (np.int32([1, 1]), np.int32([2, 0]), np.int32([1, 1]))
        g.StridedSliceAssign(ref, *bounds, np.int32([7, 8]), shrink_axis_mask=1, end_mask=2)
        assert ref.value.read().tolist() == [[0, 0, 0], [0, 7, 8]]

    def test_another_shape_is_refused(self, g):
        ref = variable(g, np.zeros(4, np.float32))
        bounds = (np.int32([0]), np.int32([2]), np.int32([1]))
        with pytest.raises(
            InvalidArgumentError, match=r"\[2\] of the slice and \[3\] of the value"
        ):
            g.StridedSliceAssign(ref, *bounds, np.float32([1, 2, 3]))
