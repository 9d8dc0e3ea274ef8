"""Local response normalisation in machine code against numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.tiles import channel_norm
from sparkflow_runtime.ops.nn import lrn
from support.sharing import shared_among

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

CASES = [
    # channels, radius, alpha, beta
    (16, 5, 0.01, 0.75),
    (64, 5, 1.0, 0.5),
    (7, 2, 0.3, 0.25),
    (33, 5, 0.1, 1.0),
    (1, 5, 0.1, 0.75),
    (5, 0, 0.1, 0.75),
    (40, 16, 0.1, 0.75),
]


_threads = shared_among(channel_norm, "PARALLEL_ELEMENTS", autouse=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("channels", "radius", "alpha", "beta"), CASES)
def test_norms_and_their_gradients(
    channels: int, radius: int, alpha: float, beta: float, dtype: Any
) -> None:
    generator = np.random.default_rng(4)
    x, dy = (generator.standard_normal((3, 2, 5, channels)).astype(dtype) for _ in range(2))
    attrs: dict[str, Any] = {"depth_radius": radius, "bias": 1.2, "alpha": alpha, "beta": beta}
    y = lrn.LRN().compute(np, x, **attrs)
    dx = lrn.LRNGrad().compute(np, dy, x, y, **attrs)
    for is_gradient, given, expected in ((False, (x,), y), (True, (dy, x, y), dx)):
        run = channel_norm.bind(is_gradient, x.dtype, 30, channels, radius, 1.2, alpha, beta)
        assert run is not None
        out = np.full_like(x, 77)
        assert run(*given, out)
        np.testing.assert_allclose(
            out,
            expected,
            rtol=1e-5 if dtype is np.float32 else 1e-12,
            atol=1e-6 if dtype is np.float32 else 1e-14,
        )


def test_what_is_not_a_number_stays_within_the_radius() -> None:
    x = np.ones((1, 1, 2, 20), np.float32)
    x[0, 0, 0, 10] = np.nan
    run = channel_norm.bind(False, x.dtype, 2, 20, 2, 1.0, 1.0, 0.75)
    assert run is not None
    out = np.empty_like(x)
    assert run(x, out)
    assert np.flatnonzero(np.isnan(out)).tolist() == [8, 9, 10, 11, 12]


def test_what_has_no_kernel() -> None:
    single = np.dtype(np.float32)
    assert channel_norm.bind(False, single, 2, 20, 2, 1.0, 1.0, 0.6) is None
    assert channel_norm.bind(False, single, 0, 20, 2, 1.0, 1.0, 0.5) is None
    assert channel_norm.bind(False, np.dtype(np.float16), 2, 20, 2, 1.0, 1.0, 0.5) is None
    assert channel_norm.bind(False, single, 2, 200, 99, 1.0, 1.0, 0.5) is None
