"""Contrast, against numpy."""

import numpy as np
import pytest

from sparkflow_runtime.codegen.images.contrast import contrasted
from sparkflow_runtime.codegen.machine import native

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")


@pytest.mark.parametrize("factor", [0, 0.5, -2, np.inf])
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (5, 7, 3), (2, 9, 8, 4), (3, 2, 33, 40, 3), (20, 96, 96, 1)]
)
def test_contrast(shape: tuple[int, ...], factor: float) -> None:
    images = np.random.default_rng(2).random(shape, np.float32) * 255
    images.reshape(-1)[-1] = np.nan
    found = contrasted(images, np.array(factor, np.float32))
    mean = images.mean(axis=(-3, -2), keepdims=True, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        wanted = (images - mean) * factor + mean
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-2)


def test_what_there_is_no_code_for() -> None:
    images, factor = np.ones((2, 4, 5, 3), np.float32), np.array(2, np.float32)
    assert contrasted(images.astype(np.float64), factor) is None
    assert contrasted(images, factor.astype(np.float64)) is None
    assert contrasted(images[:, ::-1], factor) is None
