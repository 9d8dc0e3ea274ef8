from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.rows.axis_gather import gather_along

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", "c16"])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("shape", "axis", "count"), [((60, 50), 1, 203), ((3, 40, 21, 2), 2, 17), ((9, 30, 3), 1, 101)]
)
def test_slices_of_an_axis(
    dtype: str, kind: Any, shape: tuple[int, ...], axis: int, count: int
) -> None:
    rng = np.random.default_rng(0)
    params = rng.integers(0, 100, shape).astype(dtype)
    indices = rng.integers(0, shape[axis], (count, 2)).astype(kind)
    found = gather_along(params, indices, axis)
    assert found is not None
    np.testing.assert_array_equal(found, np.take(params, indices, axis))


@pytest.mark.parametrize("batch", [1, 2])
def test_each_entry_of_shared_dimensions_has_its_own_indices(batch: int) -> None:
    rng = np.random.default_rng(1)
    params = rng.normal(size=(4, 5, 6, 30, 2)).astype(np.float32)
    indices = rng.integers(0, 30, (*(4, 5)[:batch], 11))
    found = gather_along(params, indices, 3, batch)
    expected = np.empty((4, 5, 6, 11, 2), np.float32)
    for place in np.ndindex(4, 5):
        expected[place] = params[place][:, indices[place[:batch]]]
    assert found is not None
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("wrong", [-1, 30, 2**40, -(2**40)])
@pytest.mark.parametrize("place", [0, 1, 100, 102])
def test_an_index_out_of_bounds_is_found(wrong: int, place: int) -> None:
    params = np.zeros((20, 30), np.float32)
    indices = np.zeros(103, np.int64)
    indices[place] = wrong
    assert gather_along(params, indices, 1) is None


def test_an_array_is_filled_by_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "count", lambda: 2)
    rng = np.random.default_rng(2)
    params, indices = rng.normal(size=(600, 700)), rng.integers(0, 700, 500)
    out = np.zeros((600, 500))
    assert gather_along(params, indices, 1, out=out) is out
    np.testing.assert_array_equal(out, params[:, indices])


def test_what_numpy_does_as_well_is_left_to_it() -> None:
    params, indices = np.zeros((50, 60), np.float32), np.zeros(40, np.int32)
    assert gather_along(params[:10], indices, 1) is None  # few
    assert gather_along(params, indices.astype(np.int16), 1) is None
    assert gather_along(params.astype(object), indices, 1) is None
    assert gather_along(params.T, indices, 1) is None
    assert gather_along(np.zeros((50, 9, 80), np.float32), indices, 1) is None  # long slices
    assert gather_along(np.zeros((0, 9), np.float32), indices, 1) is None
    assert gather_along(np.zeros((9, 0), np.float32), indices[:0], 1) is None
