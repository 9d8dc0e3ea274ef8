"""Coordinates of true elements, against numpy."""

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.sparse.nonzero import nonzero

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")


@pytest.mark.parametrize("share", [0, 0.02, 0.5, 1])
@pytest.mark.parametrize(
    "shape",
    [(1,), (63,), (64,), (1000,), (3, 64), (50, 129), (4, 3, 70), (2, 3, 1, 4, 5), (5, 0), (0, 5)],
)
def test_coordinates(shape: tuple[int, ...], share: float) -> None:
    mask = np.random.default_rng(4).random(shape) < share
    for given in (mask, mask.T, mask[::-1]):
        found = nonzero(given)
        assert found is not None
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, np.argwhere(given))


def test_what_there_is_no_code_for() -> None:
    assert nonzero(np.array(True)) is None
    assert nonzero(np.zeros(3)) is None
    assert nonzero(np.ones((1,) * 9, bool)) is None
