"""log |gamma(x)|, against SciPy's in float64."""

import numpy as np
import pytest
from scipy.special import gammaln

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.elementwise.log_gamma import log_gamma

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "x",
    [
        RNG.uniform(-50, 0, 20_000),
        RNG.uniform(0, 10, 20_000),
        1 + RNG.uniform(-1e-6, 1e-6, 1000),
        2 + RNG.uniform(-1e-6, 1e-6, 1000),
        10 ** RNG.uniform(-37, 36, 20_000),
        -(10 ** RNG.uniform(-37, 6, 20_000)),
    ],
)
def test_numbers(x: np.ndarray) -> None:
    x = x.astype(np.float32)
    found = log_gamma(x)
    assert found is not None
    wanted = gammaln(x.astype(np.float64)).astype(np.float32)
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    errors = np.abs(found[finite].astype(np.float64) - wanted[finite])
    assert (errors <= 2 * np.spacing(np.abs(wanted[finite]))).all()


def test_special_numbers() -> None:
    x = np.array([[0, -0.0, -1, -20, -1e10], [np.inf, -np.inf, np.nan, 1, 2]], np.float32)
    inf = np.inf
    wanted = [[inf, inf, inf, inf, inf], [inf, -inf, np.nan, 0, 0]]
    np.testing.assert_array_equal(log_gamma(x), wanted)


def test_what_there_is_no_code_for() -> None:
    assert log_gamma(np.ones(3)) is None
    assert log_gamma(np.ones(0, np.float32)) is None
    assert log_gamma(np.ones((4, 4), np.float32)[:, ::2]) is None
